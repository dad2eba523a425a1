"""Questions to the user at the terminal, answered by a number."""

from __future__ import annotations

from collections.abc import Sequence

import click

from acp_server.cli.screen import Screen


def choose(screen: Screen, question: str, answers: Sequence[str]) -> int | None:
    """Which of the answers the user chose; None for none of them (an empty line, or the end of the input)."""
    screen.line(f"  ? {question}", fg="magenta", bold=True)
    for number, answer in enumerate(answers, 1):
        screen.line(f"    {number}) {answer}")
    while True:
        try:
            text = input(click.unstyle(f"    1-{len(answers)}, or Enter for none: ")).strip()
        except EOFError:
            screen.line()
            return None
        except KeyboardInterrupt:
            screen.line()
            raise
        if not text:
            return None
        if text.isdecimal() and 1 <= int(text) <= len(answers):
            return int(text) - 1

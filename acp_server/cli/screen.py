"""Shows what an agent says and does as lines of text, with colours where the output is a terminal.

It asks nothing and waits for nothing; `acp_server.cli.chat` and `acp_server.cli.demo` feed it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from acp_server.agent.log_stream import UNSAFE
from acp_server.cli.screen_call import Call, shown
from acp_server.schema import (
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ContentChunk,
    CurrentModeUpdate,
    Plan,
    SessionUpdate,
    ToolCall,
    ToolCallUpdate,
    UserMessageChunk,
)

_WIDEST_USAGE: Final = 40
"""Characters of a command and its arguments up to which what it does stands beside the others'."""

_STATUS_COLOURS: Final = {"completed": "green", "failed": "red"}
_PLAN_MARKS: Final = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}

_NEWLINE: Final = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"


def clean(text: str) -> str:
    """`text` without what would make a terminal do something else than show it."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """`text`, clean, with a mark in place of each newline."""
    return clean(text).replace("\n", _NEWLINE)


def use_standard_output() -> None:
    """Make standard output take any text, whatever the terminal's character set."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


class Screen:
    """Standard output, written to line by line or as text streams in.

    An agent repeats what it reads in files, and a terminal obeys what it is shown: whatever is written here is made
    clean here.
    """

    def __init__(self) -> None:
        self._colour = None if "NO_COLOR" not in os.environ else False
        self._line_start = True
        self._speaking: type | None = None
        self._calls: dict[str, Call] = {}

    # -- writing

    def say(self, text: str, **style: Any) -> None:
        """Continue the text that is being written."""
        if text:
            self._write(text, **style)
            self._line_start = text.endswith("\n")

    def line(self, text: str = "", rest: str = "", **style: Any) -> None:
        """A line of its own, and just one, whatever is in `text`. `rest` is what stands behind it, dim."""
        self.fresh()
        self._write(one_line(text), **style)
        self._write(one_line(rest), dim=True)
        self._write("\n")

    def error(self, error: Exception) -> None:
        """What went wrong. It may be several lines; those behind the first are indented."""
        first, *others = clean(str(error)).split("\n")
        self.line(first, fg="red")
        for other in others:
            self.line(f"    {other}", fg="red")

    def fresh(self) -> None:
        """Go to the start of a line, if not there."""
        if not self._line_start:
            self._write("\n")
            self._line_start = True
        self._speaking = None

    def _write(self, text: str, **style: Any) -> None:
        if text:
            text = clean(text)
            click.echo(click.style(text, **style) if style else text, nl=False, color=self._colour)

    # -- what an agent shows

    def update(self, update: SessionUpdate | ToolCallUpdate) -> None:
        """Show one update of a session, or of a tool call that waits for approval."""
        if isinstance(update, ContentChunk):
            self._chunk(update)
        elif isinstance(update, (ToolCall, ToolCallUpdate)):
            self._call(update)
        elif isinstance(update, Plan):
            for entry in update.entries:
                self.line(f"  {_PLAN_MARKS.get(entry.status, '[?]')} {entry.content}", fg="cyan")
        elif isinstance(update, CurrentModeUpdate):
            self.line(f"  mode: {update.current_mode_id}", fg="cyan")
        elif isinstance(update, AvailableCommandsUpdate):
            self.commands(update.available_commands)

    def commands(self, commands: Sequence[Any]) -> None:
        """Show what can be asked for."""
        usages = [one_line(f"/{command.name} {getattr(command.input, 'hint', '')}").rstrip() for command in commands]
        width = min(max(map(len, usages), default=0), _WIDEST_USAGE)
        for usage, command in zip(usages, commands, strict=True):
            self.line(f"  {usage:<{width}}  {command.description}", dim=True)

    def _chunk(self, chunk: ContentChunk) -> None:
        if self._speaking is not type(chunk):
            self.fresh()
            self._speaking = type(chunk)
            if isinstance(chunk, UserMessageChunk):
                self.say("> ")
        style = {"dim": True} if isinstance(chunk, AgentThoughtChunk) else {}
        self.text(shown(chunk.content), **style)

    def text(self, text: str, **style: Any) -> None:
        """A piece of a message."""
        self.say(text, **style)

    def _call(self, update: ToolCall | ToolCallUpdate) -> None:
        id = update.tool_call_id
        call = self._calls.setdefault(id, Call(id))
        if call.change(update):
            where = ""
            if (locations := update.locations or []) and len(locations) == 1:
                line = locations[0].line
                where = f"  {locations[0].path}{'' if line is None else f':{line}'}"
            elif locations:
                where = f"  {len(locations)} places"
            status = (call.status or "pending").replace("_", " ")
            colour = _STATUS_COLOURS.get(call.status or "", "yellow")
            self.line(f"  * {call.title} [{status}]{where}", fg=colour)
        for text, style in call.news(update.content):
            self.line(f"    {text}", **style)


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

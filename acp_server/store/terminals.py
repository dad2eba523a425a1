"""What a turn keeps of the terminals that ran in it, and how a replay shows that.

A terminal does not outlive its turn: a client that replays a tool call with a terminal's id has no such terminal. To a
client of version 1, whose terminals are its own, the last output is text. In version 2 the agent tells what its
terminals show.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final

TERMINAL: Final = "_acp_server/terminal"
"""Among what is kept of a turn: a terminal as it was in the end. It is not an update; see `note`."""

ESCAPE: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])")
"""Colours, movements of the cursor, titles of windows."""


def note(id: str, about: dict[str, Any], output: str | None, exit_status: dict[str, Any] | None) -> dict[str, Any]:
    """What is kept of a terminal. `about`: its `command` and `cwd`. `output`: the last that the agent knows of."""
    kept = {"sessionUpdate": TERMINAL, "terminalId": id, **about}
    if output is not None:
        kept["output"] = output
    if exit_status is not None:
        kept["exitStatus"] = exit_status
    return kept


def shown(events: Iterable[dict[str, Any]], *, as_terminals: bool) -> Iterator[dict[str, Any]]:
    """The updates of a turn with its terminals in them. `as_terminals`: in the form of version 2; else as text in the
    tool calls that show them."""
    events = list(events)
    kept = {event["terminalId"]: event for event in events if event.get("sessionUpdate") == TERMINAL}
    for event in events:
        if event.get("sessionUpdate") == TERMINAL:
            if as_terminals:
                yield _update(event)
        elif kept and not as_terminals and "toolCallId" in event and (content := event.get("content")):
            yield {**event, "content": list(_as_text(content, kept))}
        else:
            yield event


def _update(kept: dict[str, Any]) -> dict[str, Any]:
    update = {**kept, "sessionUpdate": "terminal_update"}
    if "output" in kept:
        update["output"] = {"data": b64encode(kept["output"].encode()).decode()}
    # Of a command whose end is not known, it is known that it has ended.
    update.setdefault("exitStatus", {})
    return update


def _as_text(content: list[dict[str, Any]], kept: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for piece in content:
        terminal = kept.get(piece.get("terminalId", "")) if piece.get("type") == "terminal" else None
        if terminal is None:
            yield piece
        elif output := ESCAPE.sub("", terminal.get("output", "")):
            yield {"type": "content", "content": {"type": "text", "text": _fenced(output)}}


def _fenced(text: str) -> str:
    """As a block of code: clients show text as Markdown."""
    fence = "~" * max(3, 1 + max(map(len, re.findall("~+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"

"""Shows what an agent says and does as lines of text, with colours where the output is a terminal.

It asks nothing and waits for nothing; `acp_server.cli.chat` and `acp_server.cli.demo` feed it.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from acp_server.schema import (
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    Content,
    ContentChunk,
    CurrentModeUpdate,
    Diff,
    Plan,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
    UserMessageChunk,
)

_MOST_LINES: Final = 12
"""Lines of a tool's output that are shown."""

_STATUS_COLOURS: Final = {"completed": "green", "failed": "red"}
_PLAN_MARKS: Final = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}

# An agent repeats what it reads in files, and a terminal obeys what it is shown.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """`text` without what would make a terminal do something else than show it."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def use_standard_output() -> None:
    """Make standard output take any text, whatever the terminal's character set."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


class Screen:
    """Standard output, written to line by line or as text streams in."""

    def __init__(self) -> None:
        self._colour = None if "NO_COLOR" not in os.environ else False
        self._line_start = True
        self._speaking: type | None = None
        self._calls: dict[str, tuple[str, str | None]] = {}

    # -- writing

    def say(self, text: str, **style: Any) -> None:
        """Continue the text that is being written."""
        if text:
            self._write(text, **style)
            self._line_start = text.endswith("\n")

    def line(self, text: str = "", **style: Any) -> None:
        """One or more lines of their own."""
        self.fresh()
        self.line_end(text, **style)

    def line_end(self, text: str = "", **style: Any) -> None:
        """The rest of the line that is being written."""
        self._write(text, **style)
        self._write("\n")
        self._line_start = True

    def fresh(self) -> None:
        """Go to the start of a line, if not there."""
        if not self._line_start:
            self._write("\n")
            self._line_start = True
        self._speaking = None

    def _write(self, text: str, **style: Any) -> None:
        click.echo(click.style(text, **style) if style else text, nl=False, color=self._colour)

    # -- what an agent shows

    def update(self, update: SessionUpdate | ToolCallUpdate) -> None:
        """Show one update of a session, or of a tool call that waits for approval."""
        if isinstance(update, ContentChunk):
            self._chunk(update)
        elif isinstance(update, ToolCall):
            self._calls[update.tool_call_id] = (update.title, update.status)
            self._call(update.title, update.status, update.locations)
            self._output(update.content)
        elif isinstance(update, ToolCallUpdate):
            self._progress(update)
        elif isinstance(update, Plan):
            for entry in update.entries:
                self.line(f"  {_PLAN_MARKS.get(entry.status, '[?]')} {clean(entry.content)}", fg="cyan")
        elif isinstance(update, CurrentModeUpdate):
            self.line(f"  mode: {clean(update.current_mode_id)}", fg="cyan")
        elif isinstance(update, AvailableCommandsUpdate):
            self.commands(update.available_commands)

    def commands(self, commands: Sequence[Any]) -> None:
        """Show what can be asked for."""
        for command in commands:
            hint = getattr(command.input, "hint", "")
            self.line(f"  /{clean(f'{command.name} {hint}'):<24} {clean(command.description)}", dim=True)

    def _chunk(self, chunk: ContentChunk) -> None:
        if self._speaking is not type(chunk):
            self.fresh()
            self._speaking = type(chunk)
            if isinstance(chunk, UserMessageChunk):
                self.say("> ")
        style = {"dim": True} if isinstance(chunk, AgentThoughtChunk) else {}
        self.text(clean(_shown(chunk.content)), **style)

    def text(self, text: str, **style: Any) -> None:
        """A piece of a message."""
        self.say(text, **style)

    def _progress(self, update: ToolCallUpdate) -> None:
        title, before = self._calls.get(update.tool_call_id, (update.tool_call_id, None))
        title, status = update.title or title, update.status or before
        self._calls[update.tool_call_id] = (title, status)
        if status != before:
            self._call(title, status, update.locations or [])
        self._output(update.content or [])

    def _call(self, title: str, status: str | None, locations: Sequence[ToolCallLocation]) -> None:
        where = ""
        if len(locations) == 1:
            line = locations[0].line
            where = f"  {locations[0].path}{'' if line is None else f':{line}'}"
        elif locations:
            where = f"  {len(locations)} places"
        colour = _STATUS_COLOURS.get(status or "", "yellow")
        self.line(f"  * {clean(title)} [{(status or 'pending').replace('_', ' ')}]{clean(where)}", fg=colour)

    def _output(self, contents: Sequence[ToolCallContent]) -> None:
        for content in contents:
            if isinstance(content, Diff):
                self._diff(content)
            elif isinstance(content, Content):
                self._block(clean(_shown(content.content)).splitlines())

    def _diff(self, diff: Diff) -> None:
        before, after = ((text or "").splitlines() for text in (diff.old_text, diff.new_text))
        self._block([clean(text) for text in difflib.unified_diff(before, after, diff.path, diff.path, lineterm="")])

    def _block(self, lines: Sequence[str]) -> None:
        for text in lines[:_MOST_LINES]:
            self.line(f"    {text}", dim=True)
        if len(lines) > _MOST_LINES:
            self.line(f"    ... {len(lines) - _MOST_LINES} more lines", dim=True)


def _shown(block: Any) -> str:
    if isinstance(block, TextContent):
        return block.text
    name = getattr(block, "uri", None) or getattr(getattr(block, "resource", None), "uri", None)
    return f"[{block.type}{f': {name}' if name else ''}]"

"""Shows the messages and actions of an agent as lines of text, with colours where the output is a terminal.

This module asks nothing and waits for nothing. `acp_server.apps.cli.chat` and `acp_server.apps.cli.demo` use it.
"""

from __future__ import annotations

import os
import shutil
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, cast

import click

from acp_server.apps.cli.output import StandardOutput
from acp_server.apps.cli.screen_call import Calls, CommandOutput, Line, ShownCall, place_of, text_of
from acp_server.safe_text import escape, masked
from acp_server.schema import (
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    ContentChunk,
    CurrentModeUpdate,
    Notice,
    Plan,
    PlanEntry,
    RequestPermissionRequest,
    SessionUpdate,
    ToolCall,
    ToolCallUpdate,
    UnknownSessionUpdate,
    UserMessageChunk,
)

_WIDEST_USAGE: Final = 40
"""The most characters of a command and its arguments. If they are longer, the description is not aligned with the
others."""

_PLAN_MARKS: Final = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}

_TERMINAL: Final = ("terminal_update", "terminal_output_chunk")

_MOST_OUTPUTS: Final = 100
"""The most commands whose output is kept."""

_MOST_COMMANDS: Final = 200
"""The most commands that are shown."""

_LONGEST_DESCRIPTION: Final = 1_000
"""The most characters of a command's description that are shown."""
_ENDLESS: Final = 1_000_000
"""A number of columns that no line exceeds."""

_NEWLINE: Final = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"


def clean(text: str) -> str:
    """Return `text` with U+FFFD for each unsafe character (see `acp_server.safe_text.UNSAFE`). Newlines and tabs stay,
    and CR LF becomes a newline."""
    return masked(text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return `text`, cleaned, with a mark in place of each newline."""
    return clean(text).replace("\n", _NEWLINE)


def step(entry: PlanEntry) -> str:
    """Return a step of a plan with a mark for its state. The text comes from the agent and is not cleaned yet."""
    return f"{_PLAN_MARKS.get(entry.status, '[?]')} {entry.content}"


def hint_of(command: AvailableCommand) -> str:
    """Return the hint for the argument of a command, or an empty string."""
    return getattr(command.input, "hint", None) or ""


def use_standard_output() -> None:
    """Make standard output accept any text, whatever the terminal's character set."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _columns() -> int:
    """Return the width of the terminal. If the output is not a terminal, no line is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _ENDLESS


class Screen:
    """Writes to standard output, line by line or as text streams in.

    An agent repeats the content of files, and a terminal obeys control sequences. So `painted` is the only way to a
    terminal, and it cleans all text. `write_out` gets only painted text.
    """

    def __init__(self, output: StandardOutput | None = None) -> None:
        self.output: StandardOutput = output or StandardOutput()
        self._colour = None if "NO_COLOR" not in os.environ else False
        self._line_start = True
        self.speaking: type | None = None
        """The type of the chunk whose text is being written."""
        self._outputs: dict[str, CommandOutput] = {}
        self.calls: Final = Calls(self._outputs)

    # -- writing

    def say(self, text: str, **style: Any) -> None:
        """Continue the text that is being written."""
        if text:
            self._write(text, **style)
            self._line_start = text.endswith("\n")

    def line(self, text: str = "", rest: str = "", **style: Any) -> None:
        """Write exactly one line, even if `text` has newlines. `rest` follows `text`, dim."""
        self.fresh()
        self._write(one_line(text), **style)
        self._write(one_line(rest), dim=True)
        self._write("\n")

    def error(self, error: Exception) -> None:
        """Show an error. It may have several lines. All lines but the first are indented."""
        first, *others = clean(str(error)).split("\n")
        self.line(first, fg="red")
        for other in others:
            self.line(f"    {other}", fg="red")

    def fresh(self) -> None:
        """Go to the start of a line, unless the output is there already."""
        if not self._line_start:
            self._write("\n")
            self._line_start = True
        self.speaking = None

    def painted(self, text: str, paint: Callable[[str], str] | None = None) -> str:
        """Return `text`, cleaned, with the control sequences that `paint` puts around it."""
        text = clean(text)
        if paint is None or self._colour is False:
            return text
        # Each line by itself: text that is shown in between has other colours.
        return "\n".join(paint(line) if line else "" for line in text.split("\n"))

    def write_out(self, painted: str) -> None:
        """Write painted text to the terminal. A screen with another output overrides this."""
        self.output.write(painted, colour=self._colour)

    def _write(self, text: str, **style: Any) -> None:
        if text:
            self.write_out(self.painted(text, partial(click.style, **style) if style else None))

    # -- what an agent shows

    def update(self, update: SessionUpdate | ToolCallUpdate) -> None:
        """Show one update of a session, or of a tool call that waits for approval."""
        if isinstance(update, ContentChunk):
            self._chunk(update)
        elif isinstance(update, (ToolCall, ToolCallUpdate)):
            self._call(update)
        elif isinstance(update, Plan):
            for entry in update.entries:
                self.line(f"  {step(entry)}", fg="cyan")
        elif isinstance(update, CurrentModeUpdate):
            self.line(f"  mode: {update.current_mode_id}", fg="cyan")
        elif isinstance(update, AvailableCommandsUpdate):
            self.commands(update.available_commands)
        elif isinstance(update, Notice):
            self.line(f"  {update.title}", f"  {update.description or ''}".rstrip(), fg="yellow")
        elif isinstance(update, UnknownSessionUpdate) and update.tag in _TERMINAL:
            self._terminal(update.fields)

    def commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Show the commands of the agent."""
        if not commands:
            return  # click wants at least one row
        rows = [
            (
                one_line(f"/{escape(each.name, exact=True)} {hint_of(each)}").rstrip(),
                one_line(each.description[:_LONGEST_DESCRIPTION]),
            )
            for each in commands[:_MOST_COMMANDS]
        ]
        columns = _columns()
        table = click.HelpFormatter(width=columns)
        with table.indentation():
            table.write_dl(rows, col_max=min(_WIDEST_USAGE, columns // 3))
        for line in table.getvalue().splitlines():
            self.line(line, dim=True)
        if (more := len(commands) - _MOST_COMMANDS) > 0:
            self.line(f"  ... {more:,} more commands", dim=True)

    def _chunk(self, chunk: ContentChunk) -> None:
        if self.speaking is not type(chunk):
            self.fresh()
            self.speaking = type(chunk)
            if isinstance(chunk, UserMessageChunk):
                self.say("> ")
        style = {"dim": True} if isinstance(chunk, AgentThoughtChunk) else {}
        self.text(text_of(chunk.content), **style)

    def text(self, text: str, **style: Any) -> None:
        """Show the next part of a message."""
        self.say(text, **style)

    def _call(self, update: ToolCall | ToolCallUpdate) -> None:
        call = self.calls.of(update)
        if call.change(update):
            where = f"  {place}" if (place := place_of(update.locations)) else ""
            self.line(f"  * {call.title} [{call.state}]{where}", fg=call.colour)
        self._write_news(call)

    def command_wrote(self, terminal_id: str, text: str) -> None:
        """Add text that a local command has written. It is shown with the command's call."""
        self._output(terminal_id).feed(text)
        self._has_written(terminal_id)

    def _terminal(self, update: dict[str, Any]) -> None:
        """Add text that a command of the agent has written (version 2 of the protocol)."""
        id = str(update.get("terminalId"))
        if "output" in update:
            self._outputs.pop(id, None)
            output: Any = update["output"]
            update = cast("dict[str, Any]", output) if isinstance(output, dict) else {}
        try:
            self._output(id).feed_bytes(b64decode(update.get("data", ""), validate=True))
        except (ValueError, TypeError):
            return  # not base64, which counts as absent
        self._has_written(id)

    def _output(self, terminal_id: str) -> CommandOutput:
        if terminal_id not in self._outputs and len(self._outputs) >= _MOST_OUTPUTS:
            del self._outputs[next(iter(self._outputs))]
        return self._outputs.setdefault(terminal_id, CommandOutput())

    def _has_written(self, terminal_id: str) -> None:
        for call in self.calls:
            if call.shows(terminal_id):
                self.call_wrote(call)

    def call_wrote(self, call: ShownCall) -> None:
        """Show the new output of a running call."""
        self._write_news(call)

    def _write_news(self, call: ShownCall) -> None:
        self._lines(call.news(call.contents))

    def _lines(self, lines: Iterable[Line]) -> bool:
        """Write lines; returns whether one of them is cut."""
        is_cut = False
        for text, style, is_cut_here in lines:
            self.line(f"    {text}", **style)
            is_cut |= is_cut_here
        return is_cut

    def turn_over(self) -> None:
        """Record that the turn is over. Nothing of the turn will change any more."""
        self.fresh()

    # -- questions

    def question(self, request: RequestPermissionRequest) -> Callable[[], None] | None:
        """Show the subject of a question (the action, its arguments, the changes of files) and the answers. If the
        subject is too long, only its beginning and its end are shown. Then a function is returned that shows all of
        it."""
        self.update(request.tool_call)
        call = self.calls.of(request.tool_call)
        self.show_call(call)
        is_cut = self._lines(call.unseen()) | call.is_cut
        is_cut |= self._lines(call.asked())
        self._asked(call, request)
        if not is_cut:
            return None

        def show_all() -> None:
            self._lines(call.whole())
            self._asked(call, request)

        return show_all

    def _asked(self, call: ShownCall, request: RequestPermissionRequest) -> None:
        self.line(f"  ? {call.title}", fg="magenta", bold=True)
        self.answers([option.name for option in request.options])

    def show_call(self, call: ShownCall) -> None:
        """Show the details of a call before the user decides. This class shows nothing here, because the call was shown
        when it arrived."""

    def at_line_start(self) -> None:
        """Record that the next text is at the start of a line, because the user will have pressed Enter."""
        self._line_start = True

    def answers(self, answers: Sequence[str]) -> None:
        """Show the answers to a question, each with its number."""
        for number, answer in enumerate(answers, 1):
            self.line(f"    {number}) {answer}")

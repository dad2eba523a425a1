"""Shows the output of an agent at a terminal that is drawn on. Finished lines do not change. The lines below them may
still change.

This module draws nothing itself and asks nothing; `acp_server.apps.cli.chat.terminal` draws. `MarkdownStream` splits
Markdown, as its parts arrive, into a complete part and an open part.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from markdown_it import MarkdownIt
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment
from rich.style import Style

from acp_server.apps.cli.screen import Screen, clean, step
from acp_server.apps.cli.screen_call import ShownCall
from acp_server.schema import AgentMessageChunk, Plan, PlanEntry, SessionUpdate, ToolCall, ToolCallUpdate

_MOST_CALLS: Final = 8
"""The most running calls that are shown at the same time."""
_LONGEST_PIECE: Final = 32_000
"""The most characters of a message that are rendered as Markdown in one call. A table of this length takes a second or
two."""
_CALL_LINES: Final = 2
"""The number of lines that are shown of the end of a running call's output."""
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS: Final = {"completed": "✓", "failed": "✗"}


class LiveScreen(Screen):
    """A screen whose lines are drawn later. `changed` is called when there is something new to draw. `size` returns the
    columns and lines of the terminal."""

    def __init__(self, changed: Callable[[], None], size: Callable[[], tuple[int, int]]) -> None:
        super().__init__()
        self._changed = changed
        self._size = size
        self._out: list[str] = []
        self.waiting_bytes = 0
        """The number of characters that have not been drawn."""
        self._markdown: MarkdownStream | None = None
        self._tail = ("", 0, "")
        self._running: dict[str, tuple[ShownCall, float]] = {}
        self._plan: list[PlanEntry] = []
        self._status: tuple[str, float] | None = None
        self.queued: Sequence[str] = ()
        """The prompts that wait for the end of the turn."""

    # -- what stays

    def write_out(self, painted: str) -> None:
        """See `Screen`. The text is kept until it is drawn."""
        self._out.append(painted)
        self.waiting_bytes += len(painted)
        self._changed()

    def take(self) -> str:
        """Return the new lines that are complete."""
        lines, newline, rest = "".join(self._out).rpartition("\n")
        self._out = [rest] if rest else []
        self.waiting_bytes: int = len(rest)
        return lines + newline

    def fresh(self) -> None:
        """See `Screen`. A message that is being written ends here."""
        if self._markdown is not None:
            stream, self._markdown = self._markdown, None
            self._write_markdown(stream.finish())
        super().fresh()

    def text(self, text: str, **style: Any) -> None:
        """See `Screen`. Messages of the agent are Markdown. Its thoughts are plain text."""
        is_long = len(text) > _LONGEST_PIECE
        if self.speaking is not AgentMessageChunk or style or is_long:
            if is_long and self._markdown is not None:
                stream, self._markdown = self._markdown, None
                self._write_markdown(stream.finish())
            super().text(text, **style)
            return
        if self._markdown is None:
            self._markdown = MarkdownStream()
        self._write_markdown(self._markdown.feed(text.replace("\r\n", "\n")))
        self._changed()

    def _write_markdown(self, text: str) -> None:
        if text.strip():
            self.write_out(self.rendered(_markdown(text)))

    def rendered(self, what: RenderableType) -> str:
        """Return the output of rich, painted. Control sequences and links of rich are dropped."""
        console = Console(file=io.StringIO(), force_terminal=True, width=max(20, self._size()[0] - 1), highlight=False)
        painted: list[str] = []
        colours = COLOR_SYSTEMS[console.color_system] if console.color_system else None
        for segment in console.render(what):
            if segment.control:
                continue
            painted.append(self.painted(segment.text, _painter(segment, colours) if colours else None))
        return "".join(painted)

    # -- what changes

    def _call(self, update: ToolCall | ToolCallUpdate) -> None:
        call = self.calls.of(update)
        waited = call.status in (None, "pending")
        changed = call.change(update)
        id = update.tool_call_id
        if call.ended:
            _, since = self._running.pop(id, (call, 0.0))
            if changed:
                self._write_call(call, since)
            else:
                self._write_news(call)
        elif id in self._running or len(self._running) < 1000:
            now = time.monotonic()
            # The time in which the user thinks about a question is not counted for the call.
            began = waited and call.status == "in_progress"
            self._running[id] = (call, now if began else self._running.get(id, (call, now))[1])
        self._changed()

    def _write_call(self, call: ShownCall, since: float) -> None:
        took = f"  {time.monotonic() - since:.1f} s" if since else ""
        place = f"  {call.place}" if call.place else ""
        mark = _MARKS.get(call.status or "", "-")
        self.line(f"  {mark} {call.title} [{call.state}]", f"{place}{took}", fg=call.colour)
        self._write_news(call)

    def show_call(self, call: ShownCall) -> None:
        """See `Screen`."""
        self.line(f"  * {call.title} [{call.state}]", f"  {call.place}" if call.place else "", fg=call.colour)
        self._write_news(call)

    def call_wrote(self, call: ShownCall) -> None:
        """See `Screen`. While the call runs, the end of its output is drawn. The rest follows when it has ended."""
        self._changed()

    def update(self, update: SessionUpdate | ToolCallUpdate) -> None:
        """See `Screen`. A plan stays below the other output until the turn is over."""
        if isinstance(update, Plan):
            self._plan = list(update.entries)
            self._changed()
            return
        super().update(update)

    def turn_over(self) -> None:
        """See `Screen`."""
        self.fresh()
        for call, since in self._running.values():
            self._write_call(call, since)
        self._running.clear()
        for entry in self._plan:
            self.line(f"  {step(entry)}", fg="cyan")
        self._plan = []

    def status(self, what: str | None) -> None:
        """Show the status: the thing that the chat waits for."""
        self._status = None if what is None else (what, time.monotonic())
        self._changed()

    @property
    def moves(self) -> bool:
        """Whether the screen shows a running time."""
        return self._status is not None or bool(self._running)

    def live(self) -> str:
        """Return the lines between the finished lines and the prompt, painted, each with its newline. They fit on the
        terminal."""
        now = time.monotonic()
        columns, height = self._size()
        room = max(4, height - 6)
        turning = _SPINNER[int(now * 10) % len(_SPINNER)]
        below: list[str] = [self._line(f"  {step(entry)}", columns, "cyan") for entry in self._plan[: room // 2]]
        for call, since in list(self._running.values())[:_MOST_CALLS]:
            place = f"  {call.place}" if call.place else ""
            head = f"  {turning} {call.title} [{call.state}]{place}  {now - since:.1f} s"
            below.append(self._line(head, columns, "yellow"))
            below += [self._line(f"      {line}", columns) for line in call.last_lines(_CALL_LINES)]
        if (more := len(self._running) - _MOST_CALLS) > 0:
            below.append(self._line(f"  ... {more} more", columns))
        if self._status is not None:
            what, since = self._status
            below.append(self._line(f"  {turning} {what} ... {now - since:.0f} s", columns, "yellow"))
        below += [self._line(f"  then: {text}", columns) for text in list(self.queued)[-3:]]
        below = below[-room:]
        tail = self._open_text(columns)
        tail = tail[len(tail) - max(0, room - len(below)) :] if len(tail) > room - len(below) else tail
        return "".join(line + "\n" for line in [*tail, *below])

    def _open_text(self, columns: int) -> list[str]:
        """Return the open part of the message, which may still change."""
        lines = "".join(self._out).split("\n")
        if self._markdown is not None and self._markdown.open:
            text = self._markdown.open
            if self._tail[:2] != (text, columns):
                self._tail = (text, columns, self.rendered(_markdown(text)))
            lines = [*lines[:-1], *self._tail[2].rstrip("\n").split("\n")]
        return [line for line in lines if line] if lines == [""] else lines

    def _line(self, text: str, columns: int, colour: str | None = None) -> str:
        text = clean(text).replace("\n", " ")[: max(1, columns - 1)]
        return self.painted(text, lambda line: click.style(line, fg=colour, dim=colour is None))


def _markdown(text: str) -> Markdown:
    # A link whose words hide its target would let the agent choose what the user sees.
    return Markdown(text, hyperlinks=False, code_theme="ansi_dark")


def _painter(segment: Segment, colours: ColorSystem) -> Callable[[str], str]:
    style = (segment.style or Style.null()).update_link(None)
    return lambda line: style.render(line, color_system=colours)


LONGEST: Final = 16_000
"""The most characters that are held back. If a block is longer, its lines so far are returned."""


class MarkdownStream:
    """Cuts a message into blocks (paragraphs, lists, code). The last block is open, because more of it may arrive."""

    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark").enable("table")
        self.open = ""
        """The part that has not been returned."""

    def feed(self, text: str) -> str:
        """Add text; returns the part of the message that is complete now."""
        self.open += text
        if "\n" not in text and len(self.open) <= LONGEST:
            return ""
        end = self._last_block()
        if end == 0 and len(self.open) > LONGEST:
            return self._cut()
        done, self.open = self.open[:end], self.open[end:]
        return done

    def finish(self) -> str:
        """Return the rest of the message."""
        done, self.open = self.open, ""
        return done

    def _last_block(self) -> int:
        """Return the index at which the last block begins."""
        starts = [token.map[0] for token in self._parser.parse(self.open) if token.level == 0 and token.map]
        if len(starts) < 2:
            return 0
        lines = self.open.split("\n")
        return sum(len(line) + 1 for line in lines[: starts[-1]])

    def _cut(self) -> str:
        end = self.open.rfind("\n") + 1 or len(self.open)
        done, rest = self.open[:end], self.open[end:]
        first = done.partition("\n")[0].strip()
        marker = first[:3]
        if marker in ("```", "~~~"):
            # The following text is code, as before.
            fence = first[: len(first) - len(first.lstrip(marker[0]))]
            self.open = f"{first}\n{rest}"
            return f"{done}{fence}\n"
        self.open: str = rest
        return done

"""What of a tool call is to be shown next: each update of it carries all of its content anew, most of it shown before.

It writes nothing; `acp_server.cli.screen` does.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from acp_server.schema import Content, Diff, TextContent, ToolCall, ToolCallContent, ToolCallUpdate

HEAD: Final = 12
"""Lines of a tool's output that are shown as they come."""

TAIL: Final = 4
"""Lines of its end that are shown once it is there, if what comes in between is left out."""

MOST_CHANGED: Final = 200
"""Lines of a change that are shown: the user decides by them."""

_FENCE: Final = re.compile(r"(~{3,}|`{3,})\S*\s*")
"""For editors, which show what is between two of them as it is."""

_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


class Line(NamedTuple):
    """A line, and the style that it is shown in."""

    text: str
    style: dict[str, Any]


class Call:
    """A tool call, and how much of it the user has seen."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.status: str | None = None
        self._diffs: list[Diff] = []
        self._text: list[str] = []
        self._seen: list[str] = []
        self._count = 0

    def change(self, update: ToolCall | ToolCallUpdate) -> bool:
        """Take over its title and status; whether one of them is different."""
        before = self.title, self.status
        self.title = update.title or self.title
        self.status = update.status or self.status
        return before != (self.title, self.status)

    @property
    def ended(self) -> bool:
        """Whether it has its last status."""
        return self.status in ("completed", "failed")

    def news(self, contents: Sequence[ToolCallContent] | None) -> Iterator[Line]:
        """What there is to see in its content that was not there to be seen before; None: the content is as it was."""
        if contents is not None:
            for content in contents:
                if isinstance(content, Diff) and content not in self._diffs:
                    self._diffs.append(content)
                    yield from diff_lines(content)
            texts = (shown(content.content) for content in contents if isinstance(content, Content))
            self._text = [line for text in texts for line in text.splitlines() if not _FENCE.fullmatch(line)]
        yield from self._new_text()

    def _new_text(self) -> Iterator[Line]:
        known = 0
        for before, now in zip(self._seen, self._text, strict=False):
            if before != now:
                break
            known += 1
        new = self._text[known:]
        room = max(HEAD - self._count, 0)
        if not self.ended:
            del new[room:]
            left_out = 0
        else:
            left_out = len(new) - room - TAIL
        if left_out > 1:
            yield from (_dim(text) for text in new[:room])
            yield _dim(f"... {left_out:,} more lines")
            yield from (_dim(text) for text in new[-TAIL:])
        else:
            yield from (_dim(text) for text in new)
        self._count += len(new)
        self._seen = self._text[: known + len(new)]


def _dim(text: str) -> Line:
    return Line(text, {"dim": True})


def diff_lines(diff: Diff) -> Iterator[Line]:
    """A change as a unified diff."""
    old, new = diff.old_text or "", diff.new_text
    if all(text.count("\r\n") == text.count("\n") for text in (old, new)):
        old, new = (text.replace("\r\n", "\n") for text in (old, new))
    before = "/dev/null" if diff.old_text is None else diff.path
    lines = list(difflib.unified_diff(_lines(old), _lines(new), before, diff.path, lineterm=""))
    for number, line in enumerate(lines[:MOST_CHANGED]):
        style = {"bold": True} if number < 2 else {"fg": _DIFF_COLOURS.get(line[0])}
        for text in line.removesuffix("\n").split("\n"):
            yield Line(text, style)
    if len(lines) > MOST_CHANGED:
        yield _dim(f"... {len(lines) - MOST_CHANGED:,} more lines")


def _lines(text: str) -> list[str]:
    """With the line break of each, so that a last line without one is another; that is said below it."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def shown(block: Any) -> str:
    """A content block as text."""
    if isinstance(block, TextContent):
        return block.text
    name = getattr(block, "uri", None) or getattr(getattr(block, "resource", None), "uri", None)
    return f"[{block.type}{f': {name}' if name else ''}]"

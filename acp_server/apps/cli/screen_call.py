"""A tool call at the terminal: its state, its arguments, the lines of its changes and of its output.

Each update of a call carries all of its content again, and the user has seen most of it. `ShownCall` finds the new
part. `acp_server.apps.cli.screen` writes it.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from acp_server.safe_text import escape
from acp_server.schema import (
    Content,
    Diff,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
)
from acp_server.session.hunks import hunks
from acp_server.wire import codec

HEAD: Final = 12
"""The most lines of a tool's output that are shown as they arrive."""

TAIL: Final = 4
"""The number of last lines of the output that are shown at its end, if the lines in between are left out."""

MOST_CHANGED: Final = 200
"""The most lines of a change, or of the arguments, that are shown at first. Half of them are the last lines."""

MOST_CHARACTERS: Final = 20_000
"""The most characters of one argument that are shown at first. Half of them are the last ones."""
_SHORT: Final = 60
_ONE_LINE: Final = 160
"""The most characters of one argument, and of all arguments, if a shown change already tells the effect."""

_MOST_CALLS: Final = 500
"""The most calls that are kept. A call is kept so that its next update shows only changes."""

_OUTCOMES: Final = ("rejected", "cancelled")
"""Outcomes in `_meta` of a call that version 1 of the protocol can only report as `failed`. An agent writes `outcome`.
The client writes `acp_server.status` for a call from version 2."""

_KEPT: Final = 250
"""The least number of lines that are kept at the beginning, and at the end, of a command's output."""

_FENCE: Final = re.compile(r"(?:~{3,}+|`{3,}+)\S*+\s*")
"""A fence for editors, which show the text between two fences verbatim."""

_STATUS_COLOURS: Final = {"completed": "green", "failed": "red"}
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


class Line(NamedTuple):
    """A line, and the style in which it is shown. `is_cut`: whether there is more text than the line shows."""

    text: str
    style: dict[str, Any]
    is_cut: bool = False


class CommandOutput:
    """The output of a command: its first and its last lines, and the number of lines in between."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest = ""
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self.left_out: int = 0

    def feed(self, text: str) -> None:
        """Add output."""
        *lines, self._rest = (self._rest + text).split("\n")
        self._lines += lines
        self._rest = self._rest[-MOST_CHARACTERS:]
        if (more := len(self._lines) - 4 * _KEPT) > 0:
            del self._lines[_KEPT : _KEPT + more]
            self.left_out += more

    def feed_bytes(self, data: bytes) -> None:
        """Add output that may end in the middle of a character."""
        self.feed(self._decoder.decode(data))

    @property
    def lines(self) -> list[str]:
        """Return the kept lines."""
        return [*self._lines, self._rest] if self._rest else list(self._lines)


class ShownCall:
    """A tool call, and the part of it that the user has seen. `outputs`: the output of each command, by its terminal
    id."""

    def __init__(self, title: str, outputs: Mapping[str, CommandOutput] | None = None) -> None:
        self._outputs: Mapping[str, CommandOutput] = {} if outputs is None else outputs
        self.title = title
        self.status: str | None = None
        self._outcome: Any = None
        self.arguments: Any = None
        """The arguments of the call, as far as the agent has sent them."""
        self.place = ""
        self.contents: Sequence[ToolCallContent] | None = None
        self._diffs: list[ToolCallContent] = []
        self._text: list[str] = []
        self._seen: list[str] = []
        self._count = 0
        self._left_out = 0
        self.is_cut: bool = False
        """Whether only the beginning and the end of a change were shown."""

    def change(self, update: ToolCall | ToolCallUpdate) -> bool:
        """Take over the values of the update. Returns whether the title or the status has changed."""
        before = self.title, self.status
        self.title: str = update.title or self.title
        if update.status:
            self.status = update.status
            meta = update.meta or {}
            self._outcome = meta.get("outcome", meta.get("acp_server.status"))
        self.arguments = self.arguments if update.raw_input is None else update.raw_input
        self.place: str = place_of(update.locations) or self.place
        self.contents = self.contents if update.content is None else update.content
        return before != (self.title, self.status)

    @property
    def state(self) -> str:
        """Return the status of the call, in words."""
        if self.status == "failed" and self._outcome in _OUTCOMES:
            return self._outcome
        return (self.status or "pending").replace("_", " ")

    @property
    def colour(self) -> str:
        """Return the colour of the state."""
        return _STATUS_COLOURS.get(self.state, "yellow")

    @property
    def ended(self) -> bool:
        """Whether the call has its last status."""
        return self.status in ("completed", "failed")

    def news(self, contents: Sequence[ToolCallContent] | None) -> Iterator[Line]:
        """Yield the lines of the content that are new. None means that the content is unchanged."""
        if contents is not None:
            for content in contents:
                if (isinstance(content, Diff) or _is_patch(content)) and content not in self._diffs:
                    self._diffs.append(content)
                    for line in _ends(_change_lines(content)):
                        self.is_cut |= line.is_cut
                        yield line
            self._text = self._lines_of(contents)
        yield from self._new_text()

    def unseen(self) -> Iterator[Line]:
        """Yield the lines of the text that the user has not seen, before a question about the call. The beginning was
        shown, so these lines are the end."""
        more = self._text[len(self._seen) :]
        if len(more) > TAIL + 1 or self._left_out:
            yield _gap(len(more) - TAIL + self._left_out)
            more = more[-TAIL:]
        yield from map(_dim, more)

    def whole(self) -> Iterator[Line]:
        """Yield all lines of the text, the changes and the arguments."""
        yield from map(_dim, self._text)
        for content in self.contents or ():
            if isinstance(content, Diff) or _is_patch(content):
                yield from _change_lines(content)
        yield from _argument_lines(self.arguments, whole=True)

    @property
    def has_shown_arguments(self) -> bool:
        """Whether the user has seen the arguments, one below the other, among the lines of the content."""
        arguments: Any = self.arguments
        if not isinstance(arguments, dict):
            return False
        named = cast("dict[str, Any]", arguments).items()
        if len(named) > len(self._seen):
            return False
        seen = "\n".join(["", *(line.rstrip() for line in self._seen), ""])
        # A long text is shown beside its name, or below it.
        for form in (_argument, _argument_below):
            lines = [line.rstrip() for name, value in named for line in form(name, value, whole=True)]
            if lines and "\n".join(["", *lines]).rstrip("\n") + "\n" in seen:
                return True
        return False

    def asked(self) -> Iterator[Line]:
        """Yield the arguments, if the user decides by them and has not seen them. The arguments take one line if the
        shown change makes the effect clear."""
        if self.has_shown_arguments:
            return iter(())
        arguments: Any = self.arguments
        if not self._diffs or not isinstance(arguments, dict):
            return argument_lines(arguments)
        return iter([_in_short(cast("dict[str, Any]", arguments))])

    def last_lines(self, count: int) -> list[str]:
        """Return the end of the output so far."""
        return self._lines_of(self.contents or ())[-count:]

    def _lines_of(self, contents: Sequence[ToolCallContent]) -> list[str]:
        lines: list[str] = []
        self._left_out = 0
        for content in contents:
            if isinstance(content, Content) and not _is_patch(content):
                lines += [line for line in text_of(content.content).splitlines() if not _FENCE.fullmatch(line)]
            elif isinstance(content, Terminal) and (output := self._outputs.get(content.terminal_id)):
                lines += output.lines
                self._left_out += output.left_out
        return lines

    def shows(self, terminal_id: str) -> bool:
        """Whether the call still runs, and the output of this terminal belongs to it."""
        return not self.ended and any(
            isinstance(content, Terminal) and content.terminal_id == terminal_id for content in self.contents or ()
        )

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
            left_out = len(new) - room - TAIL + self._left_out
        if left_out > 1:
            yield from (_dim(text) for text in new[:room])
            yield _gap(left_out)
            yield from (_dim(text) for text in new[-TAIL:])
        else:
            yield from (_dim(text) for text in new)
        self._count += len(new)
        self._seen = self._text[: known + len(new)]


class Calls:
    """The tool calls of a session. Beyond a number of calls the oldest are forgotten. `outputs`: see `ShownCall`."""

    def __init__(self, outputs: Mapping[str, CommandOutput] | None = None) -> None:
        self._outputs = outputs
        self._calls: dict[str, ShownCall] = {}

    def __iter__(self) -> Iterator[ShownCall]:
        """Yield the calls, the oldest first."""
        return iter(self._calls.values())

    def of(self, update: ToolCall | ToolCallUpdate) -> ShownCall:
        """Return the call of an update."""
        id = update.tool_call_id
        if id not in self._calls:
            if len(self._calls) >= _MOST_CALLS:
                del self._calls[next(iter(self._calls))]
            self._calls[id] = ShownCall(id, self._outputs)
        return self._calls[id]


def place_of(locations: Sequence[ToolCallLocation] | None) -> str:
    """Return the place of a call's effect, in a few words; empty if the agent has not sent one."""
    if not locations:
        return ""
    if len(locations) > 1:
        return f"{len(locations)} places"
    line = locations[0].line
    return f"{escape(locations[0].path, exact=True)}{'' if line is None else f':{line}'}"


def argument_lines(arguments: Any) -> Iterator[Line]:
    """Yield the arguments of a tool, for a user who decides by them. Each argument takes a line, a long text more. Of a
    long list only the beginning and the end are shown."""
    if not isinstance(arguments, dict) or len(cast("dict[str, Any]", arguments)) <= MOST_CHANGED:
        return _ends(list(_argument_lines(arguments)))
    named = list(cast("dict[str, Any]", arguments).items())
    half = MOST_CHANGED // 2
    first, last = (list(_argument_lines(dict(some))) for some in (named[:half], named[-half:]))
    gap = Line(f"... {len(named) - 2 * half:,} more arguments", {"dim": True}, is_cut=True)
    return iter([*first[:half], gap, *last[-half:]])


def _argument_lines(arguments: Any, *, whole: bool = False) -> Iterator[Line]:
    if arguments is None:
        return
    named = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {"arguments": arguments}
    for name, value in named.items():
        is_cut = not whole and len(_value(value)) > MOST_CHARACTERS
        yield from (Line(line, {"fg": "cyan"}, is_cut) for line in _argument(name, value, whole=whole))


def _in_short(named: dict[str, Any]) -> Line:
    """Return all arguments in one line, with long ones cut."""
    texts = [f"{name}: {_value(value)}" for name, value in islice(named.items(), MOST_CHANGED)]
    line = ", ".join(escape(text[:_SHORT], exact=True).replace("\n", " ") for text in texts)
    is_cut = len(named) > len(texts) or len(line) > _ONE_LINE or any(len(text) > _SHORT for text in texts)
    return Line(f"{line[:_ONE_LINE]} ..." if is_cut else line, {"fg": "cyan"}, is_cut)


def _argument_below(name: str, value: Any, *, whole: bool = False) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"{escape(name, exact=True)}:", *(f"    {line}" for line in escape(value, exact=True).split("\n"))]
    return _argument(name, value, whole=whole)


def _argument(name: str, value: Any, *, whole: bool = False) -> list[str]:
    text = _value(value)
    if len(text) > MOST_CHARACTERS and not whole:
        half = MOST_CHARACTERS // 2
        text = f"{text[:half]} ... {len(text) - 2 * half:,} more characters ... {text[-half:]}"
    first, *others = escape(text, exact=True).split("\n") if isinstance(value, str) else [escape(text, exact=True)]
    return [f"{escape(name, exact=True)}: {first}", *(f"    {other}" for other in others)]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else codec.encode(value).decode().rstrip("\n")


def _ends(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines. Of a long list, yield only the first and the last lines."""
    if len(lines) <= MOST_CHANGED:
        yield from lines
        return
    half = MOST_CHANGED // 2
    yield from lines[:half]
    yield _gap(len(lines) - 2 * half)
    yield from lines[-half:]


def _gap(lines: int) -> Line:
    return Line(f"... {lines:,} more lines", {"dim": True}, is_cut=True)


def _dim(text: str) -> Line:
    return Line(text, {"dim": True})


def diff_lines(diff: Diff) -> Iterator[Line]:
    """Yield a change as a unified diff. Of a long diff only the beginning and the end are shown."""
    return _ends(_change_lines(diff))


def _change_lines(content: ToolCallContent) -> list[Line]:
    return _whole_diff(content) if isinstance(content, Diff) else _patch_lines(content)


def _whole_diff(diff: Diff) -> list[Line]:
    old, new = diff.old_text or "", diff.new_text
    if all(text.count("\r\n") == text.count("\n") for text in (old, new)):
        old, new = (text.replace("\r\n", "\n") for text in (old, new))
    path = escape(diff.path, exact=True)
    changed = list(hunks(old, new))
    head = [f"--- {'/dev/null' if diff.old_text is None else path}", f"+++ {path}"] if changed else []
    return _changed([*head, *changed], range(len(head)))


def _is_patch(content: ToolCallContent) -> bool:
    """Whether the content is a change in the form of version 2 of the protocol. The client turns such a change into
    text."""
    return isinstance(content, Content) and "diff" in (content.model_extra or {})


def _patch_lines(content: ToolCallContent) -> list[Line]:
    assert isinstance(content, Content)
    lines = [line for line in text_of(content.content).split("\n") if not _FENCE.fullmatch(line)]
    heads, in_head = set[int](), False
    for number, line in enumerate(lines):
        in_head = line.startswith("diff --git ") or (in_head and not line.startswith("@@"))
        if in_head:
            heads.add(number)
    return _changed(lines, heads)


def _changed(lines: Sequence[str], heads: Container[int]) -> list[Line]:
    """Return the lines of a change. `heads`: the numbers of the lines that name the files."""
    changed: list[Line] = []
    for number, line in enumerate(lines):
        style = {"bold": True} if number in heads else {"fg": _DIFF_COLOURS.get(line[:1])}
        changed += (Line(text, style) for text in line.removesuffix("\n").split("\n"))
    return changed


def text_of(block: Any) -> str:
    """Return a content block as text."""
    if isinstance(block, TextContent):
        return block.text
    name = getattr(block, "uri", None) or getattr(getattr(block, "resource", None), "uri", None)
    return f"[{block.type}{f': {name}' if name else ''}]"

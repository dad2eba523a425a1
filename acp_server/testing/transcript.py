"""What went over the wire, as text for people; and recordings, read back.

A recording is what `acp-server serve --record` writes: one JSON object a line, with `t` (seconds since 1970), `dir`
(`in`: to the agent, `out`: from it) and one of `msg` (a message), `raw` (a line that is not JSON), `skipped` (the limit
in bytes that a line exceeded). It judges nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from acp_server.errors import UsageError
from acp_server.wire import codec

Direction = Literal["in", "out"]
"""To the agent or from it."""

_ARROW: dict[Direction, str] = {"in": "->", "out": "<-"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the wire. `msg` is the message; it is None if the line was not JSON (`raw`) or too long
    (`skipped`)."""

    t: float
    dir: Direction
    msg: Any = None
    raw: str | None = None
    skipped: int | None = None


class Transcript:
    """Lines of the wire, in order. As a string: one line each, with the time since the first, in seconds."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)

    def add(self, direction: Direction, line: bytes) -> Any:
        """Add a line as it passes: its value, or None if it is not JSON."""
        now = time.time()
        try:
            value = codec.decode(line)
        except codec.DecodeError:
            self.entries.append(Entry(now, direction, raw=line.decode("utf-8", "surrogateescape")))
            return None
        self.entries.append(Entry(now, direction, value))
        return value

    def lines(self, width: int = 160) -> Iterator[str]:
        """The text of each entry: arrow, id, method or kind of answer, and the rest cut at `width` characters."""
        start = self.entries[0].t if self.entries else 0.0
        for entry in self.entries:
            line = f"{entry.t - start:8.3f} {_ARROW[entry.dir]} {_what(entry)}"
            yield line if len(line) <= width else line[: width - 3] + "..."

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "(nothing was sent or received)"


def read_recording(path: str | os.PathLike[str]) -> Transcript:
    """The conversation in a recording. Raises UsageError, which names the line, for any other file."""
    entries: list[Entry] = []
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            entry = _entry(line)
            if entry is None:
                raise UsageError(f"{os.fspath(path)}, line {number}: not an entry of a recording")
            entries.append(entry)
    return Transcript(entries)


def _entry(line: bytes) -> Entry | None:
    try:
        value = codec.decode(line)
    except codec.DecodeError:
        return None
    if not isinstance(value, dict):
        return None
    found = cast("dict[str, Any]", value)
    t, direction = found.get("t"), found.get("dir")
    if not isinstance(t, int | float) or (direction != "in" and direction != "out"):
        return None
    if not any(key in found for key in ("msg", "raw", "skipped")):
        return None
    return Entry(float(t), direction, found.get("msg"), found.get("raw"), found.get("skipped"))


def _what(entry: Entry) -> str:
    if entry.raw is not None:
        return f"not JSON: {entry.raw!r}"
    if entry.skipped is not None:
        return f"a line of more than {entry.skipped} bytes"
    value: Any = entry.msg
    if not isinstance(value, dict):
        return _json(value)
    message = cast("dict[str, Any]", value)
    words = [_json(message["id"])] if "id" in message else []
    if "method" in message:
        words.append(str(message["method"]))
        rest = message.get("params")
    else:
        kind = "error" if "error" in message else "result"
        words.append(kind)
        rest = message.get(kind)
    if rest is not None:
        words.append(_json(rest))
    return " ".join(words)


def _json(value: Any) -> str:
    # Half of a surrogate pair is legal JSON, and no terminal can show it.
    return codec.encode(value).decode().rstrip("\n")

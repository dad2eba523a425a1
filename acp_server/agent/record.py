"""Writes and reads recordings of conversations. A recording has the lines of both directions, each with its time."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, cast

from acp_server.agent.redaction import length_of, redacted
from acp_server.errors import UsageError
from acp_server.paths import open_private
from acp_server.peer.stream import Stream
from acp_server.store import lax_rights
from acp_server.wire import codec
from acp_server.wire.framing import DEFAULT_LINE_LIMIT, Line, LineFramer, TooLong

logger: logging.Logger = logging.getLogger("acp_server.agent")

Direction = Literal["in", "out"]
"""`in` is to the agent, `out` is from the agent."""

_BOM: Final = b"\xef\xbb\xbf"

LONGEST_LINE: Final = 4 * DEFAULT_LINE_LIMIT
"""The longest line in bytes that is recorded. For a longer line only this limit is recorded."""


class Recorder:
    """Writes a file with one JSON object per line. Its members are `t`, seconds since 1970; `dir`, `in` from the client
    or `out` to the client; and one of `msg`, `raw` and `skipped`. `msg` is the message. `raw` is a line that is not
    JSON, with undecodable bytes as lone surrogates (Python's `surrogateescape`). `skipped` is the limit in bytes that a
    line exceeded.

    A new file is readable only by its owner. New lines are appended to an existing file; if other users may read that
    file, a warning is logged.

    `redact` omits the texts of the conversation, see `acp_server.agent.redaction`. `most`: the size in bytes above
    which a new file begins. `keep`: the number of older files to keep; `path.1` is the newest of them. Raises
    UsageError if the file cannot be opened, or is a symbolic link or a named pipe.
    """

    def __init__(self, path: Path, *, redact: bool = False, most: int | None = None, keep: int = 0) -> None:
        self._path = path
        self._redact = redact
        self._most = most
        self._keep = keep
        try:
            self._open()
        except OSError as error:
            raise UsageError(f"cannot record to {path}: {error.strerror}") from None
        if (mode := lax_rights(self._fd)) is not None:
            logger.warning("other users may be able to read the recording %s: its permissions are %s", path, mode)
        self._framers = {"in": LineFramer(LONGEST_LINE), "out": LineFramer(LONGEST_LINE)}

    def add(self, direction: Direction, data: bytes) -> None:
        """Record bytes that are sent or received. An incomplete line is buffered."""
        if self._fd >= 0:
            self._write(direction, self._framers[direction].feed(data))

    def close(self) -> None:
        """Record the last line without a newline, if there is one, and close the file. Idempotent."""
        for direction, framer in self._framers.items():
            if self._fd >= 0 and (rest := framer.finish()):
                self._write(direction, [rest])
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._fd = open_private(self._path, os.O_APPEND)
        found = os.fstat(self._fd)
        self._size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            self._most = None  # a device is not rotated

    def _turn_over(self) -> None:
        """Begin a new file. Raises OSError."""
        os.close(self._fd)
        self._fd = -1
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._keep + 1))]
        for older, newer in pairwise(reversed(names)):
            if newer.exists():
                newer.replace(older)
        self._path.unlink(missing_ok=True)
        self._open()

    def _write(self, direction: str, lines: Sequence[Line]) -> None:
        now = time.time()
        rest = memoryview(b"".join(_entry(now, direction, line, self._redact) for line in lines))
        try:
            if self._most is not None and self._size and self._size + len(rest) > self._most:
                self._turn_over()
            self._size += len(rest)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            logger.error("recording to %s ends: %s", self._path, error.strerror)
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


class RecordedStream:
    """A stream whose traffic is also recorded. `aclose` closes the stream and the recorder.

    `received`: the direction of received data, `in` at the agent's end and `out` at the client's end.
    """

    def __init__(self, stream: Stream, recorder: Recorder, received: Direction = "in") -> None:
        self._stream = stream
        self._recorder = recorder
        self._received: Direction = received
        self._sent: Direction = "out" if received == "in" else "in"

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        data = await self._stream.receive()
        self._recorder.add(self._received, data)
        return data

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        # Before it is sent, since the response may arrive before `send` returns.
        self._recorder.add(self._sent, data)
        await self._stream.send(data)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._recorder.close()
        await self._stream.aclose()


def _entry(now: float, direction: str, line: Line, redact: bool) -> bytes:
    head = b'{"t":%.6f,"dir":"%s",' % (now, direction.encode())
    if isinstance(line, TooLong):
        return b'%s"skipped":%d}\n' % (head, LONGEST_LINE)
    try:
        value = codec.decode(line)
        if redact:
            return b'%s"msg":%s}\n' % (head, codec.encode_fragment(redacted(value)))
    except (codec.DecodeError, RecursionError):
        text = line.decode("utf-8", "surrogateescape")
        return b'%s"raw":%s}\n' % (head, codec.encode_fragment(length_of(text) if redact else text))
    # As received, so that numbers, repeated names and the order of members are unchanged. Only insignificant bytes are
    # removed: a byte-order mark, and carriage returns, which other readers take for the end of a line.
    return b'%s"msg":%s}\n' % (head, line.removeprefix(_BOM).replace(b"\r", b" ").strip())


_ARROW: dict[Direction, str] = {"in": "->", "out": "<-"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded line. `msg` is the message, or None if the line was not JSON (`raw`) or was too long (`skipped`)."""

    t: float
    dir: Direction
    msg: Any = None
    raw: str | None = None
    skipped: int | None = None


class Transcript:
    """Recorded lines, in order. `str()` gives one line for each, with the seconds since the first line."""

    def __init__(self, entries: Iterable[Entry] = (), left_out: int | None = None) -> None:
        self.entries: list[Entry] = list(entries)
        self.left_out = left_out
        """The number of the last line, if that line was cut off and is not among the entries; else None."""

    def add(self, direction: Direction, line: bytes) -> Any:
        """Add a line that was sent or received. Returns its value, or None if the line is not JSON."""
        now = time.time()
        try:
            value = codec.decode(line)
        except codec.DecodeError:
            self.entries.append(Entry(now, direction, raw=line.decode("utf-8", "surrogateescape")))
            return None
        self.entries.append(Entry(now, direction, value))
        return value

    def lines(self, width: int = 160) -> Iterator[str]:
        """Yield one text for each entry: arrow, id, method or kind of response, and the rest, cut at `width`
        characters."""
        start = self.entries[0].t if self.entries else 0.0
        for entry in self.entries:
            line = f"{entry.t - start:8.3f} {_ARROW[entry.dir]} {_what(entry)}"
            yield line if len(line) <= width else line[: width - 3] + "..."

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "(nothing was sent or received)"


def read_recording(path: str | os.PathLike[str]) -> Transcript:
    """Read a recording. Raises UsageError, which names the line, if the file is not a recording.

    A last line that is not JSON is omitted, because the recording program may have been killed, or the disk may have
    been full.
    """
    entries: list[Entry] = []
    try:
        lines = Path(path).read_bytes().rstrip().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            entry = _read_entry(line)
            if entry is None:
                # If the file has only one such line, it must begin like an entry.
                if number == len(lines) and not _is_json(line) and (entries or line.startswith(b"{")):
                    return Transcript(entries, left_out=number)
                raise UsageError(f"{os.fspath(path)}, line {number}: not an entry of a recording")
            entries.append(entry)
    return Transcript(entries)


def _is_json(line: bytes) -> bool:
    try:
        codec.decode(line)
    except codec.DecodeError:
        return False
    return True


def _read_entry(line: bytes) -> Entry | None:
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

"""Records a conversation: both directions, line by line, each with its time, as `acp-server trace` reads it.

It changes nothing about what is sent or received, and a disk that fails does not disturb it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from acp_server.errors import UsageError
from acp_server.peer.stream import Stream
from acp_server.store.private import lax_rights
from acp_server.wire import codec
from acp_server.wire.framing import DEFAULT_LINE_LIMIT, Line, LineFramer, TooLong

logger = logging.getLogger("acp_server.agent")

Direction = Literal["in", "out"]

_BOM: Final = b"\xef\xbb\xbf"

LONGEST_LINE: Final = 4 * DEFAULT_LINE_LIMIT
"""Bytes beyond which a line is only mentioned."""


class Recorder:
    """A file that gets one JSON object a line: `t`, seconds since 1970; `dir`, `in` from the client or `out` to it; and
    either `msg`, the message, or `raw`, a line that is not JSON, with undecodable bytes as lone surrogates (Python's
    `surrogateescape`), or `skipped`, the limit in bytes that a line exceeded.

    A new file can be read by its owner only; an existing one is continued, and it is logged if others may read it.
    Raises UsageError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise UsageError(f"cannot record to {path}: {error.strerror}") from None
        if (mode := lax_rights(self._fd)) is not None:
            logger.warning("others may read the recording: %s has the rights %s", path, mode)
        self._framers = {"in": LineFramer(LONGEST_LINE), "out": LineFramer(LONGEST_LINE)}

    def add(self, direction: Direction, data: bytes) -> None:
        """Record bytes as they pass; what is not yet a whole line is kept for later."""
        if self._fd >= 0:
            self._write(direction, self._framers[direction].feed(data))

    def close(self) -> None:
        """Record what is left without a newline, and close the file. Idempotent."""
        for direction, framer in self._framers.items():
            if self._fd >= 0 and (rest := framer.finish()):
                self._write(direction, [rest])
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, direction: str, lines: Sequence[Line]) -> None:
        now = time.time()
        rest = memoryview(b"".join(_entry(now, direction, line) for line in lines))
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            logger.error("recording to %s ends: %s", self._path, error.strerror)
            os.close(self._fd)
            self._fd = -1


class RecordedStream:
    """A stream whose traffic goes to a recorder as well. Both are closed with it."""

    def __init__(self, stream: Stream, recorder: Recorder) -> None:
        self._stream = stream
        self._recorder = recorder

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        data = await self._stream.receive()
        self._recorder.add("in", data)
        return data

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        # Before it is sent, for the answer may be read before this function goes on.
        self._recorder.add("out", data)
        await self._stream.send(data)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._recorder.close()
        await self._stream.aclose()


def _entry(now: float, direction: str, line: Line) -> bytes:
    head = b'{"t":%.6f,"dir":"%s",' % (now, direction.encode())
    if isinstance(line, TooLong):
        return b'%s"skipped":%d}\n' % (head, LONGEST_LINE)
    try:
        codec.decode(line)
    except codec.DecodeError:
        return b'%s"raw":%s}\n' % (head, codec.encode_fragment(line.decode("utf-8", "surrogateescape")))
    # As it was written: numbers, repeated names and the order of members stay what they are. Only what does not count
    # in JSON goes: a byte-order mark, and the carriage returns, at which others would end a line.
    return b'%s"msg":%s}\n' % (head, line.removeprefix(_BOM).replace(b"\r", b" ").strip())

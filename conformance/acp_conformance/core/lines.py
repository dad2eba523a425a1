"""Cuts a byte stream into lines, and keeps the transcript of a conversation. This module has no I/O and parses no
JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from .result import Line, shorten

MAX_LINE = 64 * 1024 * 1024
"""The length of a line, in bytes, beyond which the output of the subject does not count as lines at all."""

MAX_TRANSCRIPT = 400
"""The number of lines that a transcript keeps from its beginning, and from its end."""


class TooLong(Exception):
    """Raised for a line of more than `MAX_LINE` bytes."""


class Framer:
    """Cuts a byte stream into lines. A line ends with a newline, which is left out."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes.

        Raises:
         TooLong: The current line exceeds `MAX_LINE` bytes.
        """
        *lines, rest = data.split(b"\n")
        for line in lines:
            yield b"".join((*self._parts, line))
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > MAX_LINE:
                raise TooLong(f"a line of more than {MAX_LINE:,} bytes")

    def rest(self) -> bytes:
        """Return the bytes after the last newline. At the end of the stream they are an incomplete line."""
        return b"".join(self._parts)


class Transcript:
    """Both directions of a conversation, in the form of a report. The middle of a long conversation is omitted."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._head: list[Line] = []
        self._tail: list[Line] = []
        self._left_out = 0

    def add(self, writer: Literal["suite", "subject"], line: bytes) -> None:
        """Record a line that `writer` wrote. Bytes that are not UTF-8 are shown as escapes."""
        text = shorten(line.decode("utf-8", "backslashreplace"))
        entry: Line = {"at": round(time.monotonic() - self.began, 4), "from": writer, "text": text}
        if len(self._head) < MAX_TRANSCRIPT:
            self._head.append(entry)
            return
        self._tail.append(entry)
        if len(self._tail) >= 2 * MAX_TRANSCRIPT:
            self._left_out += MAX_TRANSCRIPT
            del self._tail[:MAX_TRANSCRIPT]

    def lines(self) -> tuple[Line, ...]:
        """Return the transcript in the form of a result."""
        left_out = self._left_out + max(0, len(self._tail) - MAX_TRANSCRIPT)
        tail = self._tail[-MAX_TRANSCRIPT:]
        if left_out:
            note: Line = {"at": tail[0]["at"], "from": "suite", "text": f"... {left_out:,} lines are left out here ..."}
            return (*self._head, note, *tail)
        return (*self._head, *tail)


def place_of(beginning: str, transcript: Sequence[Line]) -> int | None:
    """Return the index of the subject's last line that begins with `beginning`; None if no line does."""
    found = [n for n, line in enumerate(transcript) if line["from"] == "subject" and line["text"].startswith(beginning)]
    return found[-1] if found else None

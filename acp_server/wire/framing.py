"""Cuts a byte stream into lines: one JSON text a line (ACP, Transports).

It does not look inside the lines. A line over the limit is skipped without being kept in memory.
"""

from __future__ import annotations

from typing import Final

DEFAULT_LINE_LIMIT: Final = 32 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class LineFramer:
    """Bytes in, lines out, in any chunking.

    `limit`: the longest line in bytes, without its newline. A longer one comes out as None, once, as soon as it is
    known to be too long, and the rest of it is thrown away as it arrives.
    """

    __slots__ = ("_limit", "_parts", "_size", "_skipping")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that `data` completes, without blank ones. None stands for a line that is too long."""
        lines: list[bytes | None] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            if self._skipping:
                self._skipping = False
                continue
            if self._parts:
                self._parts.append(piece)
                piece = b"".join(self._parts)
                self._parts.clear()
                self._size = 0
            if len(piece) > self._limit:
                lines.append(None)
            elif piece := _text(piece):
                lines.append(piece)
        if rest and not self._skipping:
            self._size += len(rest)
            if self._size > self._limit:
                self._parts.clear()
                self._size = 0
                self._skipping = True
                lines.append(None)
            else:
                self._parts.append(rest)
        return lines

    def finish(self) -> bytes | None:
        """The last line, if the stream ended without a newline behind it."""
        rest = _text(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        return rest or None


def _text(line: bytes) -> bytes:
    if line.startswith(_BOM):
        line = line[len(_BOM) :]
    return line if line and not line.isspace() else b""

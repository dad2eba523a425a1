"""Cuts a byte stream into lines: one JSON text a line (ACP, Transports).

It does not look inside the lines. A line over the limit is skipped without being kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

DEFAULT_LINE_LIMIT: Final = 32 * 1024 * 1024

_HEAD = 1024


@dataclass(slots=True, frozen=True)
class TooLong:
    """Stands for a line over the limit. `head`: how it begins, up to 1 KiB, which may tell whose it was."""

    head: bytes

    def __len__(self) -> int:
        """The bytes that are kept of it."""
        return len(self.head)


Line: TypeAlias = bytes | bytearray | TooLong


class LineFramer:
    """Bytes in, lines out, in any chunking.

    `limit`: the longest line in bytes, without its newline. A longer one comes out as `TooLong`, once, as soon as it is
    known to be too long, and the rest of it is thrown away as it arrives.
    """

    __slots__ = ("_held", "_limit", "_skipping")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()
        self._skipping = False

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their line."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, without blank ones."""
        lines: list[Line] = []
        pieces: list[bytes] = data.split(b"\n")
        rest = pieces.pop()
        # All but the first are whole, and most often shorter together than one may be.
        whole = len(data) <= self._limit
        for piece in pieces[:1] if whole else pieces:
            if self._skipping:
                self._skipping = False
            elif len(self._held) + len(piece) > self._limit:
                lines.append(self._too_long(piece))
            else:
                line = self._release(piece) if self._held else piece
                if line and not line.isspace():
                    lines.append(line)
        if whole:
            lines += [piece for piece in islice(pieces, 1, None) if piece and not piece.isspace()]
        if rest and not self._skipping:
            if len(self._held) + len(rest) > self._limit:
                lines.append(self._too_long(rest))
                self._skipping = True
            else:
                self._held += rest
        return lines

    def finish(self) -> bytearray | None:
        """The last line, if the stream ended without a newline behind it."""
        line = self._release(b"")
        return line if line and not line.isspace() else None

    def _release(self, piece: bytes) -> bytearray:
        line, self._held = self._held, bytearray()
        line += piece
        return line

    def _too_long(self, piece: bytes) -> TooLong:
        return TooLong(bytes(self._release(piece[:_HEAD])[:_HEAD]))

"""Cuts a byte stream into lines: one JSON text a line (ACP, Transports).

It does so in two steps, since to cut a megabyte into lines at once would hold the caller. First it cuts blocks of whole
lines, which costs next to nothing, then each block when its turn comes. It does not look inside the lines. A line over
the limit is skipped without being kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

DEFAULT_LINE_LIMIT: Final = 32 * 1024 * 1024

HEAD: Final = 1024
"""Bytes of a line that cannot be read in which it is looked for whose it was."""

_BLOCK: Final = 16 * 1024
"""Bytes of a block, unless its last line makes it longer: cutting it into lines takes a millisecond at most."""


@dataclass(slots=True, frozen=True)
class TooLong:
    """Stands for a line over the limit. `head`: how it begins, up to 1 KiB, which may tell whose it was."""

    head: bytes

    def __len__(self) -> int:
        """The bytes that are kept of it."""
        return len(self.head)


Line: TypeAlias = bytes | bytearray | TooLong

Block: TypeAlias = bytes | bytearray | TooLong
"""Whole lines with their newlines, or (a bytearray) one line without."""


class LineFramer:
    """Bytes in, lines out, in any chunking.

    `limit`: the longest line in bytes, without its newline. A longer one comes out as `TooLong`, once, as soon as it is
    known to be too long, and the rest of it is thrown away as it arrives.
    """

    __slots__ = ("_at_once", "_held", "_limit", "_skipping")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._at_once = min(limit, _BLOCK)
        self._held = bytearray()
        self._skipping = False

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their line."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, without blank ones."""
        return [line for block in self.blocks(data) for line in lines_in(block)]

    def blocks(self, data: bytes) -> list[Block]:
        """The same lines in blocks, for `lines_in`."""
        if len(data) <= self._at_once and not self._held and not self._skipping and data.endswith(b"\n"):
            # Nearly all that comes is this.
            return [data]
        blocks: list[Block] = []
        begin = 0
        if self._held or self._skipping:
            begin = data.find(b"\n") + 1
            if begin and self._skipping:
                self._skipping = False
            elif begin:
                blocks.append(self._release(data[: begin - 1]))
        end = data.rfind(b"\n", begin) + 1
        while begin < end:
            cut = end if end - begin <= _BLOCK else data.find(b"\n", begin + _BLOCK - 1) + 1
            block = data[begin:cut]
            blocks += [block] if len(block) <= self._limit else self._judge(block)
            begin = cut
        if begin < len(data):
            self._hold(data[begin:], blocks)
        return blocks

    def finish(self) -> bytearray | None:
        """The last line, if the stream ended without a newline behind it."""
        line, self._held = self._held, bytearray()
        return line if line and not line.isspace() else None

    def _release(self, rest: bytes) -> bytearray | TooLong:
        """The line whose beginning was held."""
        line, self._held = self._held, bytearray()
        if len(line) + len(rest) > self._limit:
            return _too_long(line, rest)
        line += rest
        return line

    def _hold(self, rest: bytes, blocks: list[Block]) -> None:
        if self._skipping:
            return
        if len(self._held) + len(rest) > self._limit:
            blocks.append(_too_long(self._held, rest))
            self._held = bytearray()
            self._skipping = True
        else:
            self._held += rest

    def _judge(self, block: bytes) -> list[Block]:
        """Each line by itself, since one may be too long."""
        lines = block.split(b"\n")
        return [_too_long(line) if len(line) > self._limit else line + b"\n" for line in lines[:-1]]


def lines_in(block: Block) -> list[Line]:
    """The lines of a block, without blank ones."""
    if type(block) is bytes:
        return list(filter(bytes.strip, block.split(b"\n")))
    return [] if isinstance(block, bytearray) and block.isspace() else [block]


def _too_long(*pieces: bytes | bytearray) -> TooLong:
    return TooLong(b"".join(piece[:HEAD] for piece in pieces)[:HEAD])

"""Splits a byte stream into lines, each with one JSON text (ACP, Transports).

It works in two steps, because splitting a megabyte into lines at once would block the event loop. The first step cuts
blocks of whole lines, which is nearly free. The second step splits a block into lines when the reader gets to it. A
line over the limit is skipped without being buffered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

DEFAULT_LINE_LIMIT: Final = 32 * 1024 * 1024

HEAD: Final = 1024
"""The bytes of an unreadable line that are searched for its id and method."""

_BLOCK: Final = 16 * 1024
"""The bytes of a block, without the rest of its last line. Splitting a block into lines takes at most a millisecond."""


@dataclass(slots=True, frozen=True)
class TooLong:
    """Replaces a line over the limit. `head`: its first bytes, up to 1 KiB, which may contain its id."""

    head: bytes

    def __len__(self) -> int:
        """Return the number of bytes that are kept."""
        return len(self.head)


Line: TypeAlias = bytes | bytearray | TooLong

Block: TypeAlias = bytes | bytearray | TooLong
"""Whole lines with their newlines; or, as a bytearray, one line without its newline."""


class LineFramer:
    """Takes bytes in chunks of any size and returns lines.

    `limit`: the longest line in bytes, without its newline. A longer line gives one `TooLong` as soon as it exceeds the
    limit. The rest of the line is dropped as it arrives.
    """

    __slots__ = ("_at_once", "_held", "_limit", "_skipping")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._at_once = min(limit, _BLOCK)
        self._held = bytearray()
        self._skipping = False

    @property
    def held(self) -> int:
        """Return the number of buffered bytes of an incomplete line."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that `data` completes, without blank lines."""
        return [line for block in self.blocks(data) for line in lines_in(block)]

    def blocks(self, data: bytes) -> list[Block]:
        """Return the lines that `data` completes, as blocks for `lines_in`."""
        if len(data) <= self._at_once and not self._held and not self._skipping and data.endswith(b"\n"):
            # The common case: whole lines, nothing buffered.
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
        """Return the last line, if the stream ended without a final newline; None if the line is blank or there was a
        newline."""
        line, self._held = self._held, bytearray()
        return line if line and not line.isspace() else None

    def _release(self, rest: bytes) -> bytearray | TooLong:
        """Return the line whose beginning was buffered."""
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
        """Split a block that is over the limit, because a line in it may be too long."""
        lines = block.split(b"\n")
        return [_too_long(line) if len(line) > self._limit else line + b"\n" for line in lines[:-1]]


def lines_in(block: Block) -> list[Line]:
    """Return the lines of a block, without blank lines."""
    if type(block) is bytes:
        return list(filter(bytes.strip, block.split(b"\n")))
    return [] if isinstance(block, bytearray) and block.isspace() else [block]


def _too_long(*pieces: bytes | bytearray) -> TooLong:
    return TooLong(b"".join(piece[:HEAD] for piece in pieces)[:HEAD])

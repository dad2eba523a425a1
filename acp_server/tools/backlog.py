"""Output on its way from a tool's function, in whatever thread, to what the client is shown: a bounded amount of it.

A function that says more than the loop can take loses what it said first, as the client is shown the end of long output
in any case. No caller waits here.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_server.schema.tool_call import ToolCallContent


class Backlog:
    """Pieces in order. `most`: how much of them there may be, see `size_of`; the last piece is kept in any case."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._pieces: deque[tuple[str | ToolCallContent, int]] = deque()
        self._size = 0
        self._lost = False

    def add(self, piece: str | ToolCallContent) -> bool:
        """Add a piece. True if it is the first one since the last `take`, so that the loop has to be told."""
        size = size_of(piece)
        with self._lock:
            first = not self._pieces
            self._pieces.append((piece, size))
            self._size += size
            while self._size > self._most and len(self._pieces) > 1:
                self._size -= self._pieces.popleft()[1]
                self._lost = True
        return first

    def take(self) -> tuple[list[str | ToolCallContent], bool]:
        """All pieces, and whether some before them were lost."""
        with self._lock:
            pieces, lost = [piece for piece, _ in self._pieces], self._lost
            self._pieces.clear()
            self._size, self._lost = 0, False
        return pieces, lost


_PIECE = 200
"""Characters that a piece is taken for, besides its text."""


def size_of(piece: str | ToolCallContent) -> int:
    """How much a piece of output takes, in characters."""
    if isinstance(piece, str):
        return len(piece) + _PIECE
    block = getattr(piece, "content", piece)
    parts = (block, getattr(block, "resource", None))
    texts = [getattr(part, name, None) for part in parts for name in ("text", "data", "blob", "old_text", "new_text")]
    return _PIECE + sum(len(text) for text in texts if isinstance(text, str))

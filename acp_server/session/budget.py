"""How much of what was said in turns is in memory: so many bytes at most, of the turns that were added last.

It counts and decides which turns have to go; where they go is the matter of the store that keeps them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from acp_server.session.history import TurnRecord


class Budget:
    """`most`: bytes of contents. `let_go`: takes a turn that there is no room for any more, and its session's id."""

    def __init__(self, most: int, let_go: Callable[[TurnRecord, str], None]) -> None:
        self._most = most
        self._let_go = let_go
        # In the order of adding. A turn that is gone for another reason leaves by its reference's callback.
        self._held: dict[weakref.ref[TurnRecord], tuple[int, str]] = {}
        self.size = 0
        """Bytes that are held."""

    def add(self, turn: TurnRecord, session_id: str) -> None:
        """The turn, which has ended, is in memory. Those that were added first are let go if it is too much then."""
        size = turn.size
        reference = weakref.ref(turn, self._gone)
        if not size or reference in self._held:
            return
        self._held[reference] = size, session_id
        self.size += size
        while self.size > self._most and self._held:
            first = next(iter(self._held))
            _, id = self._held[first]
            self._gone(first)
            oldest = first()
            if oldest is not None:
                self._let_go(oldest, id)

    def _gone(self, reference: weakref.ref[TurnRecord]) -> None:
        size, _ = self._held.pop(reference, (0, ""))
        self.size -= size

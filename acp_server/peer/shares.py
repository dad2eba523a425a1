"""Divides a bound on bytes among its holders, so that the bound holds for the sum and no holder takes all of
it."""

from __future__ import annotations

import math


class Share:
    """A part of a bound. Shares form a tree; each counts its own bytes and the bytes of the shares below it.

    A share may hold as many bytes as it leaves free of the share above it. So one holder gets half of the bound, and of
    many holders each gets the same, and a new holder always finds room. `most`: the most bytes of this share.
    """

    __slots__ = ("__weakref__", "_above", "_most", "size")

    def __init__(self, most: float = math.inf, above: Share | None = None) -> None:
        self._most = most
        self._above = above
        self.size: int = 0
        """The bytes of the share, in spite of the bound if `count` has added some."""

    def free(self, more: int = 0) -> float:
        """Return the bytes that a new holder may take, once `more` bytes of another holder are counted."""
        whole = self._most if self._above is None else min(self._most, self._above.free(more))
        return whole - self.size - more

    def take(self, more: int, held: int = 0) -> bool:
        """Count `more` bytes of a holder that holds `held`. Returns False, and counts nothing, if it would then hold
        more than is free."""
        if held + more > self.free(more):
            return False
        self.count(more)
        return True

    def count(self, change: int) -> None:
        """Count bytes that are held or released, in spite of the bound."""
        self.size += change
        if self._above is not None:
            self._above.count(change)

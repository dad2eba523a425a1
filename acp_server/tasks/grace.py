"""Time for cleaning up: shielded scopes with an end, and a watch over what does not end.

The only module with shielded scopes. It does not decide what happens to work that overstays; its owner does.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import anyio
import anyio.lowlevel

from acp_server.tasks.spawn import Spawner

DEFAULT_GRACE: Final = 5.0
"""Seconds that cancelled work gets for its cleanup before it is answered for."""


@contextmanager
def grace(seconds: float = DEFAULT_GRACE) -> Generator[anyio.CancelScope]:
    """A block that a cancel does not cut, for at most `seconds`.

    For cleanup that has to wait: killing a terminal, writing a last update. When the time is up the block is cut
    silently; `scope.cancelled_caught` of the yielded scope tells.
    """
    with anyio.CancelScope(deadline=anyio.current_time() + seconds, shield=True) as scope:
        yield scope


def let_be(scope: anyio.CancelScope) -> None:
    """From now on, a cancel from outside of `scope` does not reach what runs in it.

    For work that was cancelled and does not end. Its cancel would be delivered anew in every turn of the event loop, or
    at every checkpoint, and that can take all of the processor for as long as the work lasts.
    """
    scope.shield = True
    # On asyncio, work that has just looked for its cancel (anyio's `checkpoint_if_cancelled`) waits for that alone, in
    # every turn of the loop, and does not see the shield: it gets the cancel once more. anyio has no public way.
    deliver = getattr(scope, "_deliver_cancellation", None)
    outside = getattr(scope, "_parent_scope", None)
    if deliver is not None and outside is not None:
        # anyio delivers recursively; nothing can be delivered where that is too deep.
        with suppress(RecursionError):
            deliver(outside)


_AT_ONCE: Final = 64
"""How many are called for in one go. Each may have to write and log, and the rest of the program runs meanwhile."""


class Watch:
    """Calls back for everything that is still there `seconds` after it was put under watch.

    One task serves any number of entries, since all have the same patience; it is started when there is something to
    watch, and ends when nothing is left.
    """

    __slots__ = ("_entries", "_finished", "_running", "_scope", "_seconds", "spawner")

    def __init__(self, seconds: float, spawner: Spawner) -> None:
        self._seconds = seconds
        self.spawner = spawner
        # With the same patience for all, the order of adding is the order of the deadlines.
        self._entries: OrderedDict[Callable[[], None], float] = OrderedDict()
        self._running = False
        self._finished = False
        self._scope: anyio.CancelScope | None = None

    def add(self, overdue: Callable[[], None]) -> None:
        """Call `overdue` in `seconds`, unless it is dropped before. It must not raise. Adding it again does nothing."""
        self._entries.setdefault(overdue, self.spawner.time() + self._seconds)
        if not self._running and not self._finished:
            self.spawner.spawn(self._run)
            self._running = True

    def drop(self, overdue: Callable[[], None]) -> None:
        """What was to be called for is over. No effect if it is not under watch."""
        self._entries.pop(overdue, None)

    async def finish(self) -> None:
        """Patience is over for all of them. What is added from here on is called by the next `finish`."""
        for _ in self._finishing():
            await anyio.lowlevel.checkpoint()

    def finish_now(self) -> None:
        """The same, for those who cannot wait."""
        for _ in self._finishing():
            pass

    def _finishing(self) -> Iterator[None]:
        self._finished = True
        if self._scope is not None:
            self._scope.cancel()
        # Without those that are added meanwhile.
        left = len(self._entries)
        while left > 0:
            self._call(min(left, _AT_ONCE), math.inf)
            left -= _AT_ONCE
            yield

    def _call(self, most: int, until: float) -> None:
        """Call for the first ones, if their time is up."""
        while most and self._entries and next(iter(self._entries.values())) <= until:
            overdue, _ = self._entries.popitem(last=False)
            overdue()
            most -= 1

    async def _run(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                while self._entries and not self._finished:
                    deadline = next(iter(self._entries.values()))
                    now = self.spawner.time()
                    if deadline > now:
                        await anyio.sleep_until(deadline)
                    else:
                        self._call(_AT_ONCE, now)
                        # What is called may come back at once; the others are to run all the same.
                        await anyio.lowlevel.checkpoint()
        finally:
            self._scope = None
            self._running = False

"""Time for cleaning up: shielded scopes with an end, and a watch over what does not end.

The only module with shielded scopes. It does not decide what happens to work that overstays; its owner does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final

import anyio

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


class Watch:
    """Calls back for everything that is still there `seconds` after it was put under watch.

    One task serves any number of entries, since all have the same patience; it is started when there is something to
    watch, with `start`, and ends when nothing is left.
    """

    __slots__ = ("_entries", "_scope", "_seconds", "_start")

    def __init__(self, seconds: float, start: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]) -> None:
        self._seconds = seconds
        self._start = start
        self._entries: deque[tuple[float, Callable[[], None]]] = deque()
        self._scope: anyio.CancelScope | None = None

    def add(self, overdue: Callable[[], None]) -> None:
        """Call `overdue` in `seconds`. It has to find out for itself whether it still matters, and must not raise."""
        self._entries.append((anyio.current_time() + self._seconds, overdue))
        if self._scope is None:
            self._scope = anyio.CancelScope()
            self._start(self._run)

    def finish(self) -> None:
        """Patience is over for all of them, now."""
        while self._entries:
            self._entries.popleft()[1]()
        if self._scope is not None:
            self._scope.cancel()

    async def _run(self) -> None:
        assert self._scope is not None
        try:
            with self._scope:
                while self._entries:
                    await anyio.sleep_until(self._entries[0][0])
                    self._entries.popleft()[1]()
        finally:
            self._scope = None

"""The cheapest way that the running backend has for one task to wait for one thing.

`anyio.Event` and `anyio.lowlevel` find out anew at each call what is running, which is half of the cost of a request of
ours. It imports neither asyncio nor trio: the running loop is asked for what it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol

import anyio
import anyio.lowlevel


class Signal(Awaitable[None], Protocol):
    """Set once, awaited by one task at most: what of asyncio's futures is needed for that."""

    def set_result(self, result: None, /) -> None:
        """Let the waiting task go on. Only unless it is `done`."""
        ...

    def done(self) -> bool:
        """Whether it is set, or its waiting task was cancelled."""
        ...


class Signals:
    """Makes signals for the event loop that it was made in."""

    __slots__ = ("call_soon", "checkpoint_if_cancelled", "make")

    def __init__(self) -> None:
        token = anyio.lowlevel.current_token()
        self.checkpoint_if_cancelled: Callable[[], Awaitable[None]] = token.backend_class.checkpoint_if_cancelled
        """`anyio.lowlevel.checkpoint_if_cancelled`."""
        self.call_soon: Callable[..., object] | None = getattr(token.native_token, "call_soon", None)
        """Has a function called by the loop in its next round; None on trio, where that costs more than a task does."""
        # Only asyncio's loop has futures.
        self.make: Callable[[], Signal] = getattr(token.native_token, "create_future", _EventSignal)
        """A new signal."""


class _EventSignal:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set_result(self, _result: None, /) -> None:
        self._event.set()

    def done(self) -> bool:
        return self._event.is_set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._event.wait().__await__()

"""The cheapest way that the running backend has for one task to wait for one thing.

`anyio.Event` and `anyio.lowlevel` find out anew at each call what is running, which is half of the cost of a request of
ours. It imports neither asyncio nor trio: the running loop is asked for what it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio
import anyio.lowlevel


class Signal(Protocol):
    """Set once, waited for by one task at most."""

    def set(self) -> None:
        """Let the waiting task go on. Idempotent."""
        ...

    async def wait(self) -> object:
        """Wait until `set`."""
        ...


class Signals:
    """Makes signals for the event loop that it was made in."""

    __slots__ = ("_create_future", "call_soon", "checkpoint_if_cancelled")

    def __init__(self) -> None:
        token = anyio.lowlevel.current_token()
        self.checkpoint_if_cancelled: Callable[[], Awaitable[None]] = token.backend_class.checkpoint_if_cancelled
        """`anyio.lowlevel.checkpoint_if_cancelled`."""
        self.call_soon: Callable[..., object] | None = getattr(token.native_token, "call_soon", None)
        """Has a function called by the loop in its next round; None on trio, where that costs more than a task does."""
        # Only asyncio's loop has futures.
        self._create_future: Callable[[], Any] | None = getattr(token.native_token, "create_future", None)

    def make(self) -> Signal:
        """A new signal."""
        return anyio.Event() if self._create_future is None else _FutureSignal(self._create_future())


class _FutureSignal:
    __slots__ = ("_future",)

    def __init__(self, future: Any) -> None:
        self._future = future

    def set(self) -> None:
        # A cancelled wait has cancelled the future.
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future

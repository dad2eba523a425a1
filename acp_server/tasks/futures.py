"""The cheapest ways that the running backend has for one task to wait for one thing.

`anyio.Event` and `anyio.lowlevel` find out anew at each call what is running, which is half of the cost of a request of
ours. It imports neither asyncio nor trio: the running loop is asked for what it has.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any, Protocol

import anyio
import anyio.lowlevel


class Future(Awaitable[None], Protocol):
    """Set once, awaited by one task at most: what of asyncio's futures is needed for that."""

    def set_result(self, result: None, /) -> None:
        """Let the waiting task go on. Only unless it is `done`."""
        ...

    def done(self) -> bool:
        """Whether it is set, or its waiting task was cancelled."""
        ...


class Futures:
    """Makes futures for the event loop that it was made in."""

    __slots__ = ("call_soon", "can_nest", "checkpoint_if_cancelled", "make")

    def __init__(self) -> None:
        token = anyio.lowlevel.current_token()
        self.checkpoint_if_cancelled: Callable[[], Awaitable[None]] = token.backend_class.checkpoint_if_cancelled
        """`anyio.lowlevel.checkpoint_if_cancelled`."""
        self.call_soon: Callable[..., object] | None = getattr(token.native_token, "call_soon", None)
        """Has a function called by the loop in its next round; None on trio, where that costs more than a task does."""
        # Only asyncio's loop has futures.
        self.make: Callable[[], Future] = getattr(token.native_token, "create_future", _EventFuture)
        """A new future."""
        self.can_nest: bool = _can_nest(type(token.native_token))
        """Whether the loop can run within itself, as `nest_asyncio` has it."""


def _can_nest(loop_class: Any) -> bool:
    base: Any = getattr(sys.modules.get("asyncio"), "BaseEventLoop", None)
    # Not a subclass of it: uvloop's, which has a method of its own, and trio's.
    return base in loop_class.__mro__ and loop_class.run_until_complete != base.run_until_complete


class Bell:
    """Awaited by one task of asyncio, again and again. It does for the task what a future of asyncio does. But if it is
    rung in a callback of the loop, the task goes on at once, and not in the loop's next round."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_current_task", "_go_on", "_kind", "_loop")

    def __init__(self) -> None:
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self._current_task: Callable[[Any], object] = sys.modules["asyncio"].current_task
        # How a task knows a future-like object, see `asyncio.isfuture`.
        self._asyncio_future_blocking = False
        self._go_on: Callable[[Bell], object] | None = None
        """Has the task that waits go on; None if none does."""
        self._context: Context | None = None
        # Here, for the end of `asyncio.run` cancels tasks when no loop runs that could be asked.
        self._kind = anyio.get_cancelled_exc_class()
        self._cancelled: BaseException | None = None

    def __await__(self) -> Generator[Bell, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def ring(self) -> None:
        """Let the task that waits go on: before this returns, if it is called by the loop, and in the loop's next round
        if it is called by another task. No effect if no task waits."""
        if (go_on := self._go_on) is None or self._context is None:
            return
        if self._current_task(self._loop) is None:
            self._go_on = None
            self._context.run(go_on, self)
        else:
            self._ring_soon(go_on)

    def _ring_soon(self, go_on: Callable[[Bell], object]) -> None:
        self._go_on = None
        self._loop.call_soon(go_on, self, context=self._context)

    # -- for the task that waits

    def get_loop(self) -> Any:
        """The loop that it belongs to."""
        return self._loop

    def add_done_callback(self, callback: Callable[[Bell], object], *, context: Context) -> None:
        """The task waits."""
        self._go_on = callback
        self._context = context

    def done(self) -> bool:
        """Whether no task waits, or it is about to go on."""
        return self._go_on is None

    def cancel(self, msg: object = None) -> bool:
        """The task is cancelled. False if it is about to go on."""
        if (go_on := self._go_on) is None:
            return False
        self._cancelled = self._kind(*(() if msg is None else (msg,)))
        # What cancels it may be about to cancel others.
        self._ring_soon(go_on)
        return True

    def result(self) -> None:
        """Raises the cancellation, if it was cancelled."""
        if (cancelled := self._cancelled) is not None:
            self._cancelled = None
            raise cancelled


class _EventFuture:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set_result(self, _result: None, /) -> None:
        self._event.set()

    def done(self) -> bool:
        return self._event.is_set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._event.wait().__await__()

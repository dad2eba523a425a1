"""The cheapest primitives of the running backend for one task that waits for one event.

`anyio.Event` and `anyio.lowlevel` look up the backend at each call, which is half of the cost of an outgoing request.
This module imports neither asyncio nor trio, and takes what the running loop offers.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any, Protocol

import anyio
import anyio.lowlevel


class Future(Awaitable[None], Protocol):
    """A future that is set once and awaited by at most one task: a subset of `asyncio.Future`."""

    def set_result(self, result: None, /) -> None:
        """Wake the waiting task. Must not be called on a future that is `done`."""
        ...

    def done(self) -> bool:
        """Whether the future is set, or its waiting task was cancelled."""
        ...


class Futures:
    """Makes futures for the event loop in which it was created."""

    __slots__ = ("call_soon", "can_nest", "checkpoint_if_cancelled", "make")

    def __init__(self) -> None:
        token = anyio.lowlevel.current_token()
        self.checkpoint_if_cancelled: Callable[[], Awaitable[None]] = token.backend_class.checkpoint_if_cancelled
        """`anyio.lowlevel.checkpoint_if_cancelled`."""
        self.call_soon: Callable[..., object] | None = getattr(token.native_token, "call_soon", None)
        """Schedules a function for the loop's next round; None on trio, where that costs more than a task."""
        # trio's loop has no futures.
        self.make: Callable[[], Future] = getattr(token.native_token, "create_future", _EventFuture)
        """A new future."""
        self.can_nest: bool = _can_nest(type(token.native_token))
        """Whether the loop can be re-entered, as `nest_asyncio` makes it."""


def _can_nest(loop_class: Any) -> bool:
    base: Any = getattr(sys.modules.get("asyncio"), "BaseEventLoop", None)
    # uvloop's loop and trio's do not derive from BaseEventLoop, and cannot be re-entered.
    return base in loop_class.__mro__ and loop_class.run_until_complete != base.run_until_complete


class Bell:
    """A reusable wake-up for one asyncio task, which awaits it like a future. Rung in a loop callback, it runs the task
    at once and not in the loop's next round."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_current_task", "_go_on", "_kind", "_loop")

    def __init__(self) -> None:
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self._current_task: Callable[[Any], object] = sys.modules["asyncio"].current_task
        # By this attribute a task recognizes a future-like object, see `asyncio.isfuture`.
        self._asyncio_future_blocking = False
        self._go_on: Callable[[Bell], object] | None = None
        """Wakes the waiting task; None while no task waits."""
        self._context: Context | None = None
        # Looked up here, since `asyncio.run` cancels tasks at its end, when no loop is running.
        self._kind = anyio.get_cancelled_exc_class()
        self._cancelled: BaseException | None = None

    def __await__(self) -> Generator[Bell, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def ring(self) -> None:
        """Wake the waiting task: before this returns if the loop called it, in the loop's next round if a task did. No
        effect if no task waits."""
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
        """The loop of the waiting task."""
        return self._loop

    def add_done_callback(self, callback: Callable[[Bell], object], *, context: Context) -> None:
        """Called by the task that begins to wait."""
        self._go_on = callback
        self._context = context

    def done(self) -> bool:
        """Whether no task waits, or the waiting task is being woken."""
        return self._go_on is None

    def cancel(self, msg: object = None) -> bool:
        """Called by the task that is cancelled. False if it is being woken already."""
        if (go_on := self._go_on) is None:
            return False
        self._cancelled = self._kind(*(() if msg is None else (msg,)))
        # Its canceller may cancel other tasks next, so the task must not run here.
        self._ring_soon(go_on)
        return True

    def result(self) -> None:
        """Raises the cancellation if the wait was cancelled."""
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

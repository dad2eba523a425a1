"""Tasks of our own: how they are started, how they are left behind, and how one waits for one thing.

They are started here and nowhere else, outlive the function that started them, and it is known which of them are still
there. On asyncio one costs 2 us where a task group of anyio costs 14 (CPython 3.11). And no task group can be left
while one of its tasks refuses to end, which a bounded shutdown must be able to do. It cancels nothing: the task tree
does.

No step of a task is delayed. A task that is kept from its next step for the sake of others must be told of a cancel in
between, and must not lose what it had waited for. It was tried, and cancels were lost.

A task waits in the cheapest way that the running backend has. `anyio.Event` and `anyio.lowlevel` find out anew at each
call what is running, which is half of the cost of a request of ours. Neither asyncio nor trio is imported: the running
loop is asked for what it has.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import anyio
import anyio.lowlevel
import sniffio

if TYPE_CHECKING:
    import asyncio

Function: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

_Work: TypeAlias = "tuple[Function, tuple[Any, ...], Context]"


class Spawner:
    """Tasks of one connection."""

    __slots__ = ("_count", "_idle", "_info", "_loop", "_on_crash", "_start_again", "_tasks", "_trio", "time")

    def __init__(self, on_crash: Callable[[BaseException], None]) -> None:
        self._on_crash = on_crash
        self._trio = sniffio.current_async_library() == "trio"
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self.time: Callable[[], float] = sys.modules["trio"].current_time if self._trio else self._loop.time
        """The time by the event loop's clock, in seconds; unlike anyio's it can also be had in a plain callback."""
        # anyio tells about the running task, or about all of them at once. The class of what it tells takes any task.
        self._info: Callable[[Any], anyio.TaskInfo] = cast("Any", type(anyio.get_current_task()))
        # With what it takes to start those again that have not begun. The loop keeps weak references only.
        self._tasks: dict[asyncio.Task[None], _Work | None] = {}
        # What all tasks begin with, as one object for all of them.
        self._start_again = self._unbegun
        self._count = 0
        self._idle: anyio.Event | None = None

    def spawn(self, function: Function, *args: Any, context: Context | None = None) -> None:
        """Start a task, in `context` or in a copy of the current one. What escapes from it goes to `on_crash`."""
        if context is None:
            context = copy_context()
        self._count += 1
        if self._trio:
            trio = sys.modules["trio"]
            name = function.__qualname__
            trio.lowlevel.spawn_system_task(self._guard, function, args, name=name, context=context)
        else:
            # Not by the loop, which may have a factory that begins tasks on the spot: then a request would be begun
            # before the cancel right behind it is read.
            task = sys.modules["asyncio"].Task(
                self._guard(function, args), loop=self._loop, name=function.__name__, context=context
            )
            self._tasks[task] = function, args, context
            task.add_done_callback(self._start_again)

    @property
    def can_share(self) -> bool:
        """Whether one task can run one piece of work after the other: if each can be asked what it has left behind."""
        return not self._trio

    def current(self) -> object:
        """The task that is running, for `is_reached`."""
        return sys.modules["trio"].lowlevel.current_task() if self._trio else sys.modules["asyncio"].current_task()

    def is_reached(self, task: object) -> bool:
        """Whether a cancel of a scope around `task`, which has not ended, has a hold of it: no shield keeps it off."""
        return self._info(task).has_pending_cancellation()

    def rest(self) -> None:
        """The running task has ended, or has nothing to do and waits for it: it does not count until `resume`."""
        self._count -= 1
        if self._count == 0 and self._idle is not None:
            self._idle.set()
            self._idle = None

    def resume(self) -> None:
        """A task that rests goes on."""
        self._count += 1

    @property
    def running(self) -> int:
        """How many of the tasks have not ended and do not rest."""
        return self._count

    async def wait_idle(self) -> None:
        """Wait until no task is left but those that rest."""
        while self._count:
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()

    async def _guard(self, function: Function, args: tuple[Any, ...]) -> None:
        task = None
        if not self._trio:
            task = sys.modules["asyncio"].current_task()
            # Now rather than at the end, which saves the loop a callback for each task.
            task.remove_done_callback(self._start_again)
            self._tasks[task] = None
        try:
            await function(*args)
        except GeneratorExit:
            # What was awaited has failed with it. asyncio throws that in from outside, where it closes one coroutine
            # after the other from the inside out: each has had its chance to end in order.
            pass
        except BaseException as error:
            self._on_crash(error)
        finally:
            if task is not None:
                del self._tasks[task]
            self.rest()

    def _unbegun(self, task: asyncio.Task[None]) -> None:
        """It was cancelled natively before its first step."""
        work = self._tasks.pop(task)
        assert work is not None
        function, args, context = work
        self.spawn(function, *args, context=context)
        self.rest()


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


class Bell:
    """Awaited by one task of asyncio, again and again. It does for the task what a future of asyncio does. But if it is
    rung in a callback of the loop, the task goes on at once, and not in the loop's next round."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_current_task", "_go_on", "_loop")

    def __init__(self) -> None:
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self._current_task: Callable[[Any], object] = sys.modules["asyncio"].current_task
        # How a task knows a future-like object, see `asyncio.isfuture`.
        self._asyncio_future_blocking = False
        self._go_on: Callable[[Bell], object] | None = None
        """Has the task that waits go on; None if none does."""
        self._context: Context | None = None
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
        self._cancelled = anyio.get_cancelled_exc_class()(*(() if msg is None else (msg,)))
        # What cancels it may be about to cancel others.
        self._ring_soon(go_on)
        return True

    def result(self) -> None:
        """Raises the cancellation, if it was cancelled."""
        if (cancelled := self._cancelled) is not None:
            self._cancelled = None
            raise cancelled


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

"""The tasks of an event loop. `Spawner` starts and counts them, `Futures` and `Bell` let a task wait for one event, and
`drain` consumes an author's async generator.

All tasks of the runtime start here. A task costs 2 us on asyncio, and 14 us in an anyio task group (CPython 3.11). A
task group also cannot be left while one of its tasks ignores its cancel. A shutdown with a time limit must not wait for
such a task. Only the task tree cancels, not this module.

No step of a task is delayed for fairness. A delayed task would have to see cancels in between and keep the result that
it waited for. An attempt to do that lost cancels.

`anyio.Event` and `anyio.lowlevel` look up the backend at each call, which is half of the cost of an outgoing request.
So this module uses what the running loop offers, and imports neither asyncio nor trio.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import anyio
import anyio.lowlevel
import sniffio

if TYPE_CHECKING:
    import asyncio

Function: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

_Work: TypeAlias = "tuple[Function, tuple[Any, ...], contextvars.Context]"


class Spawner:
    """The tasks of one connection. `on_crash` gets each exception that escapes from a task."""

    __slots__ = ("_count", "_idle", "_info", "_loop", "_on_crash", "_start_again", "_tasks", "_trio", "time")

    def __init__(self, on_crash: Callable[[BaseException], None]) -> None:
        self._on_crash = on_crash
        self._trio = sniffio.current_async_library() == "trio"
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self.time: Callable[[], float] = sys.modules["trio"].current_time if self._trio else self._loop.time
        """The event loop's clock, in seconds. Unlike `anyio.current_time` it also works in a loop callback."""
        # anyio offers TaskInfo for the running task or for all tasks. Its class accepts any one task.
        self._info: Callable[[Any], anyio.TaskInfo] = cast("Any", type(anyio.get_current_task()))
        # The value starts a task again that was cancelled before its first step. The loop holds only weak references.
        self._tasks: dict[asyncio.Task[None], _Work | None] = {}
        # One bound method for all tasks, instead of one for each.
        self._start_again = self._unbegun
        self._count = 0
        self._idle: anyio.Event | None = None

    def spawn(self, function: Function, *args: Any, context: contextvars.Context | None = None) -> None:
        """Start a task, in `context` or in a copy of the current one."""
        if context is None:
            context = contextvars.copy_context()
        self._count += 1
        if self._trio:
            trio = sys.modules["trio"]
            name = function.__qualname__
            trio.lowlevel.spawn_system_task(self._guard, function, args, name=name, context=context)
        else:
            # Not `loop.create_task`: an eager task factory would begin a request before the cancel right behind it is
            # read.
            task = sys.modules["asyncio"].Task(
                self._guard(function, args), loop=self._loop, name=function.__name__, context=context
            )
            self._tasks[task] = function, args, context
            task.add_done_callback(self._start_again)

    @property
    def can_share(self) -> bool:
        """Whether one task can run several requests in turn. On asyncio it can be seen whether a request left a cancel
        pending."""
        return not self._trio

    def current(self) -> object:
        """Return the running task, for `is_reached`."""
        return sys.modules["trio"].lowlevel.current_task() if self._trio else sys.modules["asyncio"].current_task()

    def is_reached(self, task: object) -> bool:
        """Whether a cancel is pending in `task`, which has not ended, and no shield holds it off."""
        return self._info(task).has_pending_cancellation()

    def rest(self) -> None:
        """Do not count the running task until `resume`, because it waits for work, or has ended."""
        self._count -= 1
        if self._count == 0 and self._idle is not None:
            self._idle.set()
            self._idle = None

    def resume(self) -> None:
        """Count an idle task again."""
        self._count += 1

    @property
    def running(self) -> int:
        """The number of tasks that have not ended and are not idle."""
        return self._count

    async def wait_idle(self) -> None:
        """Wait until all tasks have ended or are idle."""
        while self._count:
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()

    async def _guard(self, function: Function, args: tuple[Any, ...]) -> None:
        task = None
        if not self._trio:
            task = sys.modules["asyncio"].current_task()
            # Here and not at the end of the task, which saves the loop one callback for each task.
            task.remove_done_callback(self._start_again)
            self._tasks[task] = None
        try:
            await function(*args)
        except GeneratorExit:
            # asyncio throws this in when it closes coroutines at its shutdown, from the inside out. Each inner
            # coroutine has already had its chance to clean up.
            pass
        except BaseException as error:
            self._on_crash(error)
        finally:
            if task is not None:
                del self._tasks[task]
            self.rest()

    def _unbegun(self, task: asyncio.Task[None]) -> None:
        """Start a task again that was cancelled natively before its first step."""
        work = self._tasks.pop(task)
        assert work is not None
        function, args, context = work
        self.spawn(function, *args, context=context)
        self.rest()


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
        """Schedules a function for the loop's next round. None on trio, where that costs more than a task."""
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
    """Wakes one asyncio task, again and again. The task awaits this object like a future. If it is rung in a loop
    callback, the task runs at once and not in the loop's next round."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_current_task", "_go_on", "_kind", "_loop")

    def __init__(self) -> None:
        # A task reads this attribute of a future-like object without the method `get_loop`.
        self._loop: Any = anyio.lowlevel.current_token().native_token
        self._current_task: Callable[[Any], object] = sys.modules["asyncio"].current_task
        self._go_on: Callable[[Bell], object] | None = None
        """Wakes the waiting task; None while no task waits."""
        self._context: Context | None = None
        # Looked up here, since `asyncio.run` cancels tasks at its end, when no loop is running.
        self._kind = anyio.get_cancelled_exc_class()
        self._cancelled: BaseException | None = None

    def __await__(self) -> Generator[Bell, None, None]:
        # By this attribute a task recognizes a future-like object, see `asyncio.isfuture`. The task sets it to False.
        self._asyncio_future_blocking = True
        yield self

    def ring(self) -> None:
        """Wake the waiting task. If the loop called this method, the waiting task runs before the method returns. If a
        task called it, the waiting task runs in the loop's next round. Without a waiting task this has no effect."""
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

    def add_done_callback(self, callback: Callable[[Bell], object], *, context: Context) -> None:
        """Remember the callback of the waiting task. The task calls this when it begins to wait."""
        self._go_on = callback
        self._context = context

    def done(self) -> bool:
        """Whether no task waits, or the waiting task is being woken."""
        return self._go_on is None

    def cancel(self, msg: object = None) -> bool:
        """Cancel the wait. The cancelled task calls this. Returns False if the task is being woken already."""
        if (go_on := self._go_on) is None:
            return False
        self._cancelled = self._kind(*(() if msg is None else (msg,)))
        # Its canceller may cancel other tasks next, so the task must not run here.
        self._ring_soon(go_on)
        return True

    def result(self) -> None:
        """Raise the cancellation if the wait was cancelled."""
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


async def drain(generator: AsyncGenerator[Any, Any], take: Callable[[Any], Awaitable[object]]) -> None:
    """Pass each yielded item to `take`, and close the generator. An exception of `take` is raised inside the generator
    at its `yield`, so a cancel during `take` behaves there like a cancel in any other `await`."""
    raised: BaseException | None = None
    try:
        while True:
            try:
                piece = await (anext(generator) if raised is None else generator.athrow(raised))
            except StopAsyncIteration:
                return
            try:
                if raised is not None:
                    # A generator that swallows the exception and yields again must not starve the event loop.
                    await anyio.lowlevel.cancel_shielded_checkpoint()
                await take(piece)
                raised = None
            except GeneratorExit:
                raise  # this coroutine is being closed and cannot await
            except BaseException as error:
                raised = error
    finally:
        # The traceback refers to this frame: without this, the two would be a reference cycle.
        raised = None
        await generator.aclose()

"""Starts tasks that outlive the function that started them, and knows which of them are still there.

Tasks of our own are started here and nowhere else. On asyncio one costs 2 us where a task group of anyio costs 14
(CPython 3.11). And no task group can be left while one of its tasks refuses to end, which a bounded shutdown must be
able to do. It cancels nothing: the task tree does.

No step of a task is delayed. A task that is kept from its next step for the sake of others must be told of a cancel in
between, and must not lose what it had waited for. It was tried, and cancels were lost.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
import anyio.lowlevel
import sniffio

if TYPE_CHECKING:
    import asyncio

Function: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

_Work: TypeAlias = "tuple[Function, tuple[Any, ...], contextvars.Context]"


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

    def spawn(self, function: Function, *args: Any, context: contextvars.Context | None = None) -> None:
        """Start a task, in `context` or in a copy of the current one. What escapes from it goes to `on_crash`."""
        if context is None:
            context = contextvars.copy_context()
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

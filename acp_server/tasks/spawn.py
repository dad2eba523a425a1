"""Starts tasks that outlive the function that started them, and counts the running ones.

All tasks of the runtime start here. A task costs 2 us on asyncio, and 14 us in an anyio task group (CPython 3.11). A
task group also cannot be left while one of its tasks ignores its cancel, which a bounded shutdown has to do. This
module cancels nothing; the task tree does.

No step of a task is delayed for fairness. A delayed task would have to see cancels in between and keep the result that
it waited for; an attempt lost cancels.
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
        """Whether one task can run several requests in turn. asyncio can tell whether one left a cancel pending."""
        return not self._trio

    def current(self) -> object:
        """The running task, for `is_reached`."""
        return sys.modules["trio"].lowlevel.current_task() if self._trio else sys.modules["asyncio"].current_task()

    def is_reached(self, task: object) -> bool:
        """Whether a cancel is pending in `task`, which has not ended, and no shield holds it off."""
        return self._info(task).has_pending_cancellation()

    def rest(self) -> None:
        """Do not count the running task until `resume`: it is idle and waits for work, or has ended."""
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

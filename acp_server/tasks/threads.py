"""Runs plain functions in worker threads that can be abandoned.

The threads are daemons and are not reused. A thread that never ends costs its memory. It blocks neither the loop, nor
the exit of the process, nor other functions. anyio's worker threads are not daemons, and count against the limit of the
pool while they run. The caller decides what an abandoned function may still do.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias, cast

import anyio
import anyio.lowlevel
import sniffio
from anyio.lowlevel import RunVar

from acp_server.errors import RequestCancelled, TooManyThreads

try:
    # Not public: anyio 4.15 to 4.x have it (`tests/tasks/test_private_names.py`). Without it, `anyio.from_thread` needs
    # its `token` in these threads.
    from anyio._core._eventloop import claim_worker_thread
except ImportError:
    claim_worker_thread = None

logger: logging.Logger = logging.getLogger("acp_server.tasks")

RUNNING: Final = 40
"""The most functions with a waiting caller that run at once. Further functions are queued."""

ABANDONED: Final = 64
"""The most abandoned functions that may run at once. At this number `run` raises TooManyThreads."""

ASKED: Final = 256
"""The most functions that may run at once for `ask`. At this number `ask` raises TooManyThreads."""

_MANY: Final = 8
"""The number of abandoned threads above which a warning is logged. A few are normal, because they have not seen their
cancel yet."""

_BRIEFLY: Final = 0.05
"""Seconds for which the loop may be blocked in one round, for all quick functions together."""

_Future: TypeAlias = "Future[Any]"

_current: RunVar[Threads] = RunVar("acp_server threads")


class Threads:
    """The worker threads of one event loop."""

    def __init__(self) -> None:
        # A weak reference: anyio keeps this object alive as long as the loop.
        self._loop: Final[Callable[[], Any]] = weakref.ref(anyio.lowlevel.current_token().native_token)
        self._limiter = anyio.CapacityLimiter(RUNNING)
        self._lock = threading.Lock()
        self._until: float | None = None
        self.home: Final = threading.get_ident()
        self.abandoned: int = 0
        """The number of abandoned threads that still run."""
        self.asked: int = 0
        """The number of threads that run for `ask`."""

    @classmethod
    def current(cls) -> Threads:
        """Return the threads of the running loop."""
        try:
            return _current.get()
        except LookupError:
            threads = cls()
            _current.set(threads)
            return threads

    def soon(self, function: Callable[[], object]) -> None:
        """Call `function` in the loop, from any thread. In the loop's own thread it is called at once. If the loop has
        ended, this has no effect."""
        if threading.get_ident() == self.home:
            function()
        else:
            self.later(function)

    def later(self, function: Callable[[], object]) -> None:
        """Do the same as `soon`, but never at once, so that other tasks run first."""
        try:
            self._soon(_guarded, function)
        except RuntimeError:
            pass  # the loop has ended, and its tasks with it

    def _soon(self, function: Callable[..., object], *args: Any) -> None:
        """Schedule a call in the loop. Raises RuntimeError if the loop has ended."""
        if (loop := self._loop()) is not None:
            soon = loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon
            soon(function, *args)

    async def run(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function` in a thread and wait for its result. A cancel abandons the thread at once.

        The function may call back into the loop with `in_loop`. Raises what the function raises, and TooManyThreads.
        """
        if _nested.get():
            # The outer function holds a place while it waits for this call. Waiting for a second place could deadlock.
            return await self._run(name, function, args)
        async with self._limiter:
            return await self._run(name, function, args)

    async def _run(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self.abandoned >= ABANDONED:
            raise TooManyThreads(
                f"{name} is not started, because {self.abandoned} threads still run after their cancel"
            )
        worker = self._start(Worker(self, name, function, args))
        try:
            return await worker.outcome()
        finally:
            worker.abandon()

    def ask(self, name: str, function: Callable[[], Any]) -> Worker:
        """Call a quick `function` in a thread without waiting. It cannot call back into the loop. Raises
        TooManyThreads."""
        if self.asked >= ASKED:
            raise TooManyThreads(f"{name} is not started, because {self.asked} threads for quick functions still run")
        return self._start(Worker(self, name, function, (), asked=True))

    def _start(self, worker: Worker) -> Worker:
        try:
            worker.start()
        except RuntimeError as error:
            raise TooManyThreads(f"the operating system cannot start a thread for {worker.name}") from error
        return worker

    def briefly(self, worker: Worker) -> bool:
        """Block the loop until `worker` has ended, at most for the rest of the time that all such calls share in this
        round. Returns whether the worker has ended."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + _BRIEFLY
            self._soon(self._moment_over)
        return worker.ended.wait(max(0.0, self._until - now))

    def _moment_over(self) -> None:
        self._until = None

    def count(self, *, abandoned: int = 0, asked: int = 0) -> None:
        """Add to the counts of abandoned threads and of threads for `ask`. Called by workers, in any thread."""
        with self._lock:
            self.abandoned += abandoned
            self.asked += asked


class Worker:
    """One function in its thread. `value` or `error` is valid once `ended` is set."""

    def __init__(
        self, threads: Threads, name: str, function: Callable[..., Any], args: tuple[Any, ...], asked: bool = False
    ) -> None:
        self._threads = threads
        self.name: Final = name
        self._asked = asked
        self._function = function
        self._args = args
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._jobs: deque[tuple[_Future, Callable[..., Any], tuple[Any, ...]]] = deque()
        self._news = anyio.Event()
        self._abandoned = False
        self._told = False
        self.ended: threading.Event = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if the system has no thread left."""
        threading.Thread(target=self._run, name=f"acp_server {self.name}", daemon=True).start()
        self._threads.count(asked=self._asked)

    async def outcome(self) -> Any:
        """Wait until the function has ended, and run its calls into the loop meanwhile. Returns its result, and raises
        its exception."""
        await self.wait()
        if self.error is not None:
            raise self.error
        return self.value

    async def wait(self) -> None:
        """Wait like `outcome`, without raising the exception of the function."""
        while True:
            while self._jobs:
                await self._carry_out(*self._jobs.popleft())
            # Only after all calls that the function has made into the loop.
            if self._told:
                break
            await self._news.wait()
            self._news = anyio.Event()

    def abandon(self) -> None:
        """Stop waiting for the function. From now on its calls into the loop raise RequestCancelled. Idempotent."""
        with self._lock:
            running = not (self._abandoned or self.ended.is_set())
            self._abandoned = self._abandoned or running
            # Also of a worker that has ended: threads that it started may have queued calls in its context.
            jobs, self._jobs = self._jobs, deque()
        for job, _, _ in jobs:
            job.set_exception(RequestCancelled())
        if not running:
            return
        self._threads.count(abandoned=1)
        many = self._threads.abandoned
        level = logging.WARNING if many > _MANY else logging.INFO
        logger.log(level, "%s was cancelled and still runs in its thread; %d such threads", self.name, many)

    async def _carry_out(self, job: _Future, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        token = _nested.set(True)
        try:
            value = function(*args)
            job.set_result(await value if inspect.isawaitable(value) else value)
        except Exception as error:
            job.set_exception(error)
        except BaseException:
            job.set_exception(RequestCancelled())
            raise
        finally:
            _nested.reset(token)

    def check(self) -> None:
        """Raise RequestCancelled where `call` would."""
        # For `ask` no task waits in the loop, and the loop may be blocked in `briefly`.
        if self._abandoned or self._asked or self.ended.is_set():
            raise RequestCancelled

    def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call `function` in the loop (see `in_loop`). The function in the thread calls this."""
        job: Future[Any] = Future()
        with self._lock:
            self.check()
            self._jobs.append((job, function, args))
        # Looked up in the loop: it may have replaced the event by then.
        self._threads.soon(lambda: self._news.set())
        return job.result()

    def _run(self) -> None:
        self._context.run(_worker.set, self)
        # The copied context names the loop's library, and anyio would take this thread for the loop's.
        self._context.run(sniffio.current_async_library_cvar.set, None)
        try:
            # For `ask` no task waits, so anyio's from_thread functions raise RuntimeError there.
            with nullcontext() if self._asked else _claimed(_Loop(self)):
                self.value = self._context.run(self._function, *self._args)
        except BaseException as error:
            self.error = error
        with self._lock:
            self.ended.set()
        self._threads.count(abandoned=-self._abandoned, asked=-self._asked)
        if self._abandoned:
            logger.info("the thread of %s has ended after its call was cancelled", self.name)
        self._threads.soon(self._hear)

    def _hear(self) -> None:
        self._told = True
        self._news.set()


class _Loop:
    """The backend that `anyio.from_thread` uses in a worker's thread. Its calls go through `in_loop`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def run_async_from_thread(self, function: Callable[..., Any], args: tuple[Any, ...], **_: Any) -> Any:
        return self._worker.call(function, args)

    run_sync_from_thread = run_async_from_thread

    def check_cancelled(self) -> None:
        self._worker.check()


def _claimed(loop: _Loop) -> AbstractContextManager[Any]:
    return nullcontext() if claim_worker_thread is None else claim_worker_thread(cast("Any", loop), None)


_worker: contextvars.ContextVar[Worker] = contextvars.ContextVar("acp_server worker")
_nested: contextvars.ContextVar[bool] = contextvars.ContextVar("acp_server nested", default=False)
"""Whether this code runs in the loop on behalf of a function that waits in its thread."""


def _guarded(function: Callable[[], object]) -> None:
    # A bare callback has no caller to raise to, and an exception in it ends trio.
    try:
        function()
    except Exception:
        logger.exception("a call from a thread into the event loop failed")


def in_loop(function: Callable[..., Any], *args: Any) -> Any:
    """Call `function(*args)` in the loop, from a function that `Threads.run` called, and await it if it is async.

    `function` runs in the task that waits for the thread, so a cancel of that task reaches it. Its exceptions are
    raised. Raises RequestCancelled once the calling function was abandoned or has ended, and in functions of
    `Threads.ask`. Raises RuntimeError in other threads, also in threads that the function started without a copy of its
    context."""
    worker = _worker.get(None)
    if worker is None:
        raise RuntimeError("this thread is not the worker thread of a plain function")
    return worker.call(function, args)


__all__ = ["Threads", "Worker"]

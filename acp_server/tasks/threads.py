"""Plain functions in threads that can be left behind.

The threads are daemons and are not used again. A thread that never ends costs its memory, and holds up neither the
loop, nor the process, nor other functions. anyio's own are not daemons, and keep their place in the pool for as long as
they run. What a function may do once it is left behind is its caller's matter.
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
    # Not public: anyio 4.15 to 4.x have it (`tests/tasks/test_from_thread.py`). Without it, `anyio.from_thread` needs
    # its `token` in these threads.
    from anyio._core._eventloop import claim_worker_thread
except ImportError:
    claim_worker_thread = None

logger: logging.Logger = logging.getLogger("acp_server.tasks")

RUNNING: Final = 40
"""Functions that run at once and are waited for; more wait their turn."""

ABANDONED: Final = 64
"""Functions that may go on although their callers wait no more. From there on `run` starts no new ones."""

ASKED: Final = 256
"""Functions that run at once for `ask`. From there on it starts no new ones."""

_MANY: Final = 8
"""More of these than it takes to see a cancel in time are worth a warning."""

_BRIEFLY: Final = 0.05
"""Seconds for which the loop stands still, in one of its rounds, for functions that are to be quick."""

_Future: TypeAlias = "Future[Any]"

_current: RunVar[Threads] = RunVar("acp_server threads")


class Threads:
    """The threads of one event loop."""

    def __init__(self) -> None:
        # Not the loop itself: anyio keeps this object for as long as the loop is there.
        self._loop: Final[Callable[[], Any]] = weakref.ref(anyio.lowlevel.current_token().native_token)
        self._limiter = anyio.CapacityLimiter(RUNNING)
        self._lock = threading.Lock()
        self._until: float | None = None
        self.home: Final = threading.get_ident()
        self.abandoned: int = 0
        """How many threads run without a caller."""
        self.asked: int = 0
        """How many threads run for `ask`."""

    @classmethod
    def current(cls) -> Threads:
        """Those of the loop that is running."""
        try:
            return _current.get()
        except LookupError:
            threads = cls()
            _current.set(threads)
            return threads

    def soon(self, function: Callable[[], object]) -> None:
        """Have `function` called in the loop, from any thread; at once if this is the loop's. Nothing, if it ended."""
        if threading.get_ident() == self.home:
            function()
        else:
            self.later(function)

    def later(self, function: Callable[[], object]) -> None:
        """The same, but never at once: other tasks run before."""
        try:
            self._soon(_guarded, function)
        except RuntimeError:
            pass  # the loop has ended, and its tasks with it

    def _soon(self, function: Callable[..., object], *args: Any) -> None:
        """Have it called in the loop, and do not wait. Raises RuntimeError if the loop has ended."""
        if (loop := self._loop()) is not None:
            soon = loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon
            soon(function, *args)

    async def run(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function` in a thread and wait for what comes of it. Being cancelled leaves it behind at once.

        Meanwhile it may have the loop do something, see `in_loop`. Raises what it raises, and TooManyThreads.
        """
        if _nested.get():
            # The function that waits for this one has its place, and it must not wait for the places of others like it.
            return await self._run(name, function, args)
        async with self._limiter:
            return await self._run(name, function, args)

    async def _run(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self.abandoned >= ABANDONED:
            raise TooManyThreads(f"{self.abandoned} threads that were cancelled still run; {name} is not started")
        worker = self._start(Worker(self, name, function, args))
        try:
            return await worker.outcome()
        finally:
            worker.abandon()

    def ask(self, name: str, function: Callable[[], Any]) -> Worker:
        """Call `function`, which is to be quick, in a thread, and do not wait. It cannot have the loop do anything.
        Raises TooManyThreads."""
        if self.asked >= ASKED:
            raise TooManyThreads(f"{self.asked} threads that were to be quick still run; {name} is not started")
        return self._start(Worker(self, name, function, (), asked=True))

    def _start(self, worker: Worker) -> Worker:
        try:
            worker.start()
        except RuntimeError as error:
            raise TooManyThreads(f"the system has no thread for {worker.name}") from error
        return worker

    def briefly(self, worker: Worker) -> bool:
        """Stand still until `worker` is done, for a moment that all who ask for it in one round of the loop share."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + _BRIEFLY
            self._soon(self._moment_over)
        return worker.ended.wait(max(0.0, self._until - now))

    def _moment_over(self) -> None:
        self._until = None

    def count(self, *, abandoned: int = 0, asked: int = 0) -> None:
        """For the workers: so many more are left behind, or run for `ask`."""
        with self._lock:
            self.abandoned += abandoned
            self.asked += asked


class Worker:
    """One function in its thread: its value or its error once `ended` is set."""

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
        """Begin. Raises RuntimeError if the system has no thread for it."""
        threading.Thread(target=self._run, name=f"acp_server {self.name}", daemon=True).start()
        self._threads.count(asked=self._asked)

    async def outcome(self) -> Any:
        """Wait until it has ended, and carry out meanwhile what it wants of the loop. Raises what it raised."""
        await self.wait()
        if self.error is not None:
            raise self.error
        return self.value

    async def wait(self) -> None:
        """The same, whatever came of it."""
        while True:
            while self._jobs:
                await self._carry_out(*self._jobs.popleft())
            # Behind all that the function had the loop do.
            if self._told:
                break
            await self._news.wait()
            self._news = anyio.Event()

    def abandon(self) -> None:
        """Its caller waits no more. What it wants of the loop from here on is refused. Idempotent."""
        with self._lock:
            running = not (self._abandoned or self.ended.is_set())
            self._abandoned = self._abandoned or running
            # Also of a worker that has ended: threads that it has started may have asked in its name.
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
        """Raises RequestCancelled where `call` would."""
        # The caller does not wait for it in the loop, which may even be standing still for it.
        if self._abandoned or self._asked or self.ended.is_set():
            raise RequestCancelled

    def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """For the thread: see `in_loop`."""
        job: Future[Any] = Future()
        with self._lock:
            self.check()
            self._jobs.append((job, function, args))
        # Not the event of this moment: the loop may have put another in its place when it gets there.
        self._threads.soon(lambda: self._news.set())
        return job.result()

    def _run(self) -> None:
        self._context.run(_worker.set, self)
        # Otherwise anyio's functions take this thread for the loop's.
        self._context.run(sniffio.current_async_library_cvar.set, None)
        try:
            # In one of `ask` anyio's functions raise RuntimeError, as in any thread that the loop does not wait for.
            with nullcontext() if self._asked else _claimed(_Loop(self)):
                self.value = self._context.run(self._function, *self._args)
        except BaseException as error:
            self.error = error
        with self._lock:
            self.ended.set()
        self._threads.count(abandoned=-self._abandoned, asked=-self._asked)
        if self._abandoned:
            logger.info("%s has ended, after it was cancelled", self.name)
        self._threads.soon(self._hear)

    def _hear(self) -> None:
        self._told = True
        self._news.set()


class _Loop:
    """What `anyio.from_thread` takes for the loop's backend in the thread of a worker: it is as with `in_loop`."""

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
"""Whether this is done in the loop for a function that waits for it in its thread."""


def _guarded(function: Callable[[], object]) -> None:
    # In a bare callback there is no caller to raise to, and trio ends over it.
    try:
        function()
    except Exception:
        logger.exception("what a thread had the event loop do has failed")


def in_loop(function: Callable[..., Any], *args: Any) -> Any:
    """From a function that `Threads.run` called: call `function(*args)` in the loop and await it if it is async. That
    happens in the place of the task that waits for this thread, so that a cancel reaches it as well. Raises what it
    raises, RequestCancelled once the function is abandoned or has ended and in one of `Threads.ask`, and RuntimeError
    in any other thread. A thread that the function has started is such another one, unless it runs in a copy of its
    context."""
    worker = _worker.get(None)
    if worker is None:
        raise RuntimeError("not in a thread that a plain function runs in")
    return worker.call(function, args)

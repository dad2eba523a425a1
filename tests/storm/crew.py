"""The threads of a storm, in step with its event loop: the loop goes on when each of them has ended, waits for the
loop, or waits at a gate that the storm opens.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.tasks.threads import Threads, Worker

STUCK = 20.0
"""Seconds of real time after which a thread that neither ends nor waits is a fault of the storm's own."""


class Crew:
    """All threads that the library or the storm's handlers start."""

    def __init__(self) -> None:
        self._others = set(threading.enumerate())
        self._changed = threading.Condition()
        self._parked: set[threading.Thread] = set()
        self._gates: dict[threading.Thread, threading.Event] = {}
        self._asking: dict[Worker, threading.Thread] = {}
        self._open = False

    def gate(self) -> None:
        """In a thread: wait until the gates are opened."""
        thread, event = threading.current_thread(), threading.Event()
        with self._changed:
            if self._open:
                return
            self._gates[thread] = event
        self._park(thread)
        event.wait()

    def open_gates(self, for_good: bool = False) -> None:
        """Let those go on that wait at a gate; for good: also those that still come to one."""
        with self._changed:
            self._open = self._open or for_good
            gates, self._gates = self._gates, {}
        for thread, event in gates.items():
            self._unpark(thread)
            event.set()
            self.settle()

    def settle(self) -> None:
        """Stand still until no thread runs."""
        with self._changed:
            for _ in range(int(STUCK / 0.001)):
                if not any(thread not in self._parked for thread in self._alive()):
                    return
                self._changed.wait(0.001)
        raise AssertionError("a thread neither ends nor waits")

    @property
    def left(self) -> list[str]:
        """The names of those that have not ended."""
        return [thread.name for thread in self._alive()]

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Within it, the library's threads are in step: started, answered or abandoned, they run until they wait again
        before the loop goes on."""
        start, carry_out, call, abandon = Worker.start, Worker._carry_out, Worker.call, Worker.abandon

        def starting(worker: Worker) -> None:
            start(worker)
            self.settle()

        async def carrying_out(worker: Worker, *job: Any) -> None:
            try:
                await carry_out(worker, *job)
            finally:
                self._answered(worker)

        def calling(worker: Worker, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
            thread = threading.current_thread()
            self._asking[worker] = thread
            self._park(thread)
            try:
                return call(worker, function, args)
            finally:
                self._unpark(thread)

        def abandoning(worker: Worker) -> None:
            abandon(worker)
            self._answered(worker)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Worker, "start", starting)
            patch.setattr(Worker, "_carry_out", carrying_out)
            patch.setattr(Worker, "call", calling)
            patch.setattr(Worker, "abandon", abandoning)
            patch.setattr(anyio.to_thread, "run_sync", _run_sync)
            yield

    def _answered(self, worker: Worker) -> None:
        thread = self._asking.pop(worker, None)
        if thread is not None:
            self._unpark(thread)
            self.settle()

    def _park(self, thread: threading.Thread) -> None:
        with self._changed:
            self._parked.add(thread)
            self._changed.notify_all()

    def _unpark(self, thread: threading.Thread) -> None:
        with self._changed:
            self._parked.discard(thread)

    def _alive(self) -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t.name.startswith("acp_server ") and t not in self._others]


async def _run_sync(
    function: Callable[..., Any], *args: Any, limiter: anyio.CapacityLimiter | None = None, **_options: Any
) -> Any:
    """`anyio.to_thread.run_sync` in a thread that is in step: no cancel reaches who waits for it."""
    await anyio.lowlevel.checkpoint()
    async with limiter or anyio.CapacityLimiter(1):
        worker = Worker(Threads.current(), "stand-in", function, args)
        worker.start()
        with anyio.CancelScope(shield=True):
            return await worker.outcome()

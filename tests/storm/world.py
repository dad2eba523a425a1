"""A backend on which a storm can be repeated: its clock stands still while anything can happen, and jumps when nothing
can; threads run in step with the loop (see `crew`); what the scheduler draws by lot, it draws by the storm's seed.
"""

import asyncio
import selectors
import types
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import time
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import hypothesis  # noqa: F401  (with it, trio schedules by a generator that can be seeded)
import pytest
import trio
import trio.testing
from anyio._backends._asyncio import CancelScope

from acp_server.peer import dispatch as dispatch_module
from acp_server.peer import reader as reader_module
from acp_server.session import updates as updates_module
from acp_server.tools import output
from tests.cancel.stepper import _number
from tests.storm.crew import STUCK, Crew

T = TypeVar("T")

BUSY = 500
"""Rounds of the loop without a pause after which each takes `ROUND` seconds: anyio delivers a cancel anew in every
round, and only the end of a time limit ends that."""
ROUND = 0.01


class World:
    """Where one storm takes place."""

    def __init__(self, backend: str, seed: int) -> None:
        self.backend = backend
        self.crew = Crew()
        self._seed = seed
        self._loop: _Loop | None = None
        self._clock: trio.testing.MockClock | None = None

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        """What `program` returns."""
        options: dict[str, Any]
        if self.backend == "asyncio":
            self._loop = _Loop(self.crew)
            options = {"loop_factory": lambda: self._loop}
        else:
            trio._core._run._r.seed(self._seed)
            self._clock = trio.testing.MockClock(autojump_threshold=0)
            options = {"clock": self._clock, "instruments": [_Instrument(self.crew)]}
        with self._patched():
            return anyio.run(program, backend=self.backend, backend_options=options)

    async def idle(self) -> None:
        """Until nothing can happen but that time passes, or that its caller does something."""
        if self._loop is not None:
            await self._loop.idle()
        else:
            await trio.testing.wait_all_tasks_blocked()

    def now(self) -> float:
        """Seconds since the storm began."""
        clock = self._clock or self._loop
        return 0.0 if clock is None else clock.current_time()

    @contextmanager
    def _patched(self) -> Iterator[None]:
        clock = types.SimpleNamespace(monotonic=self.now, time=time)
        with pytest.MonkeyPatch.context() as patch, self.crew.in_step():
            _number(CancelScope, patch)
            for module in (reader_module, dispatch_module):
                patch.setattr(module, "perf_counter", self.now)
            patch.setattr(updates_module, "time", clock)
            patch.setattr(output, "time", clock)
            yield


class _Selector(selectors.DefaultSelector):
    """Does not let time pass: it tells the loop that it has."""

    loop: "_Loop"

    def select(self, timeout: float | None = None) -> Any:
        loop = self.loop
        loop.crew.settle()
        events = super().select(0)
        loop.busy = 0 if timeout != 0 else loop.busy + 1
        if loop.busy > BUSY:
            loop.pass_time(ROUND)
        if events or timeout == 0 or loop.nothing_happens(timeout):
            return events
        return super().select(STUCK)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.busy = 0
        self._passed = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._passed

    current_time = time

    def pass_time(self, seconds: float) -> None:
        self._passed += seconds

    async def idle(self) -> None:
        waiting = self.create_future()
        self._waiting.append(waiting)
        await waiting

    def nothing_happens(self, seconds: float | None) -> bool:
        """Those that wait for this are woken, else `seconds` pass. False if nothing ever will happen."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        elif seconds is None:
            return False
        else:
            self.pass_time(seconds)
        return True


class _Instrument(trio.abc.Instrument):
    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def before_io_wait(self, timeout: float) -> None:
        self._crew.settle()

"""The steps of tasks from one await to the next, and a fair turn for the event loop between long ones.

An event loop runs every task that is ready before it looks for input again. So five tasks that compute 200 ms between
two awaits would keep a message waiting for seconds: until it is noticed, read and acted on, and until what it has cut
gets to know it, each of them has a step. Therefore, after a long step, the tasks here whose last step was long wait for
some rounds of the loop, in which all else runs. Then the one that has waited longest has its step.
"""

from __future__ import annotations

import math
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel
import sniffio
from anyio.lowlevel import RunVar

T = TypeVar("T")

LONG: Final = 0.01
"""Seconds from which on a step is long."""

_ROUNDS: Final = 4
"""Rounds of the loop behind a long step, one for each thing that a message has to wait for."""

_PLACES: Final = 50
"""Tasks that wait at once. More do not wait: to look after thousands in each round would take longer than they do."""

_current: RunVar[Steps] = RunVar("acp_server steps")


class Steps:
    """Those of one event loop."""

    __slots__ = ("_rounds", "_soon", "_trio", "_waiting", "begun", "home")

    def __init__(self) -> None:
        loop: Any = anyio.lowlevel.current_token().native_token
        self._soon: Callable[..., object] = getattr(loop, "call_soon", None) or loop.run_sync_soon
        self._trio = sniffio.current_async_library() == "trio"
        self._rounds = 0
        """How many rounds the tasks still wait."""
        self._waiting: deque[object] = deque()
        """A place for each task that waits for its step."""
        self.home: Final = threading.get_ident()
        """The loop's thread."""
        self.begun = 0.0
        """When the present step began, by `time.perf_counter`; 0 between two steps. For other threads."""

    @classmethod
    def current(cls) -> Steps:
        """Those of the loop that is running."""
        try:
            return _current.get()
        except LookupError:
            steps = cls()
            _current.set(steps)
            return steps

    @types.coroutine
    def run(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Execute `work` in this task. Returns and raises what it does."""
        step: Callable[[Any], Any] = work.send
        value: Any = None
        while True:
            self.begun = begun = perf_counter()
            try:
                wanted = step(value)
            except StopIteration as end:
                return end.value
            finally:
                self.begun = 0.0
                long = perf_counter() - begun > LONG
                if long:
                    self._pause()
            try:
                step, value = work.send, (yield wanted)
                # Work of short steps holds nobody up, and does not wait.
                if long and (self._rounds or self._waiting) and len(self._waiting) < _PLACES:
                    cancelled = yield from self._wait()
                    if cancelled is not None and wanted is None:
                        step, value = work.throw, cancelled
                    elif cancelled is not None:
                        # What it waited for is there and would be lost: the cancel comes at the end of this step.
                        _cancel_again(cancelled)
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                # It has to know at once that it is cut, or that what it waited for has failed.
                step, value = work.throw, error

    def _pause(self) -> None:
        ticking = self._rounds > 0
        self._rounds = _ROUNDS
        if not ticking:
            self._next_round()

    def _next_round(self) -> None:
        try:
            self._soon(self._tick)
        except RuntimeError:
            # The loop is at its end.
            self._rounds = 0

    def _tick(self) -> None:
        self._rounds -= 1
        if self._rounds > 0:
            self._next_round()

    def _wait(self) -> Generator[Any, Any, BaseException | None]:
        """Wait for one's turn; asyncio's cancellation, if that comes first."""
        place = object()
        self._waiting.append(place)
        try:
            while self._rounds or self._waiting[0] is not place:
                if self._trio:
                    yield from anyio.lowlevel.cancel_shielded_checkpoint().__await__()
                    if anyio.current_effective_deadline() == -math.inf:
                        # It is cut, and gets to know it by itself at a checkpoint, the present one for instance.
                        break
                else:
                    yield
        except GeneratorExit:
            raise
        except BaseException as error:
            return error
        finally:
            self._waiting.remove(place)
        return None


def _cancel_again(cancelled: BaseException) -> None:
    """Deliver a cancellation of asyncio, which is delivered once and counted, at the next await."""
    task = sys.modules["asyncio"].current_task()
    task.uncancel()
    task.cancel(*cancelled.args)

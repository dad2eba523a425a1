"""The steps of tasks from one await to the next, noted so that another thread can see one that holds the event loop.

It delays no step. A task that is kept from its next step for the sake of others must be told of a cancel in between,
and must not lose what it had waited for. It was tried, and cancels were lost.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, Final, TypeVar

from anyio.lowlevel import RunVar

T = TypeVar("T")

_current: RunVar[Steps] = RunVar("acp_server steps")


class Steps:
    """Those of one event loop."""

    __slots__ = ("begun", "home")

    def __init__(self) -> None:
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
            self.begun = perf_counter()
            try:
                wanted = step(value)
            except StopIteration as end:
                return end.value
            finally:
                self.begun = 0.0
                # An error that was thrown in refers to this frame: both would be left to the garbage collector.
                value = None
            try:
                step, value = work.send, (yield wanted)
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                step, value = work.throw, error

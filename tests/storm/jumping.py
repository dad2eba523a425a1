"""Runs a program on a clock that stands still while anything can happen, and jumps when nothing can."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import hypothesis  # noqa: F401 - with it, what trio draws by lot comes from a generator that can be seeded
import trio.testing

T = TypeVar("T")

_BUSY = 500
_ROUND = 0.01
"""Rounds without a pause after which each takes so many seconds: anyio delivers a cancel to a shielded task anew in
every round, and only the end of a time limit ends that."""


def run(backend: str, seed: int, program: Callable[[], Awaitable[T]]) -> T:
    """What `program` returns; the same again for the same seed."""
    trio._core._run._r.seed(seed)  # type: ignore[attr-defined]
    options: dict[str, Any]
    if backend == "asyncio":
        options = {"loop_factory": _JumpingLoop}
    else:
        options = {"clock": trio.testing.MockClock(autojump_threshold=0), "strict_exception_groups": True}
    return anyio.run(program, backend=backend, backend_options=options)


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        self._busy = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def pause(self, seconds: float | None) -> None:
        """Nothing is ready to run for so long."""
        if seconds is None:
            return
        self._busy = 0 if seconds > 0 else self._busy + 1
        self._now += seconds if self._busy < _BUSY else _ROUND


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: _JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            self._loop.pause(timeout)
        return ready

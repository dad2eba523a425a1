"""Runs a program one scheduler step at a time, and does something between two of them.

A step is what a backend runs without interruption: one callback of asyncio's loop (a task up to its next wait is one),
one task step of trio. Runs are deterministic: the same program takes the same steps, so what happens at step `n` can be
repeated.
"""

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import hypothesis  # noqa: F401  (with it, trio schedules by a generator that can be seeded)
import pytest
import trio
from anyio._backends._asyncio import CancelScope

T = TypeVar("T")


class Steps:
    """Counts the steps from `start` to `stop`, and calls `before` with the number of each that is about to be made."""

    def __init__(self, before: Callable[[int], None] | None = None) -> None:
        self.count = 0
        self.error: BaseException | None = None
        """What `before` raised."""
        self._before = before
        self._running = False
        self._watcher: object = None

    def start(self) -> None:
        self._running = True

    def watch(self, backend: str) -> None:
        """The task that calls this only looks, again and again, whether something has happened. Its steps count no
        more: what is done before one of them is done before the next step of another task as well."""
        self._watcher = asyncio.current_task() if backend == "asyncio" else trio.lowlevel.current_task()

    def stop(self) -> None:
        self._running = False
        if self.error is not None:
            raise self.error

    def step(self, task: object = None) -> None:
        """For the scheduler: a step is about to be made, by `task` if it is a task's."""
        if self._running and (task is None or task is not self._watcher):
            self.count += 1
            if self._before is not None:
                try:
                    self._before(self.count)
                except BaseException as error:
                    self.error = error


def run(
    backend: str, program: Callable[[Steps], Awaitable[T]], before: Callable[[int], None] | None = None, seed: int = 0
) -> T:
    """What `program` returns on a fresh event loop; it starts and stops the counting.

    With another `seed`, trio makes the steps that are ready in another order.
    """
    steps = Steps(before)
    options: dict[str, Any]
    if backend == "asyncio":
        options = {"loop_factory": lambda: _Loop(steps)}
    else:
        trio._core._run._r.seed(seed)
        options = {"instruments": [_Instrument(steps)]}
    with pytest.MonkeyPatch.context() as patch:
        _number(CancelScope, patch)
        return anyio.run(program, steps, backend=backend, backend_options=options)


def tasks(backend: str) -> set[object]:
    """Every task there is."""
    if backend == "asyncio":
        return set(asyncio.all_tasks())
    found: set[object] = set()
    waiting = [trio.lowlevel.current_root_task()]
    while waiting:
        task = waiting.pop()
        assert task is not None
        found.add(task)
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _number(kind: type[Any], patch: pytest.MonkeyPatch) -> None:
    """Have the objects of a class hashed in the order of their making: in what order anyio goes through a set of them
    must not depend on their addresses."""
    init = kind.__init__
    count = itertools.count()
    numbers: dict[int, int] = {}

    def numbering_init(self: Any, *args: Any, **kwargs: Any) -> None:
        numbers[id(self)] = next(count)
        init(self, *args, **kwargs)

    patch.setattr(kind, "__init__", numbering_init)
    patch.setattr(kind, "__hash__", lambda self: numbers[id(self)])


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._step, callback, args, context=context)

    def _step(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._steps.step(getattr(callback, "__self__", None))
        callback(*args)


class _Instrument(trio.abc.Instrument):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps.step(task)

"""Time for cleaning up, and what becomes of work that takes more: shielded scopes with an end, and work in nodes.

Work has one deadline, however often and from however many sides it is cancelled. Then what waits for it goes on,
since work that cannot end must not hold up the rest; and if it takes no notice at all, it is left alone.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.tasks.blocks import Block
from acp_server.tasks.cause import Cause
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.tree import NOTHING, Node

logger: logging.Logger = logging.getLogger("acp_server.tasks")

DEFAULT_GRACE: Final = 5.0
"""Seconds that cancelled work gets for its cleanup before it is answered for."""


def grace(seconds: float | None = DEFAULT_GRACE) -> AbstractContextManager[anyio.CancelScope]:
    """`with grace():` is a block that a cancel does not reach, for at most `seconds`; None: as long as it takes.

    For cleanup that has to wait: killing a terminal, writing a last update. When the time is up the block is cancelled
    silently; `scope.cancelled_caught` of the yielded scope tells.
    """
    return _Grace(seconds)


class _Grace(Block):
    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def written(self) -> str:
        return f"with grace({'' if self._seconds == DEFAULT_GRACE else self._seconds})"

    def __enter__(self) -> anyio.CancelScope:
        self.entered = True
        deadline = math.inf if self._seconds is None else anyio.current_time() + self._seconds
        self._scope = anyio.CancelScope(deadline=deadline, shield=True)
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)


_AT_ONCE: Final = 64
"""How many are called for in one go. Each may have to write and log, and the rest of the program runs meanwhile."""

_SLACK: Final = 1.0
"""Seconds more than the watch's patience, for a caller that waits although it was cancelled itself."""


class Watchdog:
    """Calls back for everything that is still there `seconds` after it was put under watch; for infinity, at the end.

    One task serves any number of entries, since all have the same patience; it is started when there is something to
    watch, and ends when nothing is left.
    """

    __slots__ = ("_entries", "_finished", "_running", "_scope", "seconds", "spawner")

    def __init__(self, seconds: float, spawner: Spawner) -> None:
        self.seconds: float = seconds
        self.spawner: Spawner = spawner
        # With the same patience for all, the order of adding is the order of the deadlines.
        self._entries: OrderedDict[Callable[[], None], float] = OrderedDict()
        self._running = False
        self._finished = False
        self._scope: anyio.CancelScope | None = None

    def add(self, overdue: Callable[[], None]) -> None:
        """Call `overdue` in `seconds`, unless it is dropped before. It must not raise. Adding it again does nothing."""
        self._entries.setdefault(overdue, self.spawner.time() + self.seconds)
        if not self._running and not self._finished and self.seconds != math.inf:
            self.spawner.spawn(self._run)
            self._running = True

    def drop(self, overdue: Callable[[], None]) -> None:
        """What was to be called for is over. No effect if it is not under watch."""
        self._entries.pop(overdue, None)

    async def finish(self) -> None:
        """Patience is over for all of them. What is added from here on is called by the next `finish`."""
        for _ in self._finishing():
            await anyio.lowlevel.checkpoint()

    def finish_now(self) -> None:
        """The same, for a caller that cannot wait."""
        for _ in self._finishing():
            pass

    def _finishing(self) -> Iterator[None]:
        self._finished = True
        if self._scope is not None:
            self._scope.cancel()
        # Without those that are added meanwhile.
        left = len(self._entries)
        while left > 0:
            self._call(min(left, _AT_ONCE), math.inf)
            left -= _AT_ONCE
            yield

    def _call(self, most: int, until: float) -> None:
        """Call for the first ones, if their time is up."""
        while most and self._entries and next(iter(self._entries.values())) <= until:
            overdue, _ = self._entries.popitem(last=False)
            overdue()
            most -= 1

    async def _run(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                while self._entries and not self._finished:
                    deadline = next(iter(self._entries.values()))
                    now = self.spawner.time()
                    if deadline > now:
                        await anyio.sleep_until(deadline)
                    else:
                        self._call(_AT_ONCE, now)
                        # What is called may come back at once; the others are to run all the same.
                        await anyio.lowlevel.checkpoint()
        finally:
            self._scope = None
            self._running = False


class SupervisedWork(ABC):
    """What runs in `node`: a request of the peer's, a tool call, what a session holds."""

    __slots__ = ("_reached", "_watch", "is_watched", "node", "task")

    def __init__(self, node: Node, watch: Watchdog) -> None:
        self.node: Node = node
        node.on_cancel = self.was_cancelled
        self.task: object = None
        """The task that it runs in, once it has begun."""
        self._watch = watch
        self.is_watched = False
        """Whether its time for cleaning up has begun."""
        self._reached = False

    @abstractmethod
    def give_up(self) -> None:
        """It was cancelled, its time for cleaning up is over, and it still runs: it is waited for no longer.
        Idempotent."""

    def was_cancelled(self, _node: Node) -> None:
        """The node, or a nested node that counts, was cancelled: its time to clean up begins, once."""
        if not self.is_watched:
            self.is_watched = True
            self._watch.add(self.overdue)

    def overdue(self) -> None:
        """For the watch: give it up, and see to it that it does not take all of the processor.

        If a cancel was delivered to it at two looks in a row, it takes no notice, and is left alone from then on.
        """
        self.give_up()
        if self.node.closed:
            return
        reached = self.task is not None and self._watch.spawner.is_reached(self.task)
        if reached and self._reached:
            self.node.stop_cancelling()
        else:
            # What is shielded now, for long cleanup or a thread, is still to be cancelled behind that.
            self._reached = reached
            self.is_watched: bool = True
            self._watch.add(self.overdue)

    def ended(self) -> None:
        """It is through: it is not looked after any more."""
        if self.is_watched:
            self._watch.drop(self.overdue)


class Job(SupervisedWork):
    """Work that has a task of its own, and a caller that waits for it."""

    __slots__ = ("_done", "_spawner")

    def __init__(self, node: Node, spawner: Spawner, watch: Watchdog) -> None:
        super().__init__(node, watch)
        self._spawner = spawner
        self._done = anyio.Event()

    @abstractmethod
    def over(self, value: Any, error: BaseException | None) -> None:
        """The body has ended with this (see `Node.run`), and no cancel can reach it any more."""

    def start(self, body: Callable[[], Awaitable[Any]]) -> None:
        """Begin to execute `body`."""
        self._spawner.spawn(self._run, body)

    async def wait(self, event: anyio.Event | None = None) -> None:
        """Wait until it has ended, or was given up; or for an event that is set by then.

        If the caller is cancelled, the node is, too. The caller still waits for its cleanup, for as long as that may
        take.
        """
        try:
            await (event or self._done).wait()
        except BaseException:
            self.node.cancel(Cause.FINISHED)
            with grace(self._watch.seconds + _SLACK):
                await self._done.wait()
            raise

    def give_up(self) -> None:
        """Its caller goes on without it."""
        if not self._done.is_set():
            logger.warning("%s does not end although it was cancelled; going on without it", self.node.label)
            self._done.set()

    async def _run(self, body: Callable[[], Awaitable[Any]]) -> None:
        self.task: object = self._spawner.current()
        try:
            try:
                value, error = await self.node.run(body)
            except GeneratorExit as closed:
                # See `Spawner`: what it awaited has failed with this.
                value, error = NOTHING, closed
            self.over(value, error)
        finally:
            self.node.close()
            self.ended()
            self._done.set()

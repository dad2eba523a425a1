"""Grace periods. A shield with a deadline protects cleanup, and work in a node is given up when its grace period is
over.

Cancelled work has one deadline, however often it is cancelled. After the deadline its caller continues without it, so
that work that cannot end does not block a response or a shutdown. Work that ignores its cancel is then left alone.
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
from acp_server.tasks.running import Spawner
from acp_server.tasks.tree import NOTHING, Node

logger: logging.Logger = logging.getLogger("acp_server.tasks")

DEFAULT_GRACE: Final = 5.0
"""Seconds of the grace period. Cancelled work may clean up for this time before its request is answered without it."""


def grace(seconds: float | None = DEFAULT_GRACE) -> AbstractContextManager[anyio.CancelScope]:
    """`with grace():` shields its block from cancels for at most `seconds`; with None, without a limit.

    For cleanup that awaits: killing a terminal, writing a last update. At the deadline the block is cancelled without
    an exception, and `cancelled_caught` of the yielded scope is true.
    """
    return _Grace(seconds)


class _Grace(Block):
    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def _written(self) -> str:
        return f"with grace({'' if self._seconds == DEFAULT_GRACE else self._seconds})"

    def __enter__(self) -> anyio.CancelScope:
        self._entered = True
        deadline = math.inf if self._seconds is None else anyio.current_time() + self._seconds
        self._scope = anyio.CancelScope(deadline=deadline, shield=True)
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._scope.__exit__(kind, error, traceback)


_AT_ONCE: Final = 64
"""The most callbacks between two checkpoints. Each may write and log, and other tasks must run in between."""

_SLACK: Final = 1.0
"""Seconds that a cancelled caller waits longer than the watchdog, so that the watchdog decides first."""


class Watchdog:
    """Calls each added callback `seconds` after it was added, unless it is dropped first. If `seconds` is infinity, the
    callbacks are called at `finish`.

    One task serves all entries, since all have the same patience. It starts with the first entry and ends with the
    last.
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
        """Call `overdue` in `seconds`. It must not raise. Adding the same callback again has no effect."""
        self._entries.setdefault(overdue, self.spawner.time() + self.seconds)
        if not self._running and not self._finished and self.seconds != math.inf:
            self.spawner.spawn(self._run)
            self._running = True

    def drop(self, overdue: Callable[[], None]) -> None:
        """Forget a callback. An unknown callback is ignored."""
        self._entries.pop(overdue, None)

    async def finish(self) -> None:
        """Call all callbacks now. Callbacks that are added later are called by the next `finish`."""
        for _ in self._finishing():
            await anyio.lowlevel.checkpoint()

    def finish_now(self) -> None:
        """Do the same as `finish` without checkpoints, for a caller that cannot await."""
        for _ in self._finishing():
            pass

    def _finishing(self) -> Iterator[None]:
        self._finished = True
        if self._scope is not None:
            self._scope.cancel()
        # Entries that are added meanwhile are not included.
        left = len(self._entries)
        while left > 0:
            self._call(min(left, _AT_ONCE), math.inf)
            left -= _AT_ONCE
            yield

    def _call(self, most: int, until: float) -> None:
        """Call up to `most` callbacks whose deadline is at or before `until`."""
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
                        # A callback may add itself again at once; other tasks must run in between.
                        await anyio.lowlevel.checkpoint()
        finally:
            self._scope = None
            self._running = False


class SupervisedWork(ABC):
    """Work in `node` that a watchdog supervises, such as a request, a tool call or a resource of a session."""

    __slots__ = ("_reached", "_watch", "is_watched", "node", "task")

    def __init__(self, node: Node, watch: Watchdog) -> None:
        self.node: Node = node
        node.on_cancel = self.was_cancelled
        self.task: object = None
        """The task that runs the work, once it has begun."""
        self._watch = watch
        self.is_watched = False
        """Whether the grace period has begun."""
        self._reached = False

    @abstractmethod
    def give_up(self) -> None:
        """Stop waiting for the work, which still runs although its grace period is over. Idempotent."""

    def was_cancelled(self, _node: Node) -> None:
        """Begin the grace period, once, because the node was cancelled."""
        if not self.is_watched:
            self.is_watched = True
            self._watch.add(self.overdue)

    def overdue(self) -> None:
        """Give the work up, and keep it from taking all of the CPU. The watchdog calls this.

        asyncio delivers a cancel in every round of the loop until the work ends. If two calls in a row find the cancel
        delivered and the work running, the work ignores the cancel. Then no more cancels are delivered.
        """
        self.give_up()
        if self.node.closed:
            return
        reached = self.task is not None and self._watch.spawner.is_reached(self.task)
        if reached and self._reached:
            self.node.stop_cancelling()
        else:
            # A shield, for cleanup or a worker thread, holds the cancel off. It must still arrive after the shield.
            self._reached = reached
            self.is_watched: bool = True
            self._watch.add(self.overdue)

    def ended(self) -> None:
        """Record that the work has ended, and remove it from the watchdog."""
        if self.is_watched:
            self._watch.drop(self.overdue)


class Job(SupervisedWork):
    """Work that runs in its own task while its caller waits."""

    __slots__ = ("_done", "_spawner")

    def __init__(self, node: Node, spawner: Spawner, watch: Watchdog) -> None:
        super().__init__(node, watch)
        self._spawner = spawner
        self._done = anyio.Event()

    @abstractmethod
    def over(self, value: Any, error: BaseException | None) -> None:
        """Record that the body has ended, with a value or an error (see `Node.run`). Later cancels do not reach the
        body."""

    def start(self, body: Callable[[], Awaitable[Any]]) -> None:
        """Start `body` in a task."""
        self._spawner.spawn(self._run, body)

    async def wait(self, event: anyio.Event | None = None) -> None:
        """Wait until the work has ended or was given up, or until `event` is set.

        If the caller is cancelled, the node is cancelled too. The caller still waits for the cleanup, up to its grace
        period.
        """
        try:
            await (event or self._done).wait()
        except BaseException:
            self.node.cancel(Cause.FINISHED)
            with grace(self._watch.seconds + _SLACK):
                await self._done.wait()
            raise

    def give_up(self) -> None:
        """Let the caller continue without the work."""
        if not self._done.is_set():
            logger.warning(
                "%s does not end although it was cancelled; the runtime no longer waits for it", self.node.label
            )
            self._done.set()

    async def _run(self, body: Callable[[], Awaitable[Any]]) -> None:
        self.task: object = self._spawner.current()
        try:
            try:
                value, error = await self.node.run(body)
            except GeneratorExit as closed:
                # asyncio closes the coroutine from outside, see `Spawner._guard`.
                value, error = NOTHING, closed
            self.over(value, error)
        finally:
            self.node.close()
            if self.is_watched:
                self.ended()
            self._done.set()

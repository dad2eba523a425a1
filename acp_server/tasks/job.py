"""Work in a task of its own inside a node: what becomes of it when it is cut and does not end.

It has one deadline, however often and from however many sides it is cut, and then is left behind: what cannot end must
not hold up those who wait. What the work was worth is not decided here.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import Watch, grace
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.tree import NOTHING, Node

logger = logging.getLogger("acp_server.tasks")

_SLACK: Final = 1.0
"""Seconds more than the watch's patience, for a caller that waits although it was cancelled itself."""


class Work(ABC):
    """One piece of work. Its node is its owner's, who tells it that the node was cut."""

    __slots__ = ("_reached", "_spawner", "_watch", "_watched", "node", "task")

    def __init__(self, node: Node, spawner: Spawner, watch: Watch) -> None:
        self.node = node
        self.task: object = None
        """The task that it runs in, once it has begun."""
        self._spawner = spawner
        self._watch = watch
        self._watched = False
        self._reached = False

    @abstractmethod
    def overdue(self) -> None:
        """For the watch: the time for cleaning up is over. It is waited for no longer, and looked after."""

    def was_cut(self, _node: Node) -> None:
        """The node, or one that is nested in it and that counts, was cut: its time to clean up begins."""
        self._watched = True
        self._watch.add(self.overdue)

    def look_after(self) -> None:
        """It is not waited for any longer and still runs: see to it that it does not take all of the processor.

        If its cut had a hold of it at two looks in a row, it takes no notice, and is left alone from then on.
        """
        reached = self.task is not None and self._spawner.is_reached(self.task)
        if reached and self._reached:
            self.node.let_be()
        else:
            # What is shielded now, for long cleanup or a thread, is still to be cut behind that.
            self._reached = reached
            self._watched = True
            self._watch.add(self.overdue)

    def ended(self) -> None:
        """It is through: it is not looked after any more."""
        if self._watched:
            self._watch.drop(self.overdue)


class Job(Work):
    """Work for one that waits. Its node is its owner's; what is done at the node's cut begins with `was_cut`."""

    __slots__ = ("_done", "_over", "_patience")

    def __init__(self, node: Node, spawner: Spawner, watch: Watch, patience: float) -> None:
        """`watch` calls back `patience` seconds after it is told to."""
        super().__init__(node, spawner, watch)
        self._patience = patience
        self._done = anyio.Event()
        self._over = False

    async def run(self, body: Callable[[], Awaitable[Any]], then: Callable[[Any, BaseException | None], None]) -> None:
        """Execute `body` and wait until it has ended, or was cut and does not end.

        `then` gets its value and its error (see `Node.run`) in the same step in which it ends, before it can be
        cut any more. Being cancelled cuts the node; then its time for cleaning up is waited for all the same.
        """
        self._spawner.spawn(self._serve, body, then)
        try:
            await self._done.wait()
        except BaseException:
            self.node.cut(Cause.FINISHED)
            with grace(self._patience + _SLACK):
                await self._done.wait()
            raise

    def was_cut(self, _node: Node) -> None:
        """To be called by the node's `on_cut`."""
        if not self._over:
            super().was_cut(_node)

    async def _serve(
        self, body: Callable[[], Awaitable[Any]], then: Callable[[Any, BaseException | None], None]
    ) -> None:
        self.task = self._spawner.current()
        try:
            try:
                value, error = await self.node.run(body)
            except GeneratorExit as closed:
                # See `Spawner`: what it awaited has failed with this.
                value, error = NOTHING, closed
            then(value, error)
        finally:
            self._over = True
            self.node.close()
            self.ended()
            self._done.set()

    def overdue(self) -> None:
        """Its caller goes on without it."""
        if not self._done.is_set():
            logger.warning("%s does not end although it was cancelled; going on without it", self.node.label)
            self._done.set()
        self.look_after()

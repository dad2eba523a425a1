"""Work in a task of its own inside a node, for one that waits and can be told to wait no longer.

What cannot end when it is cut must not hold up whoever waits for it; so it is given its time, and then left behind. It
decides nothing about what the work was worth.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import Watch, grace
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.tree import Node

logger = logging.getLogger("acp_server.tasks")

_SLACK: Final = 1.0
"""Seconds more than the watch's patience, for whoever waits although it was cancelled itself."""


class Job:
    """One piece of work. Its node is its owner's; what is done at the node's cut begins with `was_cut`."""

    __slots__ = ("_done", "_ended", "_patience", "_reached", "_spawner", "_task", "_watch", "node")

    def __init__(self, node: Node, spawner: Spawner, watch: Watch, patience: float) -> None:
        """`watch` calls back `patience` seconds after it is told to."""
        self.node = node
        self._spawner = spawner
        self._watch = watch
        self._patience = patience
        self._done = anyio.Event()
        self._task: object = None
        self._ended = False
        self._reached = False

    async def run(self, body: Callable[[], Awaitable[Any]], then: Callable[[Any, BaseException | None], None]) -> None:
        """Execute `body` and wait until it has ended, or was cut and does not end.

        `then` gets its value and its error (see `Node.run`) in the same step in which it ends, before anybody can cut
        it any more. Being cancelled cuts the node; then its time for cleaning up is waited for all the same.
        """
        self._spawner.spawn(self._serve, body, then)
        try:
            await self._done.wait()
        except BaseException:
            self.node.cut(Cause.FINISHED)
            with grace(self._patience + _SLACK):
                await self._done.wait()
            raise

    def was_cut(self) -> None:
        """To be called by the node's `on_cut`."""
        if not self._ended:
            self._watch.add(self._overdue)

    async def _serve(
        self, body: Callable[[], Awaitable[Any]], then: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._task = self._spawner.current()
        try:
            value, error = await self.node.run(body)
            then(value, error)
        finally:
            self._ended = True
            self.node.close()
            self._watch.drop(self._overdue)
            self._done.set()

    def _overdue(self) -> None:
        if not self._done.is_set():
            logger.warning("%s does not end although it was cancelled; going on without it", self.node.label)
            self._done.set()
        reached = self._task is not None and self._spawner.is_reached(self._task)
        if reached and self._reached:
            self.node.let_be()
        else:
            # What is shielded now, for long cleanup, is still to be cut behind that.
            self._reached = reached
            self._watch.add(self._overdue)

"""Work for one that waits, and can be told to wait no longer.

What cannot end when it is cut must not hold up its caller; so it is given its time, and then left behind. What the work
was worth is not decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import Watch, grace
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.tree import NOTHING, Node
from acp_server.tasks.work import Work

logger = logging.getLogger("acp_server.tasks")

_SLACK: Final = 1.0
"""Seconds more than the watch's patience, for whoever waits although it was cancelled itself."""


class Job(Work):
    """One piece of work. Its node is its owner's; what is done at the node's cut begins with `was_cut`."""

    __slots__ = ("_done", "_over", "_patience")

    def __init__(self, node: Node, spawner: Spawner, watch: Watch, patience: float) -> None:
        """`watch` calls back `patience` seconds after it is told to."""
        super().__init__(node, spawner, watch)
        self._patience = patience
        self._done = anyio.Event()
        self._over = False

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

"""A connection that outlives the lines of its client: whether the client is there, and when it has been gone too long.

What the client says and is told is the business of the two kinds: `HttpConnection` and `WebSocketConnection`.
"""

from __future__ import annotations

import logging
from typing import Protocol

import anyio

from acp_server.remote.holders import Line
from acp_server.remote.limits import RemoteLimits

logger: logging.Logger = logging.getLogger("acp_server.remote")


class Kept:
    """What both kinds have. `principal`: whose it is."""

    def __init__(self, id: str, principal: str | None, limits: RemoteLimits) -> None:
        self.id = id
        self.principal = principal
        self.ended: anyio.Event = anyio.Event()
        """Set when nothing more is taken from the client."""
        self.closed: anyio.Event = anyio.Event()
        """Set when its agent has ended."""
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """That in which its agent is served."""
        self._limits = limits
        self._readers = 0
        self._stirred = anyio.Event()
        """Set when the client has sent something, or a reader has come or gone."""

    async def watch(self) -> None:
        """End it when its client is gone for longer than it may be."""
        while not self.ended.is_set():
            self._stirred = anyio.Event()
            patience = self._limits.idle if self._readers else min(self._limits.grace, self._limits.idle)
            with anyio.move_on_after(patience) as waiting:
                await self._stirred.wait()
            if waiting.cancelled_caught:
                logger.info("a client is gone: its connection ends")
                self.end()

    def end(self) -> None:
        """The end of what the client says: the agent may finish, within its limits."""
        self.ended.set()
        self._stirred.set()

    def _came(self) -> None:
        """A reader has come."""
        self._readers += 1
        self._stirred.set()

    def _left(self) -> None:
        """A reader has gone."""
        self._readers -= 1
        self._stirred.set()


class Keepable(Line, Protocol):
    """One of the two kinds, as `Connections` has it: a `Kept` that is the stream of its agent."""

    id: str
    principal: str | None
    ended: anyio.Event
    closed: anyio.Event
    scope: anyio.CancelScope

    async def watch(self) -> None:
        """See `Kept`."""
        ...

    def end(self) -> None:
        """See `Kept`."""
        ...

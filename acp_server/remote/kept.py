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


MOMENT: float = 1.0
"""Seconds in which a client that has just come may go on before it gives its place to another one."""


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
        self._was_here = False
        self.since: float = anyio.current_time()
        """When its client was heard of last."""
        self._stirred = anyio.Event()
        """Set when the client has sent something, or a reader has come or gone."""

    async def watch(self) -> None:
        """End it when its client is gone for longer than it may be."""
        while not self.ended.is_set():
            self._stirred = anyio.Event()
            self.since = anyio.current_time()
            patience = self._limits.idle if self._readers else min(self._limits.grace, self._limits.idle)
            with anyio.move_on_after(patience) as waiting:
                await self._stirred.wait()
            if waiting.cancelled_caught:
                logger.info("a client is gone: its connection ends")
                self.end()

    @property
    def is_away(self) -> bool:
        """Whether its client has no line. A new client has a moment for its first."""
        is_new = not self._was_here and anyio.current_time() < self.since + MOMENT
        return not self._readers and not is_new

    def end(self) -> None:
        """The end of what the client says: the agent may finish, within its limits."""
        self.ended.set()
        self._stirred.set()

    def _came(self) -> None:
        """A reader has come."""
        self._readers += 1
        self._was_here = True
        self._stirred.set()

    def _left(self) -> None:
        """A reader has gone."""
        self._readers -= 1
        self._stirred.set()


class Arrival:
    """A WebSocket that has not said yet which connection it belongs to. `scope`: in which that is waited for."""

    def __init__(self, principal: str | None) -> None:
        self.principal = principal
        self.since: float = anyio.current_time()
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.closed: anyio.Event = anyio.Event()
        """Set when it needs no place any more."""

    @property
    def is_away(self) -> bool:
        """Whether it may give its place to another one."""
        return not self.scope.cancel_called and anyio.current_time() >= self.since + MOMENT

    def end(self) -> None:
        """Wait for it no longer."""
        self.scope.cancel()


class Keepable(Line, Protocol):
    """One of the two kinds, as `Connections` has it: a `Kept` that is the stream of its agent."""

    id: str
    principal: str | None
    ended: anyio.Event
    closed: anyio.Event
    scope: anyio.CancelScope
    since: float

    @property
    def is_away(self) -> bool:
        """See `Kept`."""
        ...

    async def watch(self) -> None:
        """See `Kept`."""
        ...

    def end(self) -> None:
        """See `Kept`."""
        ...

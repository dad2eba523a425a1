"""`Kept` is a connection that outlives its client's streams. It ends when its client has been away for too long.

Its two subclasses, `HttpConnection` and `WebSocketConnection`, handle the messages.
"""

from __future__ import annotations

import logging
from typing import Protocol

import anyio

from acp_server.remote.holders import ClientStream
from acp_server.remote.limits import RemoteLimits

logger: logging.Logger = logging.getLogger("acp_server.remote")


MOMENT: float = 1.0
"""Seconds in which a new client that has no reader yet cannot lose its connection to another client."""


class Kept:
    """The base class of both kinds of connection. `principal` owns it."""

    def __init__(self, id: str, principal: str | None, limits: RemoteLimits) -> None:
        self.id = id
        self.principal = principal
        self.ended: anyio.Event = anyio.Event()
        """Set when no further message of the client is accepted."""
        self.closed: anyio.Event = anyio.Event()
        """Set when its agent has ended."""
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """The scope in which its agent is served."""
        self._limits = limits
        self._readers = 0
        self._was_here = False
        self.since: float = anyio.current_time()
        """The time when the client last sent a message, or a reader came or left, in seconds of the event loop's
        clock."""
        self._stirred = anyio.Event()
        """Set when a reader has come or left, or the connection has ended."""

    async def watch(self) -> None:
        """End the connection once its client was silent for `idle` seconds, or for `grace` while it has no reader."""
        while not self.ended.is_set():
            self._stirred = anyio.Event()
            patience = self._limits.idle if self._readers else min(self._limits.grace, self._limits.idle)
            since = self.since
            with anyio.CancelScope(deadline=since + patience) as waiting:
                await self._stirred.wait()
            if waiting.cancelled_caught and self.since == since:
                logger.info("a connection ends, because its client was away or silent for too long")
                self.end()

    @property
    def is_away(self) -> bool:
        """Whether the client has neither a reader nor a WebSocket. A new client has a moment to open one of them."""
        is_new = not self._was_here and anyio.current_time() < self.since + MOMENT
        return not self._readers and not is_new

    def end(self) -> None:
        """End the client's input. The agent may finish, within its limits."""
        self.ended.set()
        self._stirred.set()

    def _came(self) -> None:
        """Record that a reader has come."""
        self._readers += 1
        self._was_here = True
        self._heard()
        self._stirred.set()

    def _left(self) -> None:
        """Record that a reader has left."""
        self._readers -= 1
        self._heard()
        self._stirred.set()

    def _heard(self) -> None:
        """Record that the client has done something. That wakes no task, because it happens with each message."""
        self.since = anyio.current_time()


class Arrival:
    """A WebSocket whose first message has not arrived. It has no connection yet."""

    def __init__(self, principal: str | None) -> None:
        self.principal = principal
        self.since: float = anyio.current_time()
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """The scope of the wait for that message."""
        self.closed: anyio.Event = anyio.Event()
        """Set when the WebSocket no longer counts as an arrival."""

    @property
    def is_away(self) -> bool:
        """Whether this WebSocket may be closed to make room for another client."""
        return not self.scope.cancel_called and anyio.current_time() >= self.since + MOMENT

    def end(self) -> None:
        """End the wait for the first message."""
        self.scope.cancel()


class Keepable(ClientStream, Protocol):
    """The interface that `Connections` uses of both kinds of connection: a `Kept` that is the stream of its agent."""

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

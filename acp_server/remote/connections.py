"""`Connections` keeps the connections of all clients, with their limits, their principals and their end."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import anyio

from acp_server.agent.serve import Servable, serve
from acp_server.peer.limits import Limits
from acp_server.peer.shares import Share
from acp_server.peer.stream import LanedStream
from acp_server.remote.holders import HeldStream, Holders
from acp_server.remote.kept import Arrival, Keepable
from acp_server.remote.limits import RemoteLimits
from acp_server.remote.owners import OwnedStream, Owners
from acp_server.remote.ring import Holdings
from acp_server.remote.shares import Bytes, Full, Principals, Requests, crowding
from acp_server.tasks.running import Spawner

logger: logging.Logger = logging.getLogger("acp_server.remote")

AgentOf: TypeAlias = "Callable[[str | None], Servable]"
"""Returns the agent of a principal; None is the principal without `authenticate`."""


_BUFFER: Final = 256 * 1024
"""The most `Limits.unread` of a connection, because its streams hold what its client does not read."""
_ROOM: Final = 10.0
"""Seconds in which a connection must end that makes room for another connection."""


class Connections:
    """The connections of one `RemoteApp`, in one event loop."""

    def __init__(
        self, agent_of: AgentOf, limits: RemoteLimits, per_connection: Limits | None, owners: Owners | None
    ) -> None:
        self.limits = limits
        self.holdings: Holdings = Holdings(limits.held)
        self.bodies: Bytes = Bytes(limits.bodies)
        """The messages that have arrived over HTTP and that no agent has read yet."""
        self.requests: Requests = Requests(limits.requests)
        """The HTTP requests in progress."""
        self._work: Principals[Share] = Principals(Share(limits.work), lambda above: Share(above=above))
        """The bytes that the agents hold for their clients."""
        self.owners = owners
        """The owners of the sessions, if principals share an agent."""
        self._holders = Holders()
        self._agent_of = agent_of
        limits_of_one = per_connection or Limits()
        self._per_connection = replace(limits_of_one, unread=min(limits_of_one.unread, _BUFFER))
        self._open: dict[str, Keepable] = {}
        self._count = 0
        self._arriving: dict[Arrival, None] = {}
        self._spawner = Spawner(_crashed)

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def arriving(self, principal: str | None) -> Generator[Arrival]:
        """Count a WebSocket as a connection until its first message has arrived."""
        self._arriving[arrival := Arrival(principal)] = None
        try:
            yield arrival
        finally:
            del self._arriving[arrival]
            arrival.closed.set()

    async def make_room(self, principal: str | None) -> None:
        """If there are as many connections as are allowed, end the connection of another client for a client of
        `principal`, and wait for its end.

        A client is ended first if it is away and belongs to the same principal, or to a principal with more than a fair
        share of the connections. If there is no such client, and `principal` has less than a fair share, another client
        of such a principal is ended. Raises Full if there is none either, or if no connection has ended after 10
        seconds.
        """
        if not self.is_full:
            return
        places = [*self._arriving, *self._open.values()]
        crowd, is_poor = crowding([each.principal for each in places], self.limits.connections, principal)
        found = [each for each in places if each.is_away and each.principal in {*crowd, principal}]
        if not found and is_poor:
            found = [each for each in places if each.principal in crowd]
        first = min(found, key=lambda each: each.since, default=None)
        if first is None:
            raise Full
        logger.info(
            "the limit of connections is reached; the connection of one client is ended to admit another client"
        )
        self.end(first)
        with anyio.move_on_after(_ROOM):
            await first.closed.wait()
        if self.is_full:
            raise Full

    def open(self, connection: Keepable) -> None:
        """Serve a new connection in a task. Raises Full."""
        if self.is_full:
            raise Full
        self._open[connection.id] = connection
        self._count += 1
        self._spawner.spawn(self._keep, connection)

    def find(self, id: str, principal: str | None) -> Keepable | None:
        """Return the connection of this id. Returns None if there is none, or if another principal owns it."""
        connection = self._open.get(id)
        return connection if connection is not None and connection.principal == principal else None

    def end(self, connection: Keepable | Arrival) -> None:
        """Accept no further message from a client. The client's agent ends, within its limits."""
        if not isinstance(connection, Arrival):
            self._open.pop(connection.id, None)
        connection.end()

    async def aclose(self) -> None:
        """End all connections, and wait for their agents."""
        for connection in [*self._open.values()]:
            self.end(connection)
        await self._spawner.wait_idle()

    @property
    def is_full(self) -> bool:
        """Whether there are as many connections as are allowed."""
        return self._count + len(self._arriving) >= self.limits.connections

    async def _serve(self, connection: Keepable) -> None:
        principal = connection.principal
        share = self._work.connection(principal)
        stream: LanedStream = HeldStream(connection, self._holders, principal, share)
        if self.owners is not None:
            stream = OwnedStream(stream, self.owners, principal, share)
        try:
            await serve(self._agent_of(principal), stream, limits=self._per_connection)
        except SystemExit:
            # It would end the server and the connections of all other clients.
            logger.error("a handler raised SystemExit, so the connection of its client is closed")

    async def _keep(self, connection: Keepable) -> None:
        try:
            with connection.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch, connection)
                    try:
                        await self._serve(connection)
                    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                        logger.info("a client did not get all messages of its agent: %s", type(error).__name__)
                    group.cancel_scope.cancel()
        finally:
            self._count -= 1
            self.end(connection)
            await connection.aclose()
            connection.closed.set()

    async def _watch(self, connection: Keepable) -> None:
        await connection.watch()
        self._open.pop(connection.id, None)


def new_id() -> str:
    """Return a random id of a connection. It cannot be guessed, but it is not a credential, because `find` compares the
    principal."""
    return secrets.token_hex(16)


def _crashed(error: BaseException) -> None:
    if isinstance(error, Exception):
        logger.error("serving a client failed", exc_info=error)

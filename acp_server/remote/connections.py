"""The connections of all clients: how many there are, whose they are, what they hold, and their end."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

import anyio

from acp_server.agent.serve import Servable, serve
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.remote.holders import HeldStream, Holders
from acp_server.remote.kept import Arrival, Keepable
from acp_server.remote.limits import RemoteLimits
from acp_server.remote.owners import OwnedStream, Owners
from acp_server.remote.ring import Holdings
from acp_server.tasks.spawn import Spawner

logger: logging.Logger = logging.getLogger("acp_server.remote")

AgentOf: TypeAlias = "Callable[[str | None], Servable]"


_ROOM: Final = 10.0
"""Seconds in which a connection that gives its place away is to end."""


class Full(Exception):
    """There is no place for another connection, or for another message."""


class Connections:
    """The connections of one `RemoteApp`, in one event loop."""

    def __init__(
        self, agent_of: AgentOf, limits: RemoteLimits, per_connection: Limits | None, owners: Owners | None
    ) -> None:
        self.limits = limits
        self.holdings: Holdings = Holdings(limits.held)
        self.owners = owners
        """Whose the sessions are, where principals share an agent."""
        self._holders = Holders()
        self._agent_of = agent_of
        self._per_connection = per_connection
        self._open: dict[str, Keepable] = {}
        self._count = 0
        self._arriving: dict[Arrival, None] = {}
        self._bodies = 0
        self._spawner = Spawner(_crashed)

    def __len__(self) -> int:
        return self._count

    def reserve(self, size: int) -> None:
        """Count bytes of a message that arrives. Raises Full."""
        if self._bodies + size > self.limits.bodies:
            raise Full
        self._bodies += size

    def release(self, size: int) -> None:
        """They are not held any more."""
        self._bodies -= size

    @contextmanager
    def arriving(self, principal: str | None) -> Generator[Arrival]:
        """A place for a client that has not said yet what it wants."""
        self._arriving[arrival := Arrival(principal)] = None
        try:
            yield arrival
        finally:
            del self._arriving[arrival]
            arrival.closed.set()

    async def make_room(self) -> None:
        """Where all places are taken, a client that is not there gives way: of the principal who has
        most of those, the client that was heard of least recently. Raises Full."""
        if not self.is_full:
            return
        away = [each for each in (*self._arriving, *self._open.values()) if each.is_away]
        if not away:
            raise Full
        numbers = Counter(each.principal for each in away)
        most = max(numbers.values())
        first = min((each for each in away if numbers[each.principal] == most), key=lambda each: each.since)
        logger.info("all places are taken: a client that is not there gives way")
        self.end(first)
        with anyio.move_on_after(_ROOM):
            await first.closed.wait()
        if self.is_full:
            raise Full

    def open(self, connection: Keepable) -> None:
        """Serve a new connection from now on. Raises Full."""
        if self.is_full:
            raise Full
        self._open[connection.id] = connection
        self._count += 1
        self._spawner.spawn(self._keep, connection)

    def find(self, id: str, principal: str | None) -> Keepable | None:
        """A connection of this principal's: for others it does not exist."""
        connection = self._open.get(id)
        return connection if connection is not None and connection.principal == principal else None

    def end(self, connection: Keepable | Arrival) -> None:
        """Take nothing more from a client."""
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
        """Whether there is no place for another connection."""
        return self._count + len(self._arriving) >= self.limits.connections

    async def _serve(self, connection: Keepable) -> None:
        principal = connection.principal
        stream: Stream = HeldStream(connection, self._holders, principal)
        if self.owners is not None:
            stream = OwnedStream(stream, self.owners, principal)
        try:
            await serve(self._agent_of(principal), stream, limits=self._per_connection)
        except SystemExit:
            # It would end the whole server, with all its clients.
            logger.error("a handler has asked for the end of the program; the connection of its client is closed")

    async def _keep(self, connection: Keepable) -> None:
        try:
            with connection.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch, connection)
                    try:
                        await self._serve(connection)
                    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                        logger.info("a client has lost what it was told: %s", type(error).__name__)
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
    """An id that cannot be guessed; it is not a credential all the same."""
    return secrets.token_hex(16)


def _crashed(error: BaseException) -> None:
    if isinstance(error, Exception):
        logger.error("serving a client failed", exc_info=error)

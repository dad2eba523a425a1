"""Accepting connections: no more than there are places, whatever the descriptors of the process do.

A client that only sits there never keeps another one out. Where all places are taken, the connection that has shown no
token for longest is closed, then the one without a request for longest. Who is answered what is not decided here.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import anyio
import anyio.lowlevel

from acp_server.gateway.limits import GatewayLimits

logger: logging.Logger = logging.getLogger("acp_server.gateway")

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE: Final = 1.0
"""Seconds until the next try when the process or the machine has no descriptor left."""
_AT_ONCE: Final = 64
"""Connections that are taken before others have their turn on the loop."""
_QUIET: Final = 60.0
"""Seconds between two lines of the log about the same thing."""
_OF_AN_AGENT: Final = 4
"""Descriptors: three pipes, and what its process is waited for with."""
_OF_THE_GATEWAY: Final = 64
"""Descriptors: the store, the log, the loop, what is opened for a moment."""


class Closable(Protocol):
    """A connection, as far as its place is concerned."""

    @property
    def is_known(self) -> bool:
        """Whether a request on it has shown a token."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        ...

    def abort(self) -> None:
        """Close it at once."""
        ...


class Places:
    """The connections that are open, `most` at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.closed: int = 0
        """How many were closed to make room."""
        # In the order in which they came; whether one is known is looked at when room is needed.
        self._unknown: dict[Closable, None] = {}
        self._known: dict[Closable, None] = {}
        self._reserved = 0
        self._changed = anyio.Event()

    def __len__(self) -> int:
        return len(self._unknown) + len(self._known)

    def reserve(self) -> None:
        """Keep a place for a connection that is about to be added."""
        self._reserved += 1

    def give_up(self) -> None:
        """A connection that a place was kept for is not added."""
        self._reserved -= 1
        self._wake()

    def add(self, connection: Closable) -> None:
        """A connection that a place was kept for is there."""
        self._reserved -= 1
        self._unknown[connection] = None
        self._wake()

    def remove(self, connection: Closable) -> None:
        """It is closed."""
        self._unknown.pop(connection, None)
        self._known.pop(connection, None)
        self._wake()

    async def wait_for_room(self) -> None:
        """Wait until there is a place. Where that helps, a connection is closed for it."""
        while len(self) + self._reserved >= self.most and not self.close_one():
            await self._changed.wait()

    def close_one(self) -> bool:
        """Close the connection that is missed least; False if there is none to close now."""
        while self._unknown:
            connection = next(iter(self._unknown))
            del self._unknown[connection]
            if not connection.is_known:
                break
            self._known[connection] = None
        else:
            # Those that arrive have shown no token, so they are missed less than all that are here.
            connection = (
                None if self._reserved else next((connection for connection in self._known if connection.is_idle), None)
            )
            if connection is None:
                return False
            del self._known[connection]
        self.closed += 1
        connection.abort()
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Listener:
    """Takes connections from a socket that listens. Has what uvicorn wants of a server of asyncio's."""

    def __init__(self, listening: socket.socket, places: Places, make: Callable[[], Any]) -> None:
        self._listening = listening
        self._places = places
        self._make = make
        self._tasks: set[Any] = set()
        self._said = -_QUIET
        self._counted = 0

    def open(self) -> None:
        """Begin. Only inside an event loop of asyncio's kind, which is what uvicorn runs on."""
        self._listening.setblocking(False)
        self._start(self._run())

    def close(self) -> None:
        """Take no more."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""

    async def _run(self) -> None:
        loop = _loop()
        taken = 0
        while True:
            await self._places.wait_for_room()
            self._report()
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                await self._failed(error)
                continue
            self._places.reserve()
            self._start(self._enter(accepted)).add_done_callback(self._arrived)
            taken += 1
            if taken % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()

    async def _enter(self, accepted: socket.socket) -> None:
        await _loop().connect_accepted_socket(self._make, accepted)

    def _arrived(self, task: Any) -> None:
        if task.cancelled() or task.exception() is not None:
            self._places.give_up()

    async def _failed(self, error: OSError) -> None:
        if error.errno not in _EXHAUSTED:
            return  # The client has left before it was taken (accept(2)).
        if self._may_say():
            logger.warning("no new connection for a moment: %s; %d are open", error.strerror, len(self._places))
        self._places.close_one()
        await anyio.sleep(_PAUSE)

    def _report(self) -> None:
        if self._places.closed > self._counted and self._may_say():
            count, self._counted = self._places.closed - self._counted, self._places.closed
            logger.warning("all %d places are taken: %d silent connections were closed", self._places.most, count)

    def _may_say(self) -> bool:
        now = anyio.current_time()
        if now - self._said < _QUIET:
            return False
        self._said = now
        return True

    def _start(self, work: Any) -> Any:
        task = _loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def number_of_places(limits: GatewayLimits) -> int:
    """How many connections there may be at once, after the process was allowed as many descriptors as that takes.

    Where it is not, they have to leave a quarter of the descriptors to the agents, or less if those need less.
    """
    others = _OF_THE_GATEWAY + _OF_AN_AGENT * limits.chats
    allowed = _raise_descriptors(limits.connections + others)
    if allowed is None:
        return limits.connections
    return max(1, min(limits.connections, allowed - min(others, allowed // 4)))


def _raise_descriptors(wanted: int) -> int | None:
    """How many descriptors the process may have, `wanted` if that can be; None if there is no such limit."""
    try:
        import resource
    except ModuleNotFoundError:
        return None  # Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    if soft < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
        except (OSError, ValueError) as error:
            logger.info("at most %d descriptors: %s", soft, error)
    return soft


def _loop() -> Any:
    return cast("Any", anyio.lowlevel.current_token().native_token)

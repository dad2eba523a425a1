"""Accepting connections: no more than there are places, whatever the descriptors of the process do.

A client that only sits there never keeps another one out. Where all places are taken, the connection that has not shown
whose it is for longest is closed, then the one without a request for longest.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import Final, Protocol

import anyio
import anyio.lowlevel

logger: logging.Logger = logging.getLogger("acp_server.http")

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE: Final = 1.0
"""Seconds until the next try when the process or the machine has no descriptor left."""
_AT_ONCE: Final = 64
"""Connections that are taken before others have their turn on the loop."""
_QUIET: Final = 60.0
"""Seconds between two lines of the log about the same thing."""


class Closable(Protocol):
    """A connection, as far as its place is concerned."""

    @property
    def is_known(self) -> bool:
        """Whether a request on it has shown whose it is."""
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
        self._changed = anyio.Event()

    def __len__(self) -> int:
        return len(self._unknown) + len(self._known)

    def add(self, connection: Closable) -> None:
        """A connection was opened."""
        self._unknown[connection] = None

    def remove(self, connection: Closable) -> None:
        """It is closed."""
        self._unknown.pop(connection, None)
        self._known.pop(connection, None)
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_room(self) -> None:
        """Wait until there is a place. Where that helps, a connection is closed for it."""
        while len(self) >= self.most and not self.close_one():
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
            connection = next((connection for connection in self._known if connection.is_idle), None)
            if connection is None:
                return False
            del self._known[connection]
        self.closed += 1
        connection.abort()
        return True


class Listener:
    """Accepts connections from a socket that listens. `enter` gets each; it takes its place at once and never waits."""

    def __init__(self, listening: socket.socket, places: Places, enter: Callable[[socket.socket], None]) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._places = places
        self._enter = enter
        self._said = -_QUIET
        self._counted = 0

    async def run(self) -> None:
        """Accept until it is cancelled."""
        taken = 0
        while True:
            await self._places.wait_for_room()
            self._report()
            try:
                accepted, _ = self._listening.accept()
            except BlockingIOError:
                await anyio.wait_readable(self._listening)
                continue
            except OSError as error:
                await self._failed(error)
                continue
            self._enter(accepted)
            taken += 1
            if taken % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()

    async def _failed(self, error: OSError) -> None:
        if error.errno not in _EXHAUSTED:
            await anyio.lowlevel.checkpoint()
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


def raise_descriptors(wanted: int) -> int | None:
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

"""Accepts connections, up to a limit, and also when file descriptors run out.

An idle client never keeps another client out. When the limit is reached, the oldest connection without an authenticated
request is closed. Without such a connection, the oldest idle one is closed.
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
"""Seconds until the next attempt when the process or the system has no free descriptor."""
_AT_ONCE: Final = 64
"""The most connections that are accepted before other tasks run."""
_QUIET: Final = 60.0
"""Seconds between two log entries about the same event."""


class Closable(Protocol):
    """A connection in the form that `Places` needs."""

    @property
    def is_known(self) -> bool:
        """Whether the sender of a request on the connection is authenticated."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for a request."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class Places:
    """The open connections, at most `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.closed: int = 0
        """The number of connections that were closed to make room."""
        # In the order of arrival. Whether a connection is known is checked only when room is needed.
        self._unknown: dict[Closable, None] = {}
        self._known: dict[Closable, None] = {}
        self._changed = anyio.Event()

    def __len__(self) -> int:
        return len(self._unknown) + len(self._known)

    def add(self, connection: Closable) -> None:
        """Record that a connection was opened."""
        self._unknown[connection] = None

    def remove(self, connection: Closable) -> None:
        """Record that the connection is closed."""
        self._unknown.pop(connection, None)
        self._known.pop(connection, None)
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_room(self) -> None:
        """Wait until another connection may be opened. A connection is closed for it if possible."""
        while len(self) >= self.most and not self.close_one():
            await self._changed.wait()

    def close_one(self) -> bool:
        """Close the connection that matters least. Returns False if none can be closed now."""
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
    """Accepts connections from a listening socket. `enter` gets each of them, adds it to `places` at once and never
    waits."""

    def __init__(self, listening: socket.socket, places: Places, enter: Callable[[socket.socket], None]) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._places = places
        self._enter = enter
        self._said = -_QUIET
        self._counted = 0

    async def run(self) -> None:
        """Accept until cancelled."""
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
            return  # the client disconnected before it was accepted (accept(2))
        if self._may_say():
            logger.warning(
                "cannot accept a new connection (%s); retrying soon, %d connections are open",
                error.strerror,
                len(self._places),
            )
        self._places.close_one()
        await anyio.sleep(_PAUSE)

    def _report(self) -> None:
        if self._places.closed > self._counted and self._may_say():
            count, self._counted = self._places.closed - self._counted, self._places.closed
            logger.warning(
                "the limit of %d connections is reached; %d idle connections were closed", self._places.most, count
            )

    def _may_say(self) -> bool:
        now = anyio.current_time()
        if now - self._said < _QUIET:
            return False
        self._said = now
        return True


def raise_descriptors(wanted: int) -> int | None:
    """Raise the limit of descriptors to `wanted` if possible. Returns the resulting limit; None if there is no
    limit."""
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
            logger.info("the limit of %d file descriptors cannot be raised: %s", soft, error)
    return soft


__all__ = ["Closable", "Places", "raise_descriptors"]

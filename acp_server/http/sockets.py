"""One connected socket, read and written without a buffer of its own, on asyncio and trio."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio
import anyio.lowlevel

_AT_ONCE: Final = 16 * 1024
"""Bytes that are taken from a client before others have their turn. As chunks of one byte they hold the loop for some
40 ms."""
_DISCARDED: Final = 1024 * 1024
"""Bytes of a request that are read and thrown away, so that its client gets to the answer."""


class Disconnected(OSError):
    """The peer has left, takes nothing any more, or the connection was aborted."""


class Duplex(Protocol):
    """What a connection is read from and written to; `SocketStream` says what each method does."""

    async def receive(self) -> bytes:
        """See the class."""
        ...

    async def send(self, data: bytes) -> None:
        """See the class."""
        ...

    async def finish(self, seconds: float) -> None:
        """See the class."""
        ...

    def abort(self) -> None:
        """See the class."""
        ...


class SocketStream:
    """A connected socket, which one task at a time reads, and one writes.

    `send_seconds`: how long the peer may take nothing of what is sent before `send` fails. All methods raise
    Disconnected.
    """

    def __init__(self, connected: socket.socket, send_seconds: float) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._send_seconds = send_seconds

    async def receive(self) -> bytes:
        """What has arrived, up to 16 KiB; empty at the end of what the peer sends."""
        # In front of the read, so that a cancel loses nothing that was read.
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                return self._socket.recv(_AT_ONCE)
            except BlockingIOError:
                await self._wait(anyio.wait_readable)
            except OSError as error:
                raise Disconnected(error.errno, error.strerror) from error

    async def send(self, data: bytes) -> None:
        """Write all of it. A large answer may take long, as long as the peer takes some of it. A cancel leaves a part
        written; nothing else may be sent then."""
        # An application that only writes gives others their turn.
        await anyio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                with anyio.move_on_after(self._send_seconds) as limit:
                    await self._wait(anyio.wait_writable)
                if limit.cancelled_caught:
                    self.abort()
                    raise Disconnected("the peer takes nothing") from None
            except OSError as error:
                raise Disconnected(error.errno, error.strerror) from error

    async def finish(self, seconds: float) -> None:
        """End the connection so that the peer gets all that was sent (RFC 9112, section 9.6): send the end, and discard
        what still arrives for so many seconds. Closing at once would reset the connection if something arrived."""
        with anyio.move_on_after(seconds):
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError as error:
                raise Disconnected(error.errno, error.strerror) from error
            discarded = 0
            while discarded < _DISCARDED and (data := await self.receive()):
                discarded += len(data)

    def abort(self) -> None:
        """Close at once, also while tasks read and write. May be called again."""
        if self._socket.fileno() != -1:
            anyio.notify_closing(self._socket)
            self._socket.close()

    async def _wait(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        try:
            await wait(self._socket)
        except anyio.ClosedResourceError:
            raise Disconnected("the connection was aborted") from None

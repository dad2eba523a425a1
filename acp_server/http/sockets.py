"""One connected socket, read and written without a buffer, on asyncio and trio."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio
import anyio.lowlevel

_AT_ONCE: Final = 16 * 1024
"""The most bytes of one read before other tasks run. If these bytes arrive as chunks of one byte, they block the loop
for some 40 ms."""
_WRITES: Final = 16
"""The most writes in a row before other tasks run."""
_DISCARDED: Final = 1024 * 1024
"""The most bytes of a request that are discarded, so that its client reads the response."""


class Disconnected(OSError):
    """The peer has disconnected or stopped reading, or the connection was aborted."""


class Duplex(Protocol):
    """The stream of a connection; `SocketStream` documents the methods."""

    async def receive(self) -> bytes:
        """See `SocketStream`."""
        ...

    async def send(self, data: bytes) -> None:
        """See `SocketStream`."""
        ...

    async def finish(self, seconds: float) -> None:
        """See `SocketStream`."""
        ...

    def abort(self) -> None:
        """See `SocketStream`."""
        ...


class SocketStream:
    """A connected socket, which one task at a time reads, and one writes.

    `send_seconds`: seconds for which the peer may read nothing before `send` fails. All methods raise Disconnected.
    """

    def __init__(self, connected: socket.socket, send_seconds: float) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._send_seconds = send_seconds
        self._has_waited = False
        """Whether other tasks could run during the last read."""
        self._writes = 0
        """The number of writes since other tasks could run."""

    async def receive(self) -> bytes:
        """Return the bytes that have arrived, up to 16 KiB; empty at the end of input."""
        # Before the read, so that a cancel loses no bytes. A round of the loop costs as much as a short message.
        if self._has_waited:
            await anyio.lowlevel.checkpoint_if_cancelled()
        else:
            await anyio.lowlevel.checkpoint()
        self._has_waited = False
        while True:
            try:
                return self._socket.recv(_AT_ONCE)
            except BlockingIOError:
                await self._wait(anyio.wait_readable)
                self._has_waited = True
            except OSError as error:
                raise Disconnected(error.errno, error.strerror) from error

    async def send(self, data: bytes) -> None:
        """Write all of `data`. There is no deadline as long as the peer reads some of it. A cancel may leave a part
        written; then nothing else may be sent."""
        # So that an application that only writes does not block other tasks.
        self._writes = (self._writes + 1) % _WRITES
        if self._writes:
            await anyio.lowlevel.checkpoint_if_cancelled()
        else:
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
                    raise Disconnected("the peer does not read") from None
            except OSError as error:
                raise Disconnected(error.errno, error.strerror) from error

    async def finish(self, seconds: float) -> None:
        """End the connection so that the peer gets all sent bytes (RFC 9112, section 9.6). The end is sent, and input
        is discarded for up to `seconds`, because closing at once would reset the connection if input arrived."""
        with anyio.move_on_after(seconds):
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError as error:
                raise Disconnected(error.errno, error.strerror) from error
            discarded = 0
            while discarded < _DISCARDED and (data := await self.receive()):
                discarded += len(data)

    def abort(self) -> None:
        """Close the socket at once, even while tasks read and write. Idempotent."""
        if self._socket.fileno() != -1:
            anyio.notify_closing(self._socket)
            self._socket.close()

    async def _wait(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        try:
            await wait(self._socket)
        except anyio.ClosedResourceError:
            raise Disconnected("the connection was aborted") from None

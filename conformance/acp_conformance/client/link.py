"""The suite's end of the connections to the agent processes: a socket on the loopback device, and the frames of
`judge`.

This module knows the agent processes that the client has started. It does not interpret their messages.
"""

from __future__ import annotations

import hmac
import secrets
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

PROGRAM = Path(__file__).with_name("judge.py")

_HEADER = struct.Struct(">cI")
_LONGEST = 1 << 20
_WAITING = 16


class Gone(Exception):
    """The agent process has ended, or no longer accepts data."""


class Link:
    """One agent process of the client."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._buffered = BufferedByteReceiveStream(stream)
        self._sending = anyio.Lock()

    async def frame(self) -> tuple[bytes, bytes]:
        """Return the kind and the content of the next frame.

        Raises:
            Gone: The process has ended.
        """
        try:
            kind, length = _HEADER.unpack(await self._buffered.receive_exactly(_HEADER.size))
            if length > _LONGEST:
                raise Gone
            return kind, await self._buffered.receive_exactly(length) if length else b""
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise Gone from error

    async def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a frame that makes the process write or end.

        Raises:
            Gone: The process has ended.
        """
        try:
            async with self._sending:
                await self._stream.send(_HEADER.pack(kind, len(content)) + content)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise Gone from error

    async def aclose(self) -> None:
        """Close the stream, which ends the process."""
        await anyio.aclose_forcefully(self._stream)


class Links:
    """The agent processes of one client, in the order of their connections. `listen` creates the object."""

    def __init__(self, port: int, secret: str) -> None:
        self.command = [sys.executable, "-I", "-S", str(PROGRAM), "127.0.0.1", str(port), secret]
        """The command that the client has to start: `-I -S` for any environment, and a fast start."""
        self._secret = secret
        self._send, self._receive = anyio.create_memory_object_stream[Link](_WAITING)

    async def accepted(self, stream: SocketStream) -> None:
        """Accept a connection that sends the secret."""
        link = Link(stream)
        taken = False
        try:
            kind, content = await link.frame()
            if kind == b"H" and hmac.compare_digest(content, self._secret.encode()):
                self._send.send_nowait(link)
                taken = True
        except (Gone, anyio.WouldBlock):  # WouldBlock: a client that starts agents without end
            pass
        finally:
            # Also if the run ends before it has sent the secret.
            if not taken:
                await link.aclose()

    async def next(self) -> Link:
        """Return the next agent process of the client. Each process is returned once."""
        return await self._receive.receive()

    async def aclose(self) -> None:
        """Release the processes that `next` has not returned."""
        self._send.close()
        async for link in self._receive:
            await link.aclose()
        self._receive.close()


@asynccontextmanager
async def listen() -> AsyncIterator[Links]:
    """Accept agent processes until the end of the block."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        links = Links(listener.extra(SocketAttribute.local_port), secrets.token_hex(16))
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, links.accepted)
            try:
                yield links
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await links.aclose()

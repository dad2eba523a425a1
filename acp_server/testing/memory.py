"""A pair of byte streams in memory, for driving a connection in a test without a process.

It buffers what is sent until the other side receives it, without a limit. Faults (splitting, stalling, breaking) are
in `acp_server.testing.faults`.
"""

from __future__ import annotations

from collections import deque

import anyio
import anyio.lowlevel


class _Pipe:
    """One direction: chunks put in, the same chunks taken out, and an end."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._ended = False
        self._changed = anyio.Event()

    def put(self, data: bytes) -> None:
        if self._ended:
            raise anyio.BrokenResourceError
        if data:
            self._chunks.append(data)
            self._signal()

    def end(self) -> None:
        self._ended = True
        self._signal()

    async def take(self) -> bytes:
        # First, so that a cancel here takes nothing away that it cannot give back.
        await anyio.lowlevel.checkpoint()
        while not self._chunks and not self._ended:
            await self._changed.wait()
        return self._chunks.popleft() if self._chunks else b""

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class MemoryStream:
    """One end of `memory_pair`. Closing it ends the input of the other end, and breaks what the other end sends."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        """The next chunk, just as the other side sent it; see `acp_server.peer.stream.Stream`."""
        return await self._incoming.take()

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await anyio.lowlevel.checkpoint()
        self._outgoing.put(data)

    def send_nowait(self, data: bytes) -> None:
        """Put a chunk in front of the other side at once, for tests that decide about chunks and order."""
        self._outgoing.put(data)

    def send_eof(self) -> None:
        """End the other side's input; it may still send."""
        self._outgoing.end()

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`. What was sent before can still be received."""
        self._outgoing.end()
        self._incoming.end()


def memory_pair() -> tuple[MemoryStream, MemoryStream]:
    """Two connected streams: what one sends, the other receives, in order, chunk by chunk."""
    here, there = _Pipe(), _Pipe()
    return MemoryStream(here, there), MemoryStream(there, here)

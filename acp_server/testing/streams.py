"""Streams for tests: two streams that are connected in memory, and a stream that splits data, stalls, breaks or ends
early."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import anyio
import anyio.lowlevel

from acp_server.peer.stream import Stream

_LIMIT: Final = 16 * 1024 * 1024
"""The most bytes in one direction that `send` adds to. It is far above what a test leaves unread, and bounds an agent
that sends without end to a client that does not read."""


class _Pipe:
    """One direction of a connection. It delivers chunks unchanged, and then its end."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = anyio.Event()

    def put(self, data: bytes) -> None:
        if self._ended:
            raise anyio.BrokenResourceError
        if data:
            self._chunks.append(data)
            self._size += len(data)
            self._signal()

    async def room(self) -> None:
        """Wait while the other side leaves too much unread."""
        await anyio.lowlevel.checkpoint()
        while self._size > _LIMIT and not self._ended:
            await self._changed.wait()

    def end(self) -> None:
        self._ended = True
        self._signal()

    async def take(self) -> bytes:
        # First, so that a cancel here loses no chunk.
        await anyio.lowlevel.checkpoint()
        while not self._chunks and not self._ended:
            await self._changed.wait()
        if not self._chunks:
            return b""
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        self._signal()
        return chunk

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class MemoryStream:
    """One end of `memory_pair`. Closing it ends the input of the other end, and breaks the other end's sends."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        """Return the next chunk, exactly as the other side sent it; see `acp_server.peer.stream.Stream`."""
        return await self._incoming.take()

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`. Waits while the other side has left more than 16 MiB unread."""
        await self._outgoing.room()
        self._outgoing.put(data)

    def send_nowait(self, data: bytes) -> None:
        """Deliver a chunk to the other side at once. Tests use this to control how data is split and in which order it
        arrives."""
        self._outgoing.put(data)

    def send_eof(self) -> None:
        """End the other side's input. The other side may still send."""
        self._outgoing.end()

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`. Chunks sent before can still be received."""
        self._outgoing.end()
        self._incoming.end()


def memory_pair() -> tuple[MemoryStream, MemoryStream]:
    """Return two connected streams. Each receives the chunks that are sent to the other, in order and unsplit."""
    here, there = _Pipe(), _Pipe()
    return MemoryStream(here, there), MemoryStream(there, here)


class FaultyStream:
    """Wraps `stream` and adds faults.

    `sizes`: the most bytes that each `receive` returns, one number for each call. After the last number, `receive`
    returns everything available. `break_after`: how many bytes can be sent before the other side is gone, see
    `break_sending`.
    """

    def __init__(self, stream: Stream, *, sizes: Iterable[int] = (), break_after: int | None = None) -> None:
        self._stream = stream
        self._sizes = iter(sizes)
        self._break_after = break_after
        self._buffer = b""
        self._input_over = False
        self._read_error: Exception | None = None
        self._receiving: anyio.CancelScope | None = None
        self._stall_at: int | None = None
        self._released = anyio.Event()
        self.stalled = anyio.Event()
        """Set when a `send` has stalled because of `stall_sending`."""
        self.sent: int = 0
        """The number of bytes that were passed on."""

    # -- faults

    def end_input(self) -> None:
        """End the input now, even before bytes that have arrived."""
        self._input_over = True
        self._interrupt()

    def fail_reading(self, error: Exception) -> None:
        """Make `receive` raise `error`, for example `OSError(errno.EIO, "...")`."""
        self._read_error = error
        self._interrupt()

    def stall_sending(self, after: int = 0) -> None:
        """Pass on `after` more bytes. Later sends then wait for `release`, as if the pipe were full."""
        self._stall_at = self.sent + after
        self._released = anyio.Event()
        self.stalled: anyio.Event = anyio.Event()

    def release(self) -> None:
        """Pass on everything again."""
        self._stall_at = None
        self._released.set()

    def break_sending(self, after: int = 0) -> None:
        """Pass on `after` more bytes. Then `send` raises BrokenResourceError, as if the other side were gone."""
        self._break_after = self.sent + after
        self.release()

    # -- the stream

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        if not self._buffer:
            with anyio.CancelScope() as self._receiving:
                if self._read_error is None and not self._input_over:
                    self._buffer = await self._stream.receive()
            self._receiving = None
        if self._read_error is not None:
            raise self._read_error
        if self._input_over:
            return b""
        size = next(self._sizes, len(self._buffer))
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        if self._break_after is not None and self.sent + len(data) > self._break_after:
            await self._pass_on(data[: max(self._break_after - self.sent, 0)])
            raise anyio.BrokenResourceError
        if self._stall_at is not None and self.sent + len(data) > self._stall_at:
            room = max(self._stall_at - self.sent, 0)
            await self._pass_on(data[:room])
            self.stalled.set()
            await self._released.wait()
            await self.send(data[room:])
            return
        await self._pass_on(data)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stream.aclose()

    async def _pass_on(self, data: bytes) -> None:
        if data:
            await self._stream.send(data)
            self.sent += len(data)

    def _interrupt(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()

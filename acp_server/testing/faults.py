"""A stream that misbehaves on demand, and always in the same way: for testing what a program makes of it.

Wrap the stream of the side under test:

    here, there = memory_pair()
    faulty = FaultyStream(there, sizes=itertools.repeat(1))      # one byte at a time
    connection = Connection(faulty, routes)
    faulty.stall_sending()                                       # a peer that stopped reading
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from acp_server.peer.stream import Stream


class FaultyStream:
    """`stream`, with faults.

    `sizes`: how many bytes each `receive` returns at most, one after the other; when they are used up, what is there.
    `break_after`: how many bytes can be sent before the other side is gone, see `break_sending`.
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
        """Set when a `send` has come to a stop at `stall_sending`."""
        self.sent = 0
        """Bytes that went through."""

    # -- faults

    def end_input(self) -> None:
        """From now on there is nothing more to receive, not even what is there already."""
        self._input_over = True
        self._interrupt()

    def fail_reading(self, error: Exception) -> None:
        """From now on `receive` raises `error`, for example `OSError(errno.EIO, "...")`."""
        self._read_error = error
        self._interrupt()

    def stall_sending(self, after: int = 0) -> None:
        """Let `after` more bytes through; whatever is sent then waits for `release`, like in front of a full pipe."""
        self._stall_at = self.sent + after
        self._released = anyio.Event()
        self.stalled = anyio.Event()

    def release(self) -> None:
        """Let everything through again."""
        self._stall_at = None
        self._released.set()

    def break_sending(self, after: int = 0) -> None:
        """Let `after` more bytes through; then `send` raises BrokenResourceError, as when the other side is gone."""
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

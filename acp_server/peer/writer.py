"""Writes to a stream, in a task of its own: whole frames in the order of `put`, many in one system call.

`put` never waits, so a cancel cannot lose a response. Backpressure is up to the callers: those that produce much await
`room`. The writer does not interpret frames. It only replaces lone surrogates, which few parsers accept.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Final

import anyio

from acp_server.errors import ConnectionClosed
from acp_server.peer.stream import ImmediateStream, LanedStream, Stream
from acp_server.tasks.running import Future, Futures
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.peer")

_BACKSLASH: Final = ord("\\")

HIGH_WATER: Final = 64 * 1024
"""The number of buffered bytes above which producers of updates wait in `room`."""

_PORTION: Final = 1024 * 1024
"""The most bytes of one write. Joining more frames would double their memory and block the event loop."""


class Writer:
    """Buffers frames for `stream` and writes them. `on_broken` is called once if the peer stops reading, `on_sent` with
    the size of each write."""

    __slots__ = (
        "_closing",
        "_due",
        "_frames",
        "_futures",
        "_home",
        "_laned",
        "_on_broken",
        "_on_sent",
        "_order",
        "_rest",
        "_room",
        "_scope",
        "_send_now",
        "_soon",
        "_stream",
        "_taken",
        "_wake",
        "is_broken",
        "size",
    )

    def __init__(
        self, stream: Stream, on_broken: Callable[[], None], on_sent: Callable[[int], None] | None = None
    ) -> None:
        self._stream = stream
        self._on_broken = on_broken
        self._on_sent = on_sent
        self._home = threading.get_ident()
        self._frames: list[bytes] = []
        self.size: int = 0
        """The number of bytes that were put and not written yet."""
        self._taken = 0
        self._futures = Futures()
        self._wake: Future | None = None
        """Wakes `run`; None while `run` is writing."""
        self._send_now = stream.send_now if isinstance(stream, ImmediateStream) else None
        self._soon = None if self._send_now is None else self._futures.call_soon
        self._laned = stream if isinstance(stream, LanedStream) else None
        self._due = False
        """Whether `_flush` is scheduled, or the writer is corked."""
        self._rest = b""
        """The unwritten rest of a partial write."""
        self._room: anyio.Event | None = None
        self._order = anyio.Lock(fast_acquire=True)
        """Held by the producer that waits for room. A producer that fills the buffer again waits behind the others."""
        self._scope = anyio.CancelScope()
        self._closing = False
        self.is_broken = False
        """Whether the peer stopped reading, or `run` has ended. Frames are then dropped."""

    def put(self, frame: bytes) -> int:
        """Buffer one frame, and return the ticket for `take_back`. A broken writer drops the frame.

        Raises RuntimeError like `check_thread`.
        """
        if threading.get_ident() != self._home:
            self.check_thread()
        # Searching one byte is ten times faster than searching three, and few frames have a backslash.
        if _BACKSLASH in frame and b"\\ud" in frame:
            frame = codec.sendable(frame)
        ticket = self._taken + len(self._frames)
        if not self.is_broken:
            self._frames.append(frame)
            self.size += len(frame)
            if self._soon is None:
                self._wake_up()
            elif not self._due:
                self._due = True
                self._soon(self._flush)
        return ticket

    def cork(self) -> bool:
        """Hold frames back until `uncork`, which takes the returned value. The task must not await in between."""
        corked, self._due = not self._due, True
        return corked

    def uncork(self, corked: bool) -> None:
        """Write the frames since `cork` now, in one system call, if the stream can write without waiting. Without any
        frame, schedule a flush after the next round of the event loop. By then the buffer has the responses to all
        requests that a received chunk has cancelled."""
        if corked:
            if self._frames or self._soon is None:
                self._flush()
            else:
                self._soon(self._flush)

    def check_thread(self) -> None:
        """Raise RuntimeError outside of the event loop's thread, because the writer cannot be woken from there."""
        if threading.get_ident() != self._home:
            how = "call.run(...) in a tool, anyio.from_thread.run(...) or run_sync(...) in another plain function"
            raise RuntimeError(f"messages can be sent only in the thread of the connection's event loop; use {how}")

    def take_back(self, ticket: int) -> bool:
        """Undo a `put`. Returns False if the write may have begun, because a frame must not be written in part."""
        index = ticket - self._taken
        if not 0 <= index < len(self._frames):
            return False
        self.size -= len(self._frames[index])
        self._frames[index] = b""
        return True

    def lane(self, name: str) -> Writer | Lane:
        """Return the writer for the senders of one lane: a `Lane`, or this writer if the stream has no lanes."""
        return self if self._laned is None else Lane(self, self._laned, name)

    async def room(self) -> None:
        """Wait until the buffer is below the high-water mark (backpressure). Producers continue in the order in which
        they came. Raises ConnectionClosed."""
        async with self._order:
            await self.below(HIGH_WATER)
        if self.is_broken:
            raise ConnectionClosed

    async def below(self, limit: int) -> None:
        """Wait until at most `limit` bytes are buffered. Also returns when the writer breaks and drops its buffer."""
        while self.size > limit:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()
            # On asyncio a cancel skips a task that is being woken. The writer wakes a waiting producer in each round of
            # the loop, so without this check the producer would never be cancelled.
            await self._futures.checkpoint_if_cancelled()

    def close(self) -> None:
        """Write the buffered frames, then let `run` return."""
        self._closing = True
        self._wake_up()

    def abort(self) -> None:
        """Let `run` return now, also from a write that hangs."""
        self._scope.cancel()

    async def run(self) -> None:
        """Write until closed, aborted or broken."""
        try:
            with self._scope:
                await self._run()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            logger.info("the peer no longer reads: %s", type(error).__name__)
        finally:
            normal = self._closing and not self.size
            self.is_broken: bool = True
            self._frames.clear()
            self._written(self.size)
            if not normal:
                self._on_broken()

    async def _run(self) -> None:
        while True:
            if self._rest:
                await self._send(self._rest)
                self._rest = b""
            if not self._frames:
                if self._closing:
                    return
                self._wake = self._futures.make()
                await self._wake
                continue
            # `take_back` has no effect on these frames from here on.
            frames, self._frames = self._frames[::-1], []
            self._taken += len(frames)
            while frames:
                await self._send(_portion(frames))

    async def _send(self, data: bytes) -> None:
        if data:
            await self._stream.send(data)
            if self._on_sent is not None:
                self._on_sent(len(data))
        self._written(len(data))

    def _flush(self) -> None:
        """Write the buffered frames as far as possible without waiting, and leave the rest to `run`."""
        self._due = False
        if self._wake is None or self._send_now is None:
            return
        if self.size > _PORTION:
            self._wake_up()
            return
        data = b"".join(self._frames)
        self._taken += len(self._frames)
        self._frames = []
        written = self._send_now(data) if data else 0
        if written < len(data):
            self._rest = data[written:]
            self._wake_up()
        self.size -= written
        if self._on_sent is not None and written:
            self._on_sent(written)
        if self._room is not None:
            self._written(0)

    def _wake_up(self) -> None:
        if self._wake is not None:
            if not self._wake.done():
                self._wake.set_result(None)
            self._wake = None

    def _written(self, size: int) -> None:
        self.size -= size
        if self._room is not None:
            self._room.set()
            self._room = None


class Lane:
    """The view that the senders of one lane have of the writer. They wait for the lane's own reader, too."""

    __slots__ = ("_name", "_stream", "_writer", "put")

    def __init__(self, writer: Writer, stream: LanedStream, name: str) -> None:
        self._writer = writer
        self._stream = stream
        self._name = name
        self.put: Final = writer.put
        """See `Writer.put`."""

    @property
    def size(self) -> float:
        """See `Writer.size`; infinity while the lane is full."""
        return math.inf if self._stream.is_full(self._name) else self._writer.size

    async def room(self) -> None:
        """Backpressure: see `Writer.room`, and wait until the lane is not full. Raises ConnectionClosed."""
        await self._stream.room(self._name)
        await self._writer.room()


def _portion(frames: list[bytes]) -> bytes:
    """The bytes of the next write, taken from the end of `frames`, which is in reverse order."""
    data = frames.pop()
    if not frames:
        return data
    portion = [data]
    size = len(data)
    while frames and size < _PORTION:
        portion.append(frames.pop())
        size += len(portion[-1])
    return b"".join(portion)

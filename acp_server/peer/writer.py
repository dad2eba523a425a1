"""The one task that writes: whole frames, in the order in which they were put, many in one go if they are ready.

Putting never waits, so an answer cannot get lost to a cancel. A caller that produces much waits for `room` of its own
accord. It does not encode, and it does not know what the frames mean; texts that few parsers take are mended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import anyio

from acp_server.errors import ConnectionClosed
from acp_server.peer.stream import ImmediateStream, Stream
from acp_server.tasks.futures import Future, Futures
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.peer")

_BACKSLASH: Final = ord("\\")

HIGH_WATER: Final = 64 * 1024
"""Bytes on their way to the peer above which producers of updates wait."""

_PORTION: Final = 1024 * 1024
"""Bytes from which on no further frame is put into the same write: joining them takes as much memory again, and time
in which nothing else runs."""


class Writer:
    """Frames on their way to `stream`. `on_broken` is called once, if the other side stops taking them."""

    __slots__ = (
        "_closing",
        "_due",
        "_frames",
        "_futures",
        "_home",
        "_on_broken",
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

    def __init__(self, stream: Stream, on_broken: Callable[[], None]) -> None:
        self._stream = stream
        self._on_broken = on_broken
        self._home = threading.get_ident()
        self._frames: list[bytes] = []
        self.size: int = 0
        """Bytes that were put and are not yet written."""
        self._taken = 0
        self._futures = Futures()
        self._wake: Future | None = None
        """Wakes `run`; None while that is writing."""
        self._send_now = stream.send_now if isinstance(stream, ImmediateStream) else None
        self._soon = None if self._send_now is None else self._futures.call_soon
        self._due = False
        """Whether the loop is about to call `_flush`."""
        self._rest = b""
        """What is left of frames that were written in part."""
        self._room: anyio.Event | None = None
        self._scope = anyio.CancelScope()
        self._closing = False
        self.is_broken = False
        """Whether the other side has stopped taking frames, or `run` has ended."""

    def put(self, frame: bytes) -> int:
        """Queue one frame; the ticket for `take_back`. A frame for a broken stream is thrown away.

        Raises RuntimeError like `check_thread`.
        """
        if threading.get_ident() != self._home:
            self.check_thread()
        # A search for one byte takes a tenth of the other, and few frames have a backslash.
        if _BACKSLASH in frame and b"\\ud" in frame:
            frame = codec.sendable(frame)
        ticket = self._taken + len(self._frames)
        if not self.is_broken:
            self._frames.append(frame)
            self.size += len(frame)
            if self._soon is None:
                self._wake_up()
            elif not self._due:
                self._flush_soon()
        return ticket

    def hold(self) -> bool:
        """Keep together what is put until `release`, which gets what this returns. The task may not wait in between."""
        held, self._due = not self._due, True
        return held

    def release(self, held: bool) -> None:
        """What was put since `hold` is written now, in one go, if the stream can write without waiting. If nothing was,
        what is put until the end of the next round of the event loop is written then: the answers to all that a chunk
        has cancelled."""
        if held:
            self._due = False
            if self._frames:
                self._flush()
            else:
                self._flush_soon()

    def _flush_soon(self) -> None:
        if self._soon is not None and not self._due:
            self._due = True
            self._soon(self._flush)

    def check_thread(self) -> None:
        """Raises RuntimeError in a thread that is not the event loop's, where the writer could not be woken."""
        if threading.get_ident() != self._home:
            how = "call.run(...) in a tool, anyio.from_thread.run(...) or run_sync(...) in another plain function"
            raise RuntimeError(f"messages can only be sent in the event loop of their connection; use {how}")

    def take_back(self, ticket: int) -> bool:
        """Undo a `put`. False if writing it may have begun, for a frame is never torn."""
        index = ticket - self._taken
        if not 0 <= index < len(self._frames):
            return False
        self.size -= len(self._frames[index])
        self._frames[index] = b""
        return True

    async def room(self) -> None:
        """Wait until no more is on its way than producers of updates may add to. Raises ConnectionClosed."""
        await self.below(HIGH_WATER)
        if self.is_broken:
            raise ConnectionClosed

    async def below(self, limit: int) -> None:
        """Wait until no more than `limit` bytes are on their way, be it because they never will be written."""
        while self.size > limit:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()
            # On asyncio a cancel passes over a task that is just being woken. The writer wakes a producer in each round
            # of the loop, so it would never be cancelled.
            await self._futures.checkpoint_if_cancelled()

    def close(self) -> None:
        """Write what is there, then let `run` return."""
        self._closing = True
        self._wake_up()

    def abort(self) -> None:
        """Let `run` return now, even out of a write that hangs."""
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
            # From here on they cannot be taken back.
            frames, self._frames = self._frames[::-1], []
            self._taken += len(frames)
            while frames:
                await self._send(_portion(frames))

    async def _send(self, data: bytes) -> None:
        if data:
            await self._stream.send(data)
        self._written(len(data))

    def _flush(self) -> None:
        """Write what is there, as far as that goes without waiting, and leave the rest to `run`."""
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


def _portion(frames: list[bytes]) -> bytes:
    """The next bytes to write, taken off the end of `frames`, where the first one is."""
    data = frames.pop()
    if not frames:
        return data
    portion = [data]
    size = len(data)
    while frames and size < _PORTION:
        portion.append(frames.pop())
        size += len(portion[-1])
    return b"".join(portion)

"""Reads the peer's messages and processes them in order, without blocking the event loop for long.

Messages are processed in slices of limited time, and other tasks run in between. A second task reads ahead while one
slice cannot process all that has arrived, or while the peer leaves too much unread. It buffers messages in order, but
applies cancels at once. A cancel is applied again in its order, where it has no effect. The reader does not interpret
messages.

The buffer holds blocks of whole lines. One search finds out whether a block can contain a cancel, and a block is split
into lines only when it is processed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from time import perf_counter
from typing import Any, Final, TypeAlias

import anyio
import anyio.lowlevel

from acp_server.peer.stream import FeedingStream, Stream
from acp_server.peer.writer import Writer
from acp_server.tasks.running import Futures
from acp_server.wire.framing import Block, Line, lines_in
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import (
    Dropped,
    Endpoint,
    Event,
    Outgoing,
    may_cancel,
    may_count,
    only_cancels,
    refused_in_a_row,
)

logger: logging.Logger = logging.getLogger("acp_server.peer")

Handlers: TypeAlias = Mapping[type[Event], Callable[[Any], None]]
"""The handler of each kind of event."""

_SLICE: Final = 0.005
"""Seconds of one slice of messages. After a slice other tasks run."""

_AHEAD: Final = 32 * 1024 * 1024
"""The most bytes in the buffer of the task that reads ahead."""

_BLOCK: Final = 100
"""Bytes that a block takes in memory besides its text."""

_LOOK: Final = 16
"""The number of short invalid lines in a row for which the clock is read once. Reading the clock costs about as much as
such a line."""

_SHORT: Final = 256
"""The most bytes of a short line. A longer line may be a batch with many invalid members."""

_ERRORS: Final = 1000
"""The number of invalid messages in a row after which the peer is slowed down."""

_REFUSED: Final = 20_000
"""The number of errors in a row, also in batches, after which invalid lines without an id share one response."""

_REFUSAL: Final = 80
"""The least number of bytes of an error response. It is used to estimate how many errors the response to a batch
contains."""

_SLOW: Final = 0.02
"""Seconds between two slices of a peer that is slowed down. That leaves the peer a fifth of the CPU."""


class Reader:
    """Reads `stream` to its end. `handlers`: one for each kind of event. `hurry` applies a cancel that overtakes other
    messages. `settle` is called after each chunk or slice: cancelled work ends, and new requests begin. `on_received`
    is called with the size of each chunk.

    Backpressure: nothing is processed while `writer` has more than `unread` bytes buffered. After the end of input, the
    rest is dropped if the peer reads nothing for `flush` seconds."""

    def __init__(
        self,
        stream: Stream,
        endpoint: Endpoint,
        writer: Writer,
        handlers: Handlers,
        hurry: Callable[[Notification], None],
        settle: Callable[[], None],
        unread: int,
        flush: float,
        on_received: Callable[[int], None] | None = None,
    ) -> None:
        self._stream = stream
        self._futures = Futures()
        self._feed = stream.feed if isinstance(stream, FeedingStream) and not self._futures.can_nest else None
        self._is_fed = False
        """Whether `_fed` is running."""
        self._endpoint = endpoint
        self._writer = writer
        self._handlers = handlers
        self._hurry = hurry
        self._settle = settle
        self._unread = unread
        self._flush = flush
        self._on_received = on_received
        self._blocks: deque[Block] = deque()
        self._begun = 0
        """The number of blocks that were begun, which is also the number of the first block of `_blocks`."""
        self._hurried = 0
        """The number of the first block whose cancels were not applied ahead since the last request began."""
        self._held = 0
        """The bytes of `_blocks`."""
        self._lines: list[Line] = []
        """The unprocessed lines of the block that was begun last, in reverse order."""
        self._errors = 0
        """The number of invalid messages in a row."""
        self._refused = 0
        """The number of errors in a row, also in batches."""
        self._unanswered = 0
        """The number of invalid lines that will share one response."""
        self._ended = False
        self._problem: Exception | None = None
        """The exception of reading ahead. It is raised after the messages that came before it."""
        self._behind = False
        self._room: anyio.Event | None = None
        self._patience: anyio.CancelScope | None = None

    async def run(self) -> None:
        """Read until the input ends. Raises the exceptions of the stream."""
        while not self._ended:
            # The task that reads ahead may have left blocks.
            if not (self._lines or self._blocks):
                await self._receive()
            if self._blocks:
                if len(self._blocks) > 1 and not all(map(only_cancels, self._blocks)):
                    # The first slice may not reach the cancels. Each cancel is decoded twice then.
                    await self._hurry_ahead(self._begun)
                self._slice()
                self._settle()
            if self._lines or self._blocks or self._writer.size > self._unread:
                await self._catch_up()
        if self._problem is not None:
            raise self._problem
        for event in self._endpoint.receive_eof():
            self._handlers[type(event)](event)
        self._settle()

    async def finish(self) -> None:
        """Answer the requests that were read, and drop other messages, after a cancel of `run`. Waits for a peer that
        does not read."""
        answering = (Request, Outgoing)
        self._handlers = {kind: act if kind in answering else _ignore for kind, act in self._handlers.items()}
        while (self._lines or self._blocks) and not self._writer.is_broken:
            await self._writer.below(self._unread)
            self._slice()
            await anyio.lowlevel.checkpoint()

    async def _receive(self) -> None:
        """Receive and process chunks, until a chunk needs more than one slice."""
        await self._futures.checkpoint_if_cancelled()
        if self._feed is not None:
            await self._feed(self._fed)
            if self._is_fed:
                self._nested()
            return
        is_done = True
        while is_done:
            is_done = self._take(await self._stream.receive())
            self._settle()
            # On asyncio a cancel skips a task that is being woken. A peer that sends without pause wakes this task in
            # each round of the loop, so without this check the task would never be cancelled.
            await self._futures.checkpoint_if_cancelled()

    def _fed(self, data: bytes) -> bool:
        """Do the same as `_take` in a loop callback, while the writer is corked. Responses that need no waiting are
        written before this returns."""
        corked = self._writer.cork()
        self._is_fed = True
        try:
            is_done = self._take(data)
            self._settle()
        finally:
            self._is_fed = False
            self._writer.uncork(corked)
        return is_done

    def _nested(self) -> None:
        """Feed no further chunks in a callback, and uncork the writer for other tasks, because the event loop was
        re-entered within a handler, and so within `_fed`."""
        self._feed = None
        self._writer.uncork(True)
        logger.warning(
            "a handler runs the event loop inside itself (nest_asyncio), so a cancel does not reach the handler "
            "before it returns; await the coroutine, or run it in a thread"
        )

    def _take(self, data: bytes) -> bool:
        """Buffer a chunk and process one slice. Returns False if unprocessed messages remain."""
        self._add(data)
        if self._ended or len(self._blocks) > 1:
            return False
        return self._slice() and self._writer.size <= self._unread

    def _add(self, data: bytes) -> None:
        if self._on_received is not None and data:
            self._on_received(len(data))
        blocks = self._endpoint.blocks(data)
        self._blocks += blocks
        self._held += sum(map(len, blocks)) + _BLOCK * len(blocks)
        self._ended = not data

    def _slice(self) -> bool:
        """Process buffered messages for one slice. Returns False if some remain."""
        lines, blocks = self._lines, self._blocks
        end = perf_counter() + _SLICE
        while lines or blocks:
            if not lines:
                block = blocks.popleft()
                self._held -= len(block) + _BLOCK
                self._begun += 1
                lines = self._lines = (lines_in(block) if self._refused < _REFUSED else self._that_count(block))[::-1]
                if not lines and perf_counter() > end:  # blank lines, or errors, however many of them
                    break
                continue
            line = lines.pop()
            for event in self._endpoint.events(line):
                kind = type(event)
                if kind is Outgoing or kind is Dropped:
                    if self._joins_others(event):
                        continue
                else:
                    self._errors = self._refused = 0
                    if kind is Request:
                        # A cancel of this request may be in a block that was searched before.
                        self._hurried = 0
                self._handlers[kind](event)
            if not (lines or blocks):
                break
            is_due = self._errors % _LOOK == 0 or len(line) > _SHORT
            if is_due and perf_counter() > end:
                self._hurry_next()
                break
        if self._unanswered:
            self._answer_together()
        return not (lines or blocks)

    def _that_count(self, block: Block) -> list[Line]:
        """Return the lines that may be valid, for a peer that sends only invalid lines. The others are counted."""
        lines = [line for line in lines_in(block) if may_count(line)] if may_count(block) else []
        errors = max(1, block.count(b"\n")) - len(lines) if isinstance(block, (bytes, bytearray)) else 0
        self._errors += errors
        self._unanswered += errors
        return lines

    def _joins_others(self, event: Event) -> bool:
        """Count an invalid message. Returns whether it shares a response with others."""
        self._errors += 1
        if not isinstance(event, Outgoing):
            return False
        self._refused += max(1, len(event.frame) // _REFUSAL)
        joins = not event.names and self._refused > _REFUSED
        self._unanswered += joins
        return joins

    def _answer_together(self) -> None:
        count, self._unanswered = self._unanswered, 0
        self._handlers[Outgoing](refused_in_a_row(count))

    def _hurry_next(self) -> None:
        """Apply the cancels in the next block before new requests begin. A slice may be short on a busy machine, and a
        cancel right after its request must still be in time."""
        begun = self._begun
        if self._hurried < begun:
            self._hurry_cancels(self._lines[::-1])
            self._hurried = begun
        if self._hurried == begun and self._blocks:
            if may_cancel(self._blocks[0]):
                self._hurry_cancels(lines_in(self._blocks[0]))
            self._hurried += 1

    def _hurry_cancels(self, lines: list[Line]) -> None:
        for notification in self._endpoint.cancels_in(lines):
            self._hurry(notification)

    async def _catch_up(self) -> None:
        """Process the buffer slice by slice, while a second task reads ahead."""
        self._behind = True
        # First, so that a cancel in the chunk of its request is applied before the request begins.
        done = await self._hurry_ahead(self._begun)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read_ahead, done)
            while self._lines or self._blocks or (self._writer.size > self._unread and not self._ended):
                ended = self._ended
                with anyio.CancelScope() as self._patience:
                    if ended:
                        # The bound on unread bytes holds here too, but with a deadline: the peer may be gone.
                        self._patience.deadline = anyio.current_time() + self._flush
                    await self._writer.below(self._unread)
                if self._writer.size > self._unread:
                    if ended:
                        self._forget()
                    continue
                await anyio.sleep(_SLOW if self._errors > _ERRORS else 0)
                self._slice()
                self._settle()
                if self._room is not None and self._held < _AHEAD:
                    self._room.set()
            # The other task ends with the next bytes. Cancelling its read could lose bytes.
            self._behind = False

    def _forget(self) -> None:
        logger.warning(
            "the peer has closed its output and does not read; the last %d received bytes are ignored", self._held
        )
        self._blocks.clear()
        self._lines.clear()
        self._held = 0

    async def _read_ahead(self, done: int) -> None:
        while self._behind and not self._ended:
            if self._held >= _AHEAD:
                self._room = anyio.Event()
                await self._room.wait()
                self._room = None
                continue
            try:
                await self._futures.checkpoint_if_cancelled()
                self._add(await self._stream.receive())
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                # Raised after the messages that came before it.
                self._problem = error
                self._ended = True
            if self._behind:
                done = await self._hurry_ahead(done)
        if self._patience is not None:
            # The input has ended: from now on the wait for the peer to read has a deadline.
            self._patience.cancel()

    async def _hurry_ahead(self, done: int) -> int:
        """Apply the cancels in the buffered blocks from number `done` on. Returns the number of the next block."""
        first = max(done, self._begun, self._hurried)
        blocks = list(islice(self._blocks, first - self._begun, None))
        end = perf_counter() + _SLICE
        for number, block in enumerate(blocks, first):
            if may_cancel(block):
                if perf_counter() > end:
                    await anyio.lowlevel.checkpoint()
                    end = perf_counter() + _SLICE
                # The other task may have begun this block meanwhile. A cancel must not be applied after its order.
                if number >= self._begun:
                    self._hurry_cancels(lines_in(block))
            if self._hurried == number:
                self._hurried += 1
        return first + len(blocks)


def _ignore(_event: Event) -> None:
    pass

"""Takes what the peer sends, in order, and never holds the event loop for long.

What has arrived is handled in slices of bounded time, and other tasks run in between. While more waits than one slice
can handle, or while the peer leaves too much unread, a second task reads ahead. It keeps what it reads for its turn,
except for cancels: those are applied at once, and once more in their turn, where they find nothing left to do. What the
messages mean is not known here.

What waits is kept in blocks of whole lines as it came: a block without a cancel is told by one search through it, and
only when its turn comes is it cut into lines.
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
from acp_server.tasks.futures import Futures
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
"""What acts on each kind of event."""

_SLICE: Final = 0.005
"""Seconds that the messages of the peer may take before other tasks run."""

_AHEAD: Final = 32 * 1024 * 1024
"""Bytes that are read ahead at the most."""

_BLOCK: Final = 100
"""Bytes that a block takes in memory beside its text."""

_LOOK: Final = 16
"""Short lines in a row that were answered with an error, for one look at the clock: they cost little more than it
does."""

_SHORT: Final = 256
"""Bytes of a short line: of a batch each member may be answered with an error."""

_ERRORS: Final = 1000
"""Messages in a row that were answered with an error and made nothing run, after which the peer is slowed down."""

_REFUSED: Final = 20_000
"""Errors in a row, those in batches too, after which lines that name nothing are answered together."""

_REFUSAL: Final = 80
"""Bytes of an error, or less: so many of them are in the answer to a batch."""

_SLOW: Final = 0.02
"""Seconds between two slices of a peer that is slowed down: it gets a fifth of the time."""


class Reader:
    """Reads `stream` to its end. `handlers` act on events, each on one kind. `hurry` applies a notification ahead of
    its turn, if that is a cancel. `settle` completes what a chunk has begun: what it cancels ends, what it asks for
    begins. Nothing is handled while more than `unread` bytes of `writer` have not been taken by the peer. When the
    input has ended, what waits is forgotten if the peer takes none of them for `flush` seconds."""

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
    ) -> None:
        self._stream = stream
        self._futures = Futures()
        self._feed = stream.feed if isinstance(stream, FeedingStream) and not self._futures.can_nest else None
        self._is_fed = False
        """Whether a call of `_fed` has not returned."""
        self._endpoint = endpoint
        self._writer = writer
        self._handlers = handlers
        self._hurry = hurry
        self._settle = settle
        self._unread = unread
        self._flush = flush
        self._blocks: deque[Block] = deque()
        self._begun = 0
        """How many blocks have been begun; the first of `_blocks` has this number."""
        self._hurried = 0
        """The first block (by that count) whose cancels have not been applied ahead since a request has begun."""
        self._held = 0
        """Bytes that `_blocks` takes."""
        self._lines: list[Line] = []
        """What is left of the block that was begun last, from the end on."""
        self._errors = 0
        """How many errors in a row have answered messages that made nothing run."""
        self._refused = 0
        """The same, with those in batches."""
        self._unanswered = 0
        """How many lines wait for one answer to all of them."""
        self._ended = False
        self._problem: Exception | None = None
        """Why reading ahead failed; raised when what came before it has been handled."""
        self._behind = False
        self._room: anyio.Event | None = None
        self._patience: anyio.CancelScope | None = None

    async def run(self) -> None:
        """Read until the input ends. Raises what the stream raises."""
        while not self._ended:
            # What was read ahead last is still there.
            if not (self._lines or self._blocks):
                await self._receive()
            if self._blocks:
                if len(self._blocks) > 1 and not all(map(only_cancels, self._blocks)):
                    # More than the first slice may have time for. Each cancel is read twice then.
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
        """After `run` was cancelled: have the requests that have been read answered, and act on nothing else. Waits for
        a peer that does not read."""
        answering = (Request, Outgoing)
        self._handlers = {kind: act if kind in answering else _ignore for kind, act in self._handlers.items()}
        while (self._lines or self._blocks) and not self._writer.is_broken:
            await self._writer.below(self._unread)
            self._slice()
            await anyio.lowlevel.checkpoint()

    async def _receive(self) -> None:
        """Take what arrives, until there is more to do about it than to take the next."""
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
            # On asyncio a cancel passes over a task that is just being woken. A peer that sends all the time wakes this
            # one in each round of the loop, so it would never be cancelled.
            await self._futures.checkpoint_if_cancelled()

    def _fed(self, data: bytes) -> bool:
        """`_take`, called by the loop as a rule: then what is answered at once is written before this returns."""
        held = self._writer.hold()
        self._is_fed = True
        try:
            is_done = self._take(data)
            self._settle()
        finally:
            self._is_fed = False
            self._writer.release(held)
        return is_done

    def _nested(self) -> None:
        """The loop runs within the first step of a handler, and so within `_fed`. From here on no handler begins there,
        and what is written by others does not wait for its end."""
        self._feed = None
        self._writer.release(True)
        logger.warning(
            "a handler runs the event loop within itself (nest_asyncio): others go on meanwhile, but a cancel does not "
            "reach that handler before it returns; await the coroutine, or run it in a thread"
        )

    def _take(self, data: bytes) -> bool:
        """Take what has arrived, and handle it if one slice will do. False if that is not all."""
        self._add(data)
        if self._ended or len(self._blocks) > 1:
            return False
        return self._slice() and self._writer.size <= self._unread

    def _add(self, data: bytes) -> None:
        blocks = self._endpoint.blocks(data)
        self._blocks += blocks
        self._held += sum(map(len, blocks)) + _BLOCK * len(blocks)
        self._ended = not data

    def _slice(self) -> bool:
        """Handle what waits, for as long as a slice lasts. False if there is more."""
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
                        # A cancel of it may follow that has been looked at already.
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
        """Of a peer that sends nothing but errors: the lines that may be something else. The others are counted."""
        lines = [line for line in lines_in(block) if may_count(line)] if may_count(block) else []
        errors = max(1, block.count(b"\n")) - len(lines) if isinstance(block, (bytes, bytearray)) else 0
        self._errors += errors
        self._unanswered += errors
        return lines

    def _joins_others(self, event: Event) -> bool:
        """Note that a message made nothing run. Whether it is answered together with others."""
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
        """Apply the cancels in what comes next, before what has just arrived can begin. However short the slice was,
        for the time is taken by the clock, a cancel that closely follows its request is in time."""
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
        """Handle what waits, slice by slice, while a second task reads ahead."""
        self._behind = True
        # Before anything that has arrived can begin: a cancel in the same chunk as its request comes first.
        done = await self._hurry_ahead(self._begun)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read_ahead, done)
            while self._lines or self._blocks or (self._writer.size > self._unread and not self._ended):
                ended = self._ended
                with anyio.CancelScope() as self._patience:
                    if ended:
                        # The bound on unread answers holds here too, but the wait is short: the peer may have gone.
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
            # The other task ends by itself, with the next bytes: a read that is cancelled could lose some.
            self._behind = False

    def _forget(self) -> None:
        logger.warning("the peer has ended its output and does not read; the last %d bytes are ignored", self._held)
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
                # What has come before it is handled first.
                self._problem = error
                self._ended = True
            if self._behind:
                done = await self._hurry_ahead(done)
        if self._patience is not None:
            # The input has ended: what waits for the peer to read waits in another way from here on.
            self._patience.cancel()

    async def _hurry_ahead(self, done: int) -> int:
        """Apply the cancels in the blocks that wait, but the first `done` of all. How many are done now."""
        first = max(done, self._begun, self._hurried)
        blocks = list(islice(self._blocks, first - self._begun, None))
        end = perf_counter() + _SLICE
        for number, block in enumerate(blocks, first):
            if may_cancel(block):
                if perf_counter() > end:
                    await anyio.lowlevel.checkpoint()
                    end = perf_counter() + _SLICE
                # While this task waits, the other one begins blocks: a cancel may not be applied behind its turn.
                if number >= self._begun:
                    self._hurry_cancels(lines_in(block))
            if self._hurried == number:
                self._hurried += 1
        return first + len(blocks)


def _ignore(_event: Event) -> None:
    pass

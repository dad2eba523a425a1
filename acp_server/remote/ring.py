"""One stream of messages to a client: each has a cursor, and those that were taken last are kept for a reader that
comes back.

A stream never skips a message silently. Where it cannot hold what its reader does not take, it is given up: its reader
is sent away, and none is let in before the client has opened the session anew.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

import anyio

from acp_server.remote.limits import RemoteLimits

_TOGETHER: Final = 64 * 1024
"""Bytes of messages that are written together."""
_SMALL: Final = 100
"""Bytes that a message takes in memory beside its text."""


class Taken(Exception):
    """The stream has a reader."""


class Gone(Exception):
    """What the reader asks for is not held any more, or never was."""


class Holdings:
    """What the rings of all connections hold, in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._rings: dict[Ring, None] = {}

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return self._held

    def add(self, ring: Ring, size: int) -> None:
        """Count what a ring has taken in. Where that is too much for all, the largest one makes room."""
        self._rings[ring] = None
        self._held += size
        while self._held > self._most and self._rings:
            largest = max(self._rings, key=lambda each: each.unread + each.kept)
            if largest.kept:
                largest.forget()
            else:
                largest.give_up()

    def remove(self, ring: Ring, size: int) -> None:
        """Count what it holds no more."""
        self._held -= size
        if not ring.unread + ring.kept:
            self._rings.pop(ring, None)


class Reader:
    """What takes the messages of a ring, until it leaves or is sent away."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.is_over: bool = False
        """Whether it gets nothing more."""
        self.cut: anyio.CancelScope = anyio.CancelScope()
        """The scope of its writes: cancelled where it may not wait for them."""
        self.changed: anyio.Event = anyio.Event()

    async def next(self) -> list[tuple[str, bytes]]:
        """The next messages with their cursors, so many as are written together; none at the end. They count as taken
        once `took` is called."""
        while not self.is_over:
            if (found := self._ring.peek()) or self._ring.is_closed:
                return found
            self.changed = anyio.Event()
            await self.changed.wait()
        return []

    def took(self, count: int = 1) -> None:
        """So many of those from `next` were written."""
        if not self.is_over:
            for _ in range(count):
                self._ring.advance()

    def leave(self) -> None:
        """It reads no more."""
        self._ring.detach(self)

    def send_away(self, *, at_once: bool = False) -> None:
        """It gets nothing more; `at_once`: also what is being written to it is broken off."""
        self.is_over = True
        self.changed.set()
        if at_once:
            self.cut.cancel()


class Ring:
    """The messages of one stream."""

    def __init__(self, limits: RemoteLimits, holdings: Holdings) -> None:
        self._limits = limits
        self._holdings = holdings
        self._tag = secrets.token_hex(4)
        self._messages: deque[bytes] = deque()
        self._first = 1
        """The number of the first message that is held."""
        self._next = 1
        """The number of the first that was not taken."""
        self.unread: int = 0
        """Bytes that were not taken."""
        self.kept: int = 0
        """Bytes that were."""
        self.is_given_up: bool = False
        self._is_told = False
        """Whether a client knows that it was."""
        self.is_closed: bool = False
        """Whether nothing more will come."""
        self.state: bytes | None = None
        """The message that has said last in which state its session is, for a reader that comes back."""
        self.reader: Reader | None = None
        self._room = anyio.Event()

    def put(self, message: bytes) -> None:
        """Add a message. Never waits."""
        if self.is_given_up or self.is_closed:
            # It has a number all the same: no cursor from before leads past it.
            self._first += 1
            self._next += 1
            return
        self._messages.append(message)
        size = len(message) + _SMALL
        self.unread += size
        self._holdings.add(self, size)
        if self.reader is not None:
            self.reader.changed.set()

    @property
    def cursor(self) -> str:
        """That of the message which is put next."""
        return f"{self._tag}-{self._first + len(self._messages)}"

    @property
    def last(self) -> str | None:
        """That of the message which was put last; None without any."""
        number = self._first + len(self._messages) - 1
        return f"{self._tag}-{number}" if number else None

    @property
    def is_full(self) -> bool:
        """Whether its reader is further behind than it may be. One message alone may be longer."""
        return self.unread > self._limits.unread and self._first + len(self._messages) - self._next > 1

    @property
    def is_idle(self) -> bool:
        """Whether it has no reader, and nothing for one."""
        return self.reader is None and not self.unread and not self.is_given_up

    async def room(self) -> None:
        """Wait until it is not full. After `stall` seconds it is given up."""
        if not self.is_full:
            return
        with anyio.move_on_after(self._limits.stall) as patience:
            while self.is_full:
                self._room = anyio.Event()
                await self._room.wait()
        if patience.cancelled_caught and self.is_full:
            self.give_up()

    def attach(self, cursor: str | None) -> Reader:
        """Let a reader in, behind `cursor`, or with the first message that no reader has taken. A reader that comes
        back with a cursor takes the place of the other, whose line may be dead. Raises Taken or Gone. Of a stream
        that was given up a client is told once, and may then begin anew without a cursor."""
        if self.is_given_up and (cursor is not None or not self._is_told):
            self._is_told = True
            raise Gone
        self.renew()
        if cursor is not None:
            self._rewind(self._number(cursor) + 1)
            if self.state is not None:
                # By the draft, even if that has not changed: behind what was missed, before what is new.
                self.put(self.state)
            if self.reader is not None:
                self.reader.send_away(at_once=True)
        elif self.reader is not None:
            raise Taken
        self.reader = Reader(self)
        return self.reader

    def detach(self, reader: Reader) -> None:
        """See `Reader.leave`."""
        reader.is_over = True
        if self.reader is reader:
            self.reader = None
            if self.is_closed:
                self._clear()

    def peek(self) -> list[tuple[str, bytes]]:
        """The first messages that were not taken, and their cursors: one, or so many as are short."""
        found: list[tuple[str, bytes]] = []
        size = 0
        for number, message in enumerate(islice(self._messages, self._next - self._first, None), self._next):
            size += len(message)
            if found and size > _TOGETHER:
                break
            found.append((f"{self._tag}-{number}", message))
        return found

    def advance(self) -> None:
        """That one was taken."""
        size = len(self._messages[self._next - self._first]) + _SMALL
        self._next += 1
        self.unread -= size
        self.kept += size
        while self.kept > self._limits.kept:
            self._drop()
        self._room.set()

    def forget(self) -> None:
        """Keep nothing for a reader that comes back."""
        while self.kept:
            self._drop()

    def give_up(self) -> None:
        """Drop everything; what comes as well, until `renew`."""
        self.is_given_up = True
        self._clear()
        if self.reader is not None:
            self.reader.send_away(at_once=True)
        self._room.set()

    def renew(self) -> None:
        """The client knows that it has missed something: it begins anew."""
        self.is_given_up = self._is_told = False

    def close(self, *, at_once: bool = False) -> None:
        """Nothing more will come. A reader gets what is there, unless `at_once`."""
        self.is_closed = True
        if at_once or self.reader is None:
            self._clear()
        if self.reader is not None:
            self.reader.changed.set()
            if at_once:
                self.reader.send_away(at_once=True)
        self._room.set()

    def _clear(self) -> None:
        self._first = self._next = self._first + len(self._messages)
        self._messages.clear()
        size, self.unread, self.kept = self.unread + self.kept, 0, 0
        self._holdings.remove(self, size)

    def _drop(self) -> None:
        """The oldest message, which was taken."""
        size = len(self._messages.popleft()) + _SMALL
        self._first += 1
        self.kept -= size
        self._holdings.remove(self, size)

    def _number(self, cursor: str) -> int:
        if not cursor:
            return 0  # before the first message: the line dropped before its client had a cursor
        tag, _, number = cursor.partition("-")
        if tag != self._tag or not (number.isascii() and number.isdigit() and len(number) < 20):
            raise Gone
        return int(number)

    def _rewind(self, number: int) -> None:
        """Begin again with the message of this number. Raises Gone."""
        if not self._first <= number <= self._first + len(self._messages):
            raise Gone
        while self._next < number:
            self.advance()  # It has arrived, though the line was cut before that was known.
        again = sum(len(message) + _SMALL for message in self._between(number, self._next))
        self._next = number
        self.unread += again
        self.kept -= again

    def _between(self, first: int, last: int) -> Iterator[bytes]:
        return islice(self._messages, first - self._first, last - self._first)

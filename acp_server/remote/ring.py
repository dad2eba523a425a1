"""`Ring` is one stream of messages to a client. Each message has a cursor. The last messages are kept for a reader that
resumes.

A stream never skips a message silently. If it cannot hold the messages that its reader has not read, it is given up. It
then drops the messages, ends its reader, and refuses the next reader with `Gone`.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import anyio

from acp_server.remote.limits import RemoteLimits
from acp_server.remote.shares import Account, Part, Principals

_TOGETHER: Final = 64 * 1024
"""The most bytes of messages in one write; a longer message is written alone."""
_SMALL: Final = 100
"""Bytes that a message takes in memory besides its text."""
_UNREAD: Final = 0.75
"""The part of all bytes that unread messages may take before their senders wait. The rest is for the messages that are
kept for a reader that resumes, and that connections have buffered for a stream that has become full."""
_LEAST: Final = 64 * 1024
"""Unread bytes that a stream may have even if all others leave nothing free."""


class Taken(Exception):
    """Raised if the stream already has a reader."""


class Gone(Exception):
    """Raised if the stream does not hold the messages after the reader's cursor, or was given up."""


class Holdings(Account):
    """Counts the bytes that the rings of all connections hold, at most `most`.

    Above the limit, the largest ring of the largest connection of the largest principal is relieved. So many small
    rings of one client cannot push out the ring of another client.
    """

    def __init__(self, most: int) -> None:
        super().__init__(None, most * _UNREAD)
        self._most = most
        self._principals: Principals[Account] = Principals(self, Account)

    def account(self, principal: str | None) -> Account:
        """Return a new account, for a connection of this principal."""
        return self._principals.connection(principal)

    def count(self, part: Part, change: int, unread: int) -> None:
        """See `Account`."""
        super().count(part, change, unread)
        self.waiting.look()
        while change > 0 and self.size > self._most:
            self.relieve()


class Reader:
    """Reads the messages of a ring until it leaves or is ended."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.is_over: bool = False
        """Whether the reader gets no more messages."""
        self.cut: anyio.CancelScope = anyio.CancelScope()
        """The scope of the reader's writes. It is cancelled when another reader replaces this one, or the ring is given
        up or dropped, because the client may accept no bytes."""
        self.changed: anyio.Event = anyio.Event()
        """Set when a message was put or the ring was closed, and when the reader is ended."""

    async def next(self) -> list[tuple[str, bytes]]:
        """Wait for the next messages, each with its cursor. Return as many as fit into one write, or none at the end.

        `next` returns the same messages until `took` is called.
        """
        while not self.is_over:
            if (found := self._ring.peek()) or self._ring.is_closed:
                return found
            self.changed = anyio.Event()
            await self.changed.wait()
        return []

    def took(self, count: int = 1) -> None:
        """Record that the first `count` messages from `next` were written."""
        if not self.is_over:
            self._ring.advance(count)

    def leave(self) -> None:
        """Detach from the ring."""
        self._ring.detach(self)

    def send_away(self, *, at_once: bool = False) -> None:
        """End the reader. `at_once` cancels its write in progress, too."""
        self.is_over = True
        self.changed.set()
        if at_once:
            self.cut.cancel()


class Ring:
    """The messages of one stream."""

    def __init__(self, limits: RemoteLimits, account: Account) -> None:
        self._limits = limits
        self._account = account
        self._tag = secrets.token_hex(4)
        self._messages: deque[bytes] = deque()
        self._first = 1
        """The number of the first message that is held."""
        self._next = 1
        """The number of the first message that is not written yet."""
        self.unread: int = 0
        """Bytes of the messages that are not written yet."""
        self.kept: int = 0
        """Bytes of the messages that are written and kept."""
        self.is_given_up: bool = False
        """Whether messages were dropped unread. New messages are dropped, too, until `renew`."""
        self._is_told = False
        """Whether the client knows that the ring was given up, because a reader was refused."""
        self.is_closed: bool = False
        """Whether new messages are dropped, because the stream has ended."""
        self.state: bytes | None = None
        """The last `state_update` of the session, for a reader that resumes."""
        self.reader: Reader | None = None
        self._room = anyio.Event()
        self._order = anyio.Lock(fast_acquire=True)

    def put(self, message: bytes) -> None:
        """Add a message. Never waits."""
        if self.is_given_up or self.is_closed:
            # A dropped message has a number, so an earlier cursor is found to be gone instead of skipping it.
            self._first += 1
            self._next += 1
            return
        self._messages.append(message)
        size = len(message) + _SMALL
        self.unread += size
        self._account.count(self, size, size)
        if self.reader is not None:
            self.reader.changed.set()

    @property
    def size(self) -> int:
        """Return the bytes of all messages that the ring holds."""
        return self.unread + self.kept

    def relieve(self) -> None:
        """Drop the messages that are kept for a reader that resumes. If there are none, give the ring up."""
        if self.kept:
            self.forget()
        else:
            self.give_up()

    @property
    def cursor(self) -> str:
        """Return the cursor of the next message that is put."""
        return f"{self._tag}-{self._first + len(self._messages)}"

    @property
    def last(self) -> str | None:
        """Return the cursor of the last message that was put, or None."""
        number = self._first + len(self._messages) - 1
        return f"{self._tag}-{number}" if number else None

    def is_full(self) -> bool:
        """Whether more bytes wait for the reader than the limit `unread`, or than all streams together leave free (see
        `Share`). A single message may be longer."""
        unread, most = self.unread, self._limits.unread
        if unread > _LEAST and unread <= most:
            most = max(_LEAST, self._account.unread.free())
        return unread > most and self._are_several()

    def is_overfull(self) -> bool:
        """Whether more bytes than twice the limit `unread` wait for the reader."""
        return self.unread > 2 * self._limits.unread and self._are_several()

    def _are_several(self) -> bool:
        """Whether several messages wait for the reader, of a stream that has not ended."""
        return self._first + len(self._messages) - self._next > 1 and not self.is_closed

    @property
    def is_idle(self) -> bool:
        """Whether the ring has no reader and no unread message, and was not given up."""
        return self.reader is None and not self.unread and not self.is_given_up

    async def room(self) -> None:
        """Wait until the ring is not full (see `is_full`). Give it up after `stall` seconds."""
        await self._wait_while(self.is_full)

    async def last_room(self) -> None:
        """Wait until the ring is not overfull (see `is_overfull`). Give it up after `stall` seconds."""
        await self._wait_while(self.is_overfull)

    async def _wait_while(self, is_full: Callable[[], bool]) -> None:
        if not is_full():
            return
        waiting = self._account.waiting.here(lambda: self._room.set())
        with anyio.move_on_after(self._limits.stall) as patience, waiting:
            while is_full():
                if self._room.is_set():
                    self._room = anyio.Event()
                await self._room.wait()
                # On asyncio a cancel skips a task that is being woken, and a reader may wake it in each round.
                await anyio.lowlevel.checkpoint_if_cancelled()
        if patience.cancelled_caught and is_full():
            self.give_up()

    async def room_in_turn(self) -> None:
        """Wait like `room`. Several senders continue in the order in which they came: a sender that fills the ring
        again in each round does not keep the others out."""
        async with self._order:
            await self.room()

    def attach(self, cursor: str | None) -> Reader:
        """Attach a reader. It begins after `cursor`, or with the first unread message if that is None.

        A reader with a cursor replaces the present one, whose connection may be dead. Raises Taken if there is a reader
        and no cursor, and Gone if the messages after the cursor are not held. A stream that was given up raises Gone at
        the first attempt and for every cursor. A later attempt without a cursor begins anew.
        """
        if self.is_given_up and (cursor is not None or not self._is_told):
            self._is_told = True
            raise Gone
        self.renew()
        if cursor is not None:
            self._rewind(self._number(cursor) + 1)
            if self.state is not None:
                # The draft wants the state after the missed messages and before new ones, even if it has not changed.
                self.put(self.state)
            if self.reader is not None:
                self.reader.send_away(at_once=True)
        elif self.reader is not None:
            raise Taken
        self.reader = Reader(self)
        return self.reader

    def detach(self, reader: Reader) -> None:
        """Detach a reader (see `Reader.leave`). If the ring is closed, it then drops its messages."""
        reader.is_over = True
        if self.reader is reader:
            self.reader = None
            if self.is_closed:
                self._clear()

    def peek(self) -> list[tuple[str, bytes]]:
        """Return the first unread messages for one write, each with its cursor. If there are unread messages, at least
        one is returned."""
        found: list[tuple[str, bytes]] = []
        size = 0
        for number, message in enumerate(islice(self._messages, self._next - self._first, None), self._next):
            size += len(message)
            if found and size > _TOGETHER:
                break
            found.append((f"{self._tag}-{number}", message))
        return found

    def advance(self, count: int) -> None:
        """Record that the first `count` unread messages were written. They are kept."""
        size = sum(len(message) + _SMALL for message in self._between(self._next, self._next + count))
        self._next += count
        self.unread -= size
        self.kept += size
        self._account.count(self, 0, -size)
        while self.kept > self._limits.kept:
            self._drop()
        self._room.set()

    def forget(self) -> None:
        """Drop the messages that are kept for a reader that resumes."""
        while self.kept:
            self._drop()

    def give_up(self) -> None:
        """Drop all messages, and also new messages until `renew`. End the reader."""
        self.is_given_up = True
        self._clear()
        if self.reader is not None:
            self.reader.send_away(at_once=True)
        self._room.set()

    def renew(self) -> None:
        """Accept messages again, because the client knows that it has missed some, and begins anew."""
        self.is_given_up = self._is_told = False

    def close(self, *, at_once: bool = False) -> None:
        """End the stream. Unless `at_once`, its reader still gets the messages that the ring holds."""
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
        size, unread, self.unread, self.kept = self.size, self.unread, 0, 0
        self._account.count(self, -size, -unread)

    def _drop(self) -> None:
        """Drop the oldest kept message."""
        size = len(self._messages.popleft()) + _SMALL
        self._first += 1
        self.kept -= size
        self._account.count(self, -size, 0)

    def _number(self, cursor: str) -> int:
        if not cursor:
            return 0  # Before the first message: the connection broke before its client had a cursor.
        tag, _, number = cursor.partition("-")
        if tag != self._tag or not (number.isascii() and number.isdigit() and len(number) < 20):
            raise Gone
        return int(number)

    def _rewind(self, number: int) -> None:
        """Make the message of this number the next one. Raises Gone."""
        if not self._first <= number <= self._first + len(self._messages):
            raise Gone
        if self._next < number:
            # The client's cursor proves that these messages arrived, although their write was not noted.
            self.advance(number - self._next)
        again = sum(len(message) + _SMALL for message in self._between(number, self._next))
        self._next = number
        self.unread += again
        self.kept -= again
        self._account.count(self, 0, again)

    def _between(self, first: int, last: int) -> Iterator[bytes]:
        return islice(self._messages, first - self._first, last - self._first)

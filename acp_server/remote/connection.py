"""`HttpConnection` is the connection of one client over HTTP. The client's POSTs are the input of the agent, and the
agent's messages go to event streams.

It is a `Stream` (`acp_server.peer.stream`) of the runtime. `acp_server.remote.kept` decides how long it lives.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from acp_server.remote.kept import Kept
from acp_server.remote.limits import RemoteLimits
from acp_server.remote.ring import Reader, Ring
from acp_server.remote.routing import (
    Posted,
    Router,
    Session,
    advertising,
    behind,
    is_cancel,
    is_cancelled_by,
    renews,
    session_in,
)
from acp_server.remote.shares import Account
from acp_server.wire.messages import Response

logger: logging.Logger = logging.getLogger("acp_server.remote")

_NUMBERS: Final = 1024
"""The most message numbers that are remembered; the oldest is forgotten first."""
_PORTION: Final = 1024 * 1024
"""The most bytes that an agent reads at once; a longer message is read alone."""


class TooManyStreams(Exception):
    """The client has as many streams as it may have, and none of them is idle."""


class Ended(Exception):
    """The connection accepts no further message."""


class HttpConnection(Kept):
    """The connection of one client. `took` gets the size of messages that the agent has read, or will never read."""

    def __init__(
        self,
        id: str,
        principal: str | None,
        limits: RemoteLimits,
        account: Account,
        took: Callable[[int], None],
    ) -> None:
        super().__init__(id, principal, limits)
        self._router = Router()
        self.greeting: bytes | None = None
        """The response to `initialize`."""
        self.greeted: anyio.Event = anyio.Event()
        """Set when the agent has answered `initialize`, or the connection is closed."""
        self._account = account
        self._took = took
        self._inbox: deque[bytes] = deque()
        self._waiting: list[_Waiter] = []
        self._size = 0
        """Bytes in the inbox."""
        self._numbers: dict[str, None] = {}
        self._arrived = anyio.Event()
        self._rings: dict[Session, Ring] = {None: Ring(limits, account)}

    # -- the client's side

    def is_new(self, number: str | None) -> bool:
        """Record the number of a message. Returns False if the number has arrived before, because the client repeats a
        POST whose response was lost."""
        if number is None:
            return True
        if number in self._numbers:
            return False
        self._numbers[number] = None
        if len(self._numbers) > _NUMBERS:
            del self._numbers[next(iter(self._numbers))]
        return True

    def forget(self, number: str | None) -> None:
        """Forget the number of a message that was not accepted, so that the client may repeat it."""
        if number is not None:
            self._numbers.pop(number, None)

    def accept(self, message: Posted, header: Session, line: bytes, *, is_numbered: bool) -> bool:
        """Record a message, so that its response finds its stream. Returns False for a retry (see `Router.incoming`).

        Raises Mismatch.
        """
        session = None if isinstance(message, Response) else session_in(message.params)
        last = None if session is None else self._last(session)
        return self._router.incoming(message, header, line, is_numbered=is_numbered, last=last)

    async def post(self, message: Posted, line: bytes) -> None:
        """Hand a message to the agent. Unless the message is a cancel, wait until the inbox has room. Raises Ended.

        A cancel first hands over the requests that it cancels and that still wait for room, so the agent gets both in
        order.
        """
        self._heard()
        if renews(message) and (session := session_in(message.params)) in self._rings:
            self._rings[session].renew()
        waiter = _Waiter(message, line)
        try:
            if is_cancel(message):
                for other in [*self._waiting]:
                    if is_cancelled_by(other.message, message):
                        self._admit(other)
            elif self._waiting or not self._has_room(len(line)):
                self._waiting.append(waiter)
                await waiter.done.wait()
            if not waiter.is_admitted:
                self._admit(waiter)
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            if not waiter.is_admitted:
                self._took(len(line))
                self._router.withdraw(message, line)

    def read(self, session: Session, cursor: str | None) -> Reader:
        """Attach a reader to the stream of a session, which need not be open yet.

        Raises TooManyStreams, and Taken or Gone like `Ring.attach`.
        """
        ring = self._ring(session)
        if ring is None:
            raise TooManyStreams
        reader = ring.attach(cursor)
        self._came()
        return reader

    def leave(self, reader: Reader) -> None:
        """Detach a reader."""
        reader.leave()
        self._left()

    def end(self) -> None:
        """End the client's input (see `Kept`). Messages that wait for room raise Ended."""
        super().end()
        self._arrived.set()
        for waiter in self._waiting:
            waiter.done.set()

    # -- the agent's side, see `acp_server.peer.stream.Stream`

    def inject(self, line: bytes) -> None:
        """See `acp_server.remote.holders.ClientStream`."""
        if not self.ended.is_set():
            self._took(-len(line))  # Counted here, because `receive` releases it like a message of the client.
            self._inbox.append(line)
            self._size += len(line)
            self._arrived.set()

    def drop(self, session: str) -> None:
        """See `acp_server.remote.holders.ClientStream`. A reader still gets the messages that its stream holds."""
        if (ring := self._rings.pop(session, None)) is not None:
            ring.close()

    async def receive(self) -> bytes:
        """Return the next messages, as lines."""
        while not self._inbox:
            if self.ended.is_set():
                return b""
            self._arrived = anyio.Event()
            await self._arrived.wait()
        lines = [self._inbox.popleft()]
        size = len(lines[0])
        while self._inbox and size + len(self._inbox[0]) <= _PORTION:
            lines.append(self._inbox.popleft())
            size += len(lines[-1])
        self._size -= size
        self._took(size)
        while self._waiting and not self.ended.is_set() and self._has_room(len(self._waiting[0].line)):
            self._admit(self._waiting[0])
        return b"".join(lines)

    async def send(self, data: bytes) -> None:
        """Put lines into their streams. This waits while the connection's own stream is full, or while the stream of a
        session has twice the messages of a full stream. Senders that can wait have waited in `room` before that, so
        other sessions are not held up.

        Raises anyio's BrokenResourceError once the connection's own stream is given up, because the client gets no
        responses without it. A session's stream that is given up can be opened anew.
        """
        touched: dict[Ring, None] = {}
        for line in data.split(b"\n"):
            if line:
                ring = self._put(line)
                if ring is not None:
                    touched[ring] = None
        for ring in touched:
            await (ring.room() if ring is self._rings[None] else ring.last_room())
            if ring.is_given_up and ring is self._rings[None]:
                raise anyio.BrokenResourceError

    def is_full(self, lane: str) -> bool:
        """See `acp_server.peer.stream.LanedStream`. Each session has a lane, which is the session's event stream."""
        return (ring := self._rings.get(lane)) is not None and ring.is_full()

    async def room(self, lane: str) -> None:
        """See `is_full`."""
        if (ring := self._rings.get(lane)) is not None:
            await ring.room_in_turn()

    async def aclose(self) -> None:
        """Close all streams, and drop the input that the agent has not read."""
        self.end()
        self.greeted.set()
        for ring in self._rings.values():
            ring.close()
        self._took(self._size)
        self._inbox.clear()
        self._size = 0

    # -- inside

    def _put(self, line: bytes) -> Ring | None:
        outgoing = self._router.outgoing(line)
        if outgoing.method == "initialize" and self.greeting is None:
            self.greeting = advertising(outgoing.line, self._limits)
            self.greeted.set()
            return None
        ring = self._ring(outgoing.session)
        if ring is None:
            # The client cannot read this stream: `read` refuses it with TooManyStreams.
            logger.warning(
                "a client has more sessions than RemoteLimits.streams allows; a message of a further session was "
                "dropped"
            )
            return None
        line = outgoing.line
        if outgoing.renews is not None and (last := self._last(outgoing.renews)) not in (None, outgoing.last):
            # Only a message that was put after the request arrived: the client's reader may have begun after an earlier
            # one, and would wait for it without end.
            line = behind(line, last)
        ring.put(line)
        if outgoing.is_state:
            ring.state = outgoing.line
        return ring

    def _last(self, session: str) -> str | None:
        """Return the cursor of the last message on a session's stream, or None."""
        ring = self._rings.get(session)
        return None if ring is None else ring.last

    def _ring(self, session: Session) -> Ring | None:
        if (ring := self._rings.get(session)) is not None:
            return ring
        if len(self._rings) >= self._limits.streams and not self._drop_idle():
            return None
        ring = self._rings[session] = Ring(self._limits, self._account)
        if self.ended.is_set():
            ring.close()
        return ring

    def _drop_idle(self) -> bool:
        """Drop the oldest idle stream of a session (see `Ring.is_idle`). Returns False if there is none."""
        for session, ring in self._rings.items():
            if session is not None and ring.is_idle:
                ring.close(at_once=True)
                del self._rings[session]
                return True
        return False

    def _has_room(self, size: int) -> bool:
        return not self._inbox or self._size + size <= self._limits.waiting

    def _admit(self, waiter: _Waiter) -> None:
        if self.ended.is_set():
            raise Ended
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        waiter.is_admitted = True
        waiter.done.set()
        self._inbox.append(waiter.line)
        self._size += len(waiter.line)
        self._arrived.set()


class _Waiter:
    """A message that waits for room."""

    __slots__ = ("done", "is_admitted", "line", "message")

    def __init__(self, message: Posted, line: bytes) -> None:
        self.message = message
        self.line = line
        self.is_admitted = False
        self.done = anyio.Event()

"""`Holders` knows the one connection in which a session is open.

A client that opens its session on a new connection takes the session over. The old connection first closes the session,
as if its own client had sent `session/close`. Turns end as cancelled, are stored, and are answered. Then the old
connection drops the session.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import anyio

from acp_server.peer.shares import Share
from acp_server.peer.stream import LanedStream
from acp_server.remote.routing import is_cancel, is_cancelled_by, session_in
from acp_server.wire import codec
from acp_server.wire.messages import Message, Request, Response, classify

_PATIENCE: Final = 10.0
"""Seconds that the old connection has to close a session."""
_AHEAD: Final = 1024 * 1024
"""The most bytes that are read while a session is taken over, to find cancels."""
_OURS: Final = "acp_server/taken-over-"
"""The prefix of the ids of this module's requests to an agent."""
_OPENING: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_TAKING: Final = frozenset({"session/load", "session/resume"})

_Key: TypeAlias = "tuple[str | None, str]"
"""A principal and a session."""


class ClientStream(LanedStream, Protocol):
    """The stream of a connection to a client."""

    def inject(self, line: bytes) -> None:
        """Let the agent receive a line that the client has not sent. This has no effect once the client's input has
        ended."""
        ...

    def drop(self, session: str) -> None:
        """Drop a session that another connection takes over. Over HTTP this drops its stream, over WebSocket its last
        state."""
        ...


class Holders:
    """The connection of each open session."""

    def __init__(self) -> None:
        self._of: dict[_Key, HeldStream] = {}

    def find(self, key: _Key) -> HeldStream | None:
        """Return the connection in which a session is open, or None."""
        return self._of.get(key)

    def set(self, key: _Key, holder: HeldStream) -> None:
        """Record that a connection has opened a session."""
        self._of[key] = holder

    def release(self, key: _Key, holder: HeldStream) -> None:
        """Let a connection give a session up."""
        holder.give_up(key[1])
        if self._of.get(key) is holder:
            del self._of[key]

    def forget(self, holder: HeldStream) -> None:
        """Forget the sessions of a connection that has ended."""
        self._of = {key: each for key, each in self._of.items() if each is not holder}


class _Taking(NamedTuple):
    """A session that is being taken over."""

    holder: HeldStream
    """The old connection."""
    session: str
    closed: anyio.Event
    """Set when the old connection has closed the session."""
    deadline: float
    """The time, by the event loop's clock, at which the session is taken over in any case."""


class HeldStream:
    """The agent's view of a client's stream. It takes sessions over from other connections, and gives them up."""

    _ids: Final = itertools.count()

    def __init__(self, stream: ClientStream, holders: Holders, principal: str | None, share: Share) -> None:
        self._stream = stream
        self._holders = holders
        self._principal = principal
        self.share: Share = share
        """See `acp_server.peer.stream.SharingStream`."""
        self._rest: list[bytes] = []
        """Received lines that the agent has not got yet, because they wait until a session is taken over."""
        self._taking: _Taking | None = None
        """The session for which the first of these lines waits."""
        self._opening: dict[Any, str | None] = {}
        """The sessions of in-flight requests that open one, by the requests' ids; None if the request names no
        session."""
        self._closing: dict[str, anyio.Event] = {}
        """The `session/close` requests of this module, by their ids. The event is set by the response or by
        `aclose`."""
        self._closed = anyio.Event()

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        while (taking := self._taking) is not None:
            if cancels := await self._cancels(taking):
                return cancels
        if not self._rest:
            data = await self._stream.receive()
            if b"session/" not in data:
                return data
            self._rest = data.splitlines(keepends=True)
        return self._pass() or await self.receive()

    def _pass(self) -> bytes:
        """Return the lines that the agent may have, up to the first line for which a session must be taken over. If no
        line comes before that line, begin to take the session over."""
        passed: list[bytes] = []
        while self._rest:
            taken = self._look_at(self._rest[0])
            if taken is not None:
                if not passed:
                    holder, session = taken
                    deadline = anyio.current_time() + _PATIENCE
                    self._taking = _Taking(holder, session, holder.begin_to_give_up(session), deadline)
                break
            passed.append(self._rest.pop(0))
        return b"".join(passed)

    async def _cancels(self, taking: _Taking) -> bytes:
        """Wait until the session is taken over. Returns earlier if a cancel arrives whose request does not wait,
        because a cancel takes effect at once."""
        data = b""
        with anyio.CancelScope(deadline=taking.deadline) as patience:
            async with anyio.create_task_group() as group:

                async def wait() -> None:
                    await taking.closed.wait()
                    group.cancel_scope.cancel()

                group.start_soon(wait)
                if sum(map(len, self._rest)) < _AHEAD and (data := await self._stream.receive()):
                    group.cancel_scope.cancel()
        if taking.closed.is_set() or patience.cancelled_caught:
            self._holders.release((self._principal, taking.session), taking.holder)
            self._taking = None
        cancels: list[bytes] = []
        for line in data.splitlines(keepends=True):
            (cancels if self._overtakes(line) else self._rest).append(line)
        return b"".join(cancels)

    def _overtakes(self, line: bytes) -> bool:
        """Whether the line is a cancel, but of no request that waits."""
        cancel = _message(line)
        return is_cancel(cancel) and not any(is_cancelled_by(_message(each), cancel) for each in self._rest)

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        if self._opening or self._closing:
            data = b"".join(line for line in data.splitlines(keepends=True) if not self._is_ours(line))
        if data:
            await self._stream.send(data)

    def is_full(self, lane: str) -> bool:
        """See `acp_server.peer.stream.LanedStream`."""
        return self._stream.is_full(lane)

    async def room(self, lane: str) -> None:
        """See `acp_server.peer.stream.LanedStream`."""
        await self._stream.room(lane)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._holders.forget(self)
        self._closed.set()
        for event in self._closing.values():
            event.set()
        await self._stream.aclose()

    def begin_to_give_up(self, session: str) -> anyio.Event:
        """Close a session that another connection opens. The event is set when the agent has closed it."""
        id = f"{_OURS}{next(self._ids)}"
        self._closing[id] = answered = anyio.Event()
        params = {"sessionId": session}
        self._stream.inject(codec.encode({"jsonrpc": "2.0", "id": id, "method": "session/close", "params": params}))
        return answered

    def give_up(self, session: str) -> None:
        """Drop a session that another connection opens."""
        self._stream.drop(session)

    def _look_at(self, line: bytes) -> tuple[HeldStream, str] | None:
        """Record a request that opens a session. Returns the connection that must give the session up, and the id of
        the session."""
        if b"session/" not in line:
            return None
        message = _message(line)
        if not isinstance(message, Request) or message.method not in _OPENING:
            return None
        named = session_in(message.params) if message.method in _TAKING else None
        self._opening[type(message.id), message.id] = named
        holder = None if named is None else self._holders.find((self._principal, named))
        return None if named is None or holder is None or holder is self else (holder, named)

    def _is_ours(self, line: bytes) -> bool:
        """Record a response of the agent. Returns whether it answers a `session/close` of this module."""
        message = classify(codec.decode(line))
        if not isinstance(message, Response):
            return False
        if (event := self._closing.pop(str(message.id), None)) is not None:
            event.set()
            return True
        key: Any = (type(message.id), message.id)
        if key in self._opening:
            session = self._opening.pop(key) or session_in(message.result)
            if session is not None and message.error is None:
                self._holders.set((self._principal, session), self)
        return False


def _message(line: bytes) -> Message | None:
    """Return the message of a line; None if it is not JSON."""
    try:
        return classify(codec.decode(line))
    except codec.DecodeError:
        return None

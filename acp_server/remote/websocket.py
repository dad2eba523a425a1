"""Serves one client over WebSocket. Each text frame is one message, in both directions.

A connection outlives its WebSocket, and messages that the client did not get are kept for a while. A client that
resumes gets the messages after its cursor on another WebSocket (`acp_server.remote.cursors`).
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

import anyio

from acp_server.http.asgi import ABORT, MORE, Message, Receive, Send
from acp_server.remote.connections import Connections, Full, new_id
from acp_server.remote.cursors import read_resume, resume_failed, resumed, with_cursor
from acp_server.remote.guard import AGAIN, Guard, Refused, Scope, header
from acp_server.remote.kept import Kept
from acp_server.remote.limits import RemoteLimits
from acp_server.remote.ring import Gone, Reader, Ring
from acp_server.remote.routing import advertising, is_greeting, is_state, session_in
from acp_server.remote.shares import Account
from acp_server.tasks.grace import grace
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.remote")

SUBPROTOCOL: Final = "acp"
"""The subprotocol that a client may offer, beside a token."""

_NORMAL: Final = 1000
_NO_CODE: Final = 1005
_ABNORMAL: Final = 1006
_REFUSED: Final = 1008
_TRY_AGAIN: Final = 1013
_NO_GOODBYES: Final = frozenset({_ABNORMAL, _TRY_AGAIN})
"""Close codes after which the client may resume."""
_ENDING: Final = 10.0
"""Seconds that an agent may take to end when the ASGI server cancels its WebSocket."""


async def serve_websocket(guard: Guard, connections: Connections, scope: Scope, receive: Receive, send: Send) -> None:
    """Admit a WebSocket and serve it until it has ended. Its connection may outlive it."""
    try:
        principal = await guard.admit(scope)
        named = header(scope, b"acp-connection-id")
        if named is None or connections.find(named, principal) is None:
            await connections.make_room(principal)
    except Full:
        await _refuse(scope, send, Refused(503, "Too many connections", AGAIN))
        return
    except Refused as refused:
        await _refuse(scope, send, refused)
        return
    id = new_id()
    headers = [(b"acp-connection-id", id.encode()), (b"acp-repeatable", b"true")]
    accept: dict[str, Any] = {"type": "websocket.accept", "headers": headers}
    if SUBPROTOCOL in scope.get("subprotocols", ()):
        accept["subprotocol"] = SUBPROTOCOL
    socket = Socket(receive, send, connections.limits.stall, scope.get("state", {}).get(ABORT))
    found: bytes | _Place | None = None
    try:
        with connections.arriving(principal) as arrival:
            await send(accept)
            with arrival.scope:
                found = await _first(socket, connections, principal)
            if arrival.scope.cancelled_caught:
                await socket.aclose(_TRY_AGAIN)
    except (OSError, anyio.BrokenResourceError) as error:
        logger.info("a client left before its first message: %s", type(error).__name__)
        return
    if isinstance(found, bytes):
        account = connections.holdings.account(principal)
        connection = WebSocketConnection(id, principal, connections.limits, account, found)
        found = await _begin(socket, connections, connection)
    if found is not None:
        await _follow(socket, found)


async def _refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Refuse a WebSocket that is not accepted, by an HTTP response if the ASGI server supports that, and otherwise by
    HTTP 403."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        body, kind = refused.body
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *refused.headers]
        await send({"type": "websocket.http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
    else:
        await send({"type": "websocket.close", "code": _REFUSED})


class _Place(NamedTuple):
    """The connection and the reader that a WebSocket serves."""

    connection: WebSocketConnection
    reader: Reader
    greeting: bytes | None = None
    """The first message to a client that resumes, `stream/resumed`."""


async def _first(socket: Socket, connections: Connections, principal: str | None) -> bytes | _Place | None:
    """Return the first message of a new connection, or the `_Place` of a client that resumes; None if the WebSocket has
    ended.

    A client whose resume failed may begin a new connection on the same WebSocket.
    """
    with anyio.move_on_after(connections.limits.receive) as patience:
        while line := await socket.receive():
            wanted = read_resume(line)
            if wanted is None:
                return line
            connection = connections.find(wanted.connection, principal)
            try:
                if isinstance(connection, WebSocketConnection):
                    return connection.resume(socket, wanted.cursor)
                await socket.tell([resume_failed("unknown connection")])
            except Gone:
                await socket.tell([resume_failed("messages are lost")])
    if patience.cancelled_caught:
        await socket.aclose(_REFUSED)
    return None


async def _begin(socket: Socket, connections: Connections, connection: WebSocketConnection) -> _Place | None:
    """Open a new connection. If there is no room for it, close the WebSocket and return None."""
    try:
        # A WebSocket that was to resume a connection has taken no place.
        await connections.make_room(connection.principal)
        place = _Place(connection, connection.attach(socket, None))
        connections.open(connection)
    except Full:
        await socket.aclose(_TRY_AGAIN)
        return None
    return place


async def _follow(socket: Socket, place: _Place) -> None:
    """Write the agent's messages to the client until the connection or the WebSocket has ended."""
    connection = place.connection
    try:
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await socket.over.wait()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await _write(socket, place)
            group.cancel_scope.cancel()
        connection.detach(socket, place.reader)
        if connection.ended.is_set():
            await connection.closed.wait()
    except BaseException:
        # The ASGI server has cancelled this task, as it does when it shuts down: the connection ends, too.
        connection.scope.cancel()
        with grace(_ENDING):
            await connection.closed.wait()
            await socket.aclose(_NORMAL)
        connection.detach(socket, place.reader)
        raise
    if place.reader.cut.cancelled_caught:
        # The cancelled write may have sent a part of a frame, so no other frame can follow.
        socket.abort()
    await socket.aclose(_NORMAL if connection.ended.is_set() else _TRY_AGAIN)


async def _write(socket: Socket, place: _Place) -> None:
    reader = place.reader
    with reader.cut:
        try:
            if place.greeting is not None:
                await socket.tell([place.greeting])
            while found := await reader.next():
                await socket.tell([line for _, line in found])
                reader.took(len(found))
        except anyio.BrokenResourceError:
            pass  # The WebSocket has ended; `_follow` detaches it.


class Socket:
    """One WebSocket. Each text frame is a line. `stall`: seconds that one write may take. `abort`: closes the network
    connection at once, if the server has a function for that."""

    def __init__(self, receive: Receive, send: Send, stall: float, abort: Any = None) -> None:
        self._receive = receive
        self._send = send
        self._stall = stall
        self._abort = abort
        self.over: anyio.Event = anyio.Event()
        """Set when either side has ended the WebSocket."""
        self.is_goodbye: bool = False
        """Whether the client closed the WebSocket with a code after which it does not resume."""

    async def receive(self) -> bytes:
        """Return the next message, as a line; `b""` at the end."""
        text: str | None = None
        while not text:
            if self.over.is_set():
                return b""
            message: Message = await self._receive()
            if message["type"] != "websocket.receive":
                code = message.get("code", _ABNORMAL)
                # ASGI servers report a broken connection as 1006, or as 1005 without a reason. A client that closes
                # without a code gives 1005 with one.
                self.is_goodbye = code not in _NO_GOODBYES and (code != _NO_CODE or "reason" in message)
                self.over.set()
                return b""
            text = message.get("text")  # Binary frames are ignored.
        # A frame is one message, even if its JSON has line breaks between values.
        return text.encode(errors="replace").replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"

    async def tell(self, lines: list[bytes]) -> None:
        """Send a frame for each line, in as few writes as the server allows. Raises anyio's BrokenResourceError if the
        client has left, or the write stalls."""
        texts = [line.decode(errors="replace") for line in lines]
        last = len(texts) - 1
        await self._tell([{"type": "websocket.send", "text": text, MORE: at < last} for at, text in enumerate(texts)])

    async def aclose(self, code: int) -> None:
        """Close the WebSocket with `code`, unless the client has left."""
        try:
            await self._tell([{"type": "websocket.close", "code": code}])
        except anyio.BrokenResourceError:
            pass  # The client has left.
        self.over.set()

    def abort(self) -> None:
        """Close the network connection without a close frame, if the server can."""
        if self._abort is not None:
            self._abort()
            self.over.set()

    async def _tell(self, messages: list[dict[str, Any]]) -> None:
        if self.over.is_set():
            raise anyio.BrokenResourceError
        try:
            with anyio.move_on_after(self._stall) as patience:
                for message in messages:
                    await self._send(message)
        except (OSError, RuntimeError) as error:
            # The server learns first that a client has left. Some servers raise OSError then, others RuntimeError.
            self.over.set()
            raise anyio.BrokenResourceError from error
        if patience.cancelled_caught:
            self.abort()
            self.over.set()
            raise anyio.BrokenResourceError("the client stopped reading")


class WebSocketConnection(Kept):
    """The connection of one client. One WebSocket after the other may carry it. `first`: the client's first message."""

    def __init__(self, id: str, principal: str | None, limits: RemoteLimits, account: Account, first: bytes) -> None:
        super().__init__(id, principal, limits)
        self._ring = Ring(limits, account)
        self._socket: Socket | None = None
        self._received = 1
        """The number of messages that the client has sent and that have arrived."""
        self._waiting: list[bytes] = [first]
        """Lines that the agent receives before the next frame: `first`, and injected lines."""
        self._reading: anyio.CancelScope | None = None
        self._is_greeted = False
        self._states: dict[str | None, bytes] = {}
        """The last `state_update` of each session."""

    # -- the client's side

    def attach(self, socket: Socket, cursor: str | None) -> Reader:
        """Attach a WebSocket, which replaces the previous one. Raises Gone."""
        reader = self._ring.attach(cursor)
        self._socket = socket
        self._came()
        self._stir()
        return reader

    def resume(self, socket: Socket, cursor: str) -> _Place:
        """Attach the WebSocket of a client that resumes. Raises Gone.

        The client gets the number of its messages that have arrived, then the messages that it has missed.
        """
        reader = self.attach(socket, cursor)
        for state in self._states.values():
            # The draft wants the state after the missed messages and before new ones, even if it has not changed.
            self._put(state)
        return _Place(self, reader, resumed(self.id, self._received))

    def detach(self, socket: Socket, reader: Reader) -> None:
        """Detach a WebSocket that has ended. If the client closed it for good, the connection ends, too."""
        reader.leave()
        self._left()
        if self._socket is socket:
            self._socket = None
            if socket.is_goodbye:
                self.end()
        self._stir()

    def end(self) -> None:
        """See `Kept`."""
        super().end()
        self._stir()

    def _stir(self) -> None:
        """Cancel the wait in `receive`, so that `receive` checks again for something to return."""
        if self._reading is not None:
            self._reading.cancel()

    # -- the agent's side, see `acp_server.peer.stream.Stream`

    def inject(self, line: bytes) -> None:
        """See `acp_server.remote.holders.ClientStream`."""
        if not self.ended.is_set():
            self._waiting.append(line)
            self._stir()

    def drop(self, session: str) -> None:
        """See `acp_server.remote.holders.ClientStream`. The ring stays, because all sessions share it."""
        self._states.pop(session, None)

    async def receive(self) -> bytes:
        """Return the next message, as a line."""
        while True:
            if self._waiting:
                return self._waiting.pop(0)
            if self.ended.is_set():
                return b""
            socket, line = self._socket, b""
            with anyio.CancelScope() as self._reading:
                if socket is None or socket.over.is_set():
                    await anyio.sleep_forever()
                else:
                    line = await socket.receive()
            # The frame of a replaced WebSocket is dropped, because the client sends it again on the new one.
            if line and socket is self._socket:
                self._received += 1
                self._heard()
                return line

    async def send(self, data: bytes) -> None:
        """Put lines into the ring. Wait while the ring is full. Raises anyio's BrokenResourceError if the ring is given
        up."""
        for line in data.split(b"\n"):
            if line:
                self._put(line)
        await self._ring.room()
        if self._ring.is_given_up:
            raise anyio.BrokenResourceError

    def is_full(self, lane: str) -> bool:
        """Return False, because all sessions share one stream, and `send` waits for it. See
        `acp_server.peer.stream.LanedStream`."""
        return False

    async def room(self, lane: str) -> None:
        """See `is_full`."""

    async def aclose(self) -> None:
        """End the client's input and close the ring."""
        self.end()
        self._ring.close()

    def _put(self, line: bytes) -> None:
        try:
            message: Any = codec.decode(line)
        except codec.DecodeError:
            self._ring.put(line)
            return
        if not self._is_greeted and is_greeting(message):
            self._is_greeted = True
            line = advertising(line, self._limits)
            message = codec.decode(line)
        if is_state(line, message):
            self._states[session_in(message["params"])] = line
            if len(self._states) > self._limits.streams:
                del self._states[next(iter(self._states))]
        self._ring.put(with_cursor(line, message, self._ring.cursor))

"""`RemoteApp` is an ASGI application that serves an agent over HTTP and WebSocket.

It follows two drafts of the protocol: "Streamable HTTP & WebSocket Transport" and, for connections that break, "Durable
& Resumable HTTP/WS Transport". `docs/remote.md` describes its response to each request.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Final

import anyio

from acp_server.agent.serve import Servable
from acp_server.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from acp_server.http.asgi import Headers, Receive, Send, while_connected
from acp_server.peer.limits import Limits
from acp_server.remote.connection import Ended, HttpConnection, TooManyStreams
from acp_server.remote.connections import AgentOf, Connections, new_id
from acp_server.remote.guard import AGAIN, Authenticate, Guard, Refused, Scope, header
from acp_server.remote.labels import as_line
from acp_server.remote.limits import RemoteLimits
from acp_server.remote.owners import Owners
from acp_server.remote.ring import Gone, Reader, Taken
from acp_server.remote.routing import Mismatch, Posted
from acp_server.remote.shares import Bytes, Full, Place
from acp_server.remote.websocket import serve_websocket
from acp_server.wire import codec
from acp_server.wire.messages import Ignored, Invalid, Request, classify

logger: logging.Logger = logging.getLogger("acp_server.remote")

CONNECTION_ID: Final = b"acp-connection-id"
SESSION_ID: Final = b"acp-session-id"

_JSON: Final = (b"content-type", b"application/json")
_EVENTS: Final[Headers] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_SILENCE: Final = b":\n\n"
_SLOW: Final = 64 * 1024
"""A rate in bytes per second. A body that arrives at this rate or faster is not timed out."""
_LONGEST_ID: Final = 1024
"""The most characters of a session's id in a header."""
_LONGEST_NUMBER: Final = 64
"""The most characters of a message's number, because each connection remembers many numbers."""


class RemoteApp:
    """An ASGI application that serves `agent` at every path; mount it at the path of your choice.

    `agent`: the agent of all clients, or a function that returns the agent of a principal. If several principals share
    one agent, each sees only the sessions that it has created since the application started. `limits`: the bounds of
    each connection. `remote`: the bounds and timeouts of the transport. `origins`: the origins of the web pages that
    are allowed (`https://app.example.org`), or `"*"` for all. By default no page is, because any page that a user
    visits can send requests to a server on the user's machine. `hosts`: the allowed names in the Host header, without a
    port, or `"*"`. By default the names of the loopback interface without `authenticate`, and all names with it.
    `authenticate`: gets the scope of each request and returns its principal, or None to refuse it.
    """

    def __init__(
        self,
        agent: Servable | AgentOf,
        *,
        limits: Limits | None = None,
        remote: RemoteLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] | None = None,
        authenticate: Authenticate | None = None,
    ) -> None:
        self._agent_of = _always(agent) if isinstance(agent, Servable) else agent
        is_shared = isinstance(agent, Servable) and authenticate is not None
        names: Collection[str] | None = getattr(authenticate, "names", None)
        self._owners = Owners() if is_shared and (names is None or len(names) > 1) else None
        self._limits = limits
        self._remote = remote or RemoteLimits()
        self._guard = Guard(origins, hosts, authenticate)
        self._connections: Connections | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one lifespan, request or WebSocket (see the ASGI specification)."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket" and (await receive())["type"] == "websocket.connect":
            await serve_websocket(self._guard, self._open(), scope, receive, send)

    async def aclose(self) -> None:
        """End all connections and wait for their agents, within their limits. This is called at the end of the
        lifespan."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()

    def _open(self) -> Connections:
        if self._connections is None:
            self._connections = Connections(self._agent_of, self._remote, self._limits, self._owners)
        return self._connections

    async def _live(self, receive: Receive, send: Send) -> None:
        while (kind := (await receive())["type"]) != "lifespan.shutdown":
            await send({"type": f"{kind}.complete"})
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        try:
            answer.headers = self._guard.headers_for(scope)
            if scope["method"] == "OPTIONS" and answer.headers:
                answer.headers += self._guard.preflight()
                await answer.give(204)
                return
            principal = await self._guard.admit(scope)
            await self._exchange(principal, scope, receive, answer)
        except Refused as refused:
            body, kind = refused.body
            await answer.give(refused.status, body, [(b"content-type", kind), *refused.headers])

    async def _exchange(self, principal: str | None, scope: Scope, receive: Receive, answer: _Answer) -> None:
        connections = self._open()
        id = header(scope, CONNECTION_ID)
        known = id if id is not None and connections.find(id, principal) is not None else None
        place = Place(principal, known, lasts=scope["method"] == "GET")
        try:
            with connections.requests.take(place):
                await _Exchange(connections, principal, scope, receive, answer).run()
        except Full:
            raise Refused(503, "Too many requests", AGAIN) from None
        if place.scope.cancelled_caught and not answer.has_begun:
            raise Refused(503, "Too many requests", AGAIN)


class _Answer:
    def __init__(self, send: Send) -> None:
        self.send = send
        self.headers: Headers = []
        """The headers of each response, for CORS."""
        self.has_begun = False

    async def give(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        headers = [*self.headers, *(headers or []), *length]
        self.has_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


class _Exchange:
    """One HTTP request of a client that was admitted."""

    def __init__(
        self, connections: Connections, principal: str | None, scope: Scope, receive: Receive, answer: _Answer
    ) -> None:
        self._connections = connections
        self._limits = connections.limits
        self._principal = principal
        self._scope = scope
        self._receive = receive
        self._answer = answer

    async def run(self) -> None:
        method = self._scope["method"]
        if method == "POST":
            await self._post()
        elif method == "GET":
            await self._get()
        elif method == "DELETE":
            self._connections.end(self._connection())
            await self._answer.give(202)
        else:
            raise Refused(405, "Method not allowed", ((b"allow", b"GET, POST, DELETE"),))

    # -- POST

    async def _post(self) -> None:
        kind = (header(self._scope, b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, "Expected application/json")
        id = header(self._scope, CONNECTION_ID)
        connection = None if id is None else self._connection()
        with _Reserved(self._connections.bodies, self._principal) as reserved:
            line = await self._body(reserved)
            message = _message(line)
            is_initialize = isinstance(message, Request) and message.method == "initialize"
            if connection is None:
                if not is_initialize:
                    raise Refused(400, "Missing Acp-Connection-Id")
                await self._initialize(message, line, reserved)
                return
            if is_initialize:
                raise Refused(400, "The connection is already initialized")
            await self._hand_over(connection, message, line, reserved)
        await self._answer.give(202)

    async def _initialize(self, message: Posted, line: bytes, reserved: _Reserved) -> None:
        connections = self._connections
        account = connections.holdings.account(self._principal)
        took = partial(connections.bodies.release, self._principal)
        connection = HttpConnection(new_id(), self._principal, self._limits, account, took)
        try:
            await connections.make_room(self._principal)
            connections.open(connection)
        except Full:
            raise Refused(503, "Too many connections", AGAIN) from None
        is_given = False
        try:
            await self._hand_over(connection, message, line, reserved)
            with anyio.move_on_after(self._limits.initialize):
                await while_connected(self._receive, connection.greeted.wait)
            if connection.greeting is None:
                raise Refused(504 if not connection.ended.is_set() else 500, "The agent does not answer")
            headers = [_JSON, (CONNECTION_ID, connection.id.encode()), (b"acp-repeatable", b"true")]
            await self._answer.give(200, connection.greeting, headers)
            is_given = True
        finally:
            if not is_given:
                self._connections.end(connection)

    async def _hand_over(self, connection: HttpConnection, message: Posted, line: bytes, reserved: _Reserved) -> None:
        number = header(self._scope, b"acp-message-id")
        if number is not None and len(number) > _LONGEST_NUMBER:
            raise Refused(400, "Bad Acp-Message-Id")
        if not connection.is_new(number):
            return
        is_handed_over = False
        try:
            is_new = connection.accept(message, self._session(), line, is_numbered=number is not None)
            if is_new:
                await connection.post(message, reserved.hand_over(line))
            is_handed_over = True
        except Mismatch as error:
            id = message.id if isinstance(message, Request) else None
            raise Refused(400, str(error), error=None if id is None else (id, INVALID_PARAMS)) from None
        except Ended:
            raise Refused(404, "Unknown Acp-Connection-Id") from None
        finally:
            if not is_handed_over:
                connection.forget(number)

    async def _body(self, reserved: _Reserved) -> bytes:
        """Return the body as one line."""
        length = header(self._scope, b"content-length") or "0"
        if not _is_at_most(length, self._limits.body):
            raise Refused(413, "The message is too long")
        pieces: list[bytes] = []
        with anyio.move_on_after(self._limits.receive) as patience:
            while True:
                message = await self._receive()
                if message["type"] != "http.request":
                    raise Refused(400, "The message is not whole")
                piece: bytes = message.get("body", b"")
                reserved.add(len(piece))
                pieces.append(piece)
                patience.deadline += len(piece) / _SLOW
                if reserved.size > self._limits.body:
                    raise Refused(413, "The message is too long")
                if not message.get("more_body", False):
                    break
        if patience.cancelled_caught:
            raise Refused(408, "The message takes too long", ((b"connection", b"close"),))
        reserved.add(1)
        return as_line(b"".join(pieces)) + b"\n"

    # -- GET

    async def _get(self) -> None:
        if "text/event-stream" not in (header(self._scope, b"accept") or "").lower():
            raise Refused(406, "Expected Accept: text/event-stream")
        connection = self._connection()
        try:
            reader = connection.read(self._session(), header(self._scope, b"last-event-id"))
        except Taken:
            raise Refused(409, "The stream has a reader", AGAIN) from None
        except Gone:
            raise Refused(409, "Messages of the stream are lost: open the session anew") from None
        except TooManyStreams:
            raise Refused(429, "Too many streams") from None
        try:
            await while_connected(self._receive, lambda: self._write(reader))
        finally:
            connection.leave(reader)

    async def _write(self, reader: Reader) -> None:
        send = self._answer.send
        with reader.cut:
            headers = [*_EVENTS, *self._answer.headers]
            self._answer.has_begun = True
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # Some ASGI servers hold the head back until the first piece of the body.
            await send({"type": "http.response.body", "body": _SILENCE, "more_body": True})
            while (found := await self._next(reader)) is None or found:
                data = _SILENCE if found is None else b"".join(map(_event, found))
                await send({"type": "http.response.body", "body": data, "more_body": True})
                reader.took(len(found or ()))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, reader: Reader) -> list[tuple[str, bytes]] | None:
        """Return the next messages. The list is empty at the end of the stream. After `keep_alive` seconds of silence,
        return None."""
        with anyio.move_on_after(self._limits.keep_alive):
            return await reader.next()
        return None

    # -- headers

    def _connection(self) -> HttpConnection:
        id = header(self._scope, CONNECTION_ID)
        if id is None:
            raise Refused(400, "Missing Acp-Connection-Id")
        connection = self._connections.find(id, self._principal)
        if not isinstance(connection, HttpConnection):
            raise Refused(404, "Unknown Acp-Connection-Id")
        return connection

    def _session(self) -> str | None:
        session = header(self._scope, SESSION_ID)
        if session is not None and not 0 < len(session) <= _LONGEST_ID:
            raise Refused(400, "Bad Acp-Session-Id")
        return session


class _Reserved:
    """Counts the bytes of a body while it arrives. `HttpConnection` releases the bytes that are handed over."""

    def __init__(self, bodies: Bytes, principal: str | None) -> None:
        self._bodies = bodies
        self._principal = principal
        self.size = 0

    def add(self, size: int) -> None:
        try:
            self._bodies.reserve(self._principal, size)
        except Full:
            raise Refused(503, "Too many messages wait", AGAIN) from None
        self.size += size

    def hand_over(self, line: bytes) -> bytes:
        self.size -= len(line)
        return line

    def __enter__(self) -> _Reserved:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bodies.release(self._principal, self.size)


def _is_at_most(length: str, most: int) -> bool:
    # `int` raises ValueError for thousands of digits.
    return length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= most


def _message(line: bytes) -> Posted:
    """Return the message in a body. Raises Refused."""
    try:
        value = codec.decode(line)
    except codec.DecodeError:
        raise Refused(400, "The message is not JSON", error=(None, PARSE_ERROR)) from None
    if isinstance(value, list):
        raise Refused(501, "Batches are not supported", error=(None, INVALID_REQUEST))
    message = classify(value)
    if isinstance(message, Invalid):
        raise Refused(400, message.message, error=(message.id, message.code))
    if isinstance(message, Ignored):
        raise Refused(400, "Not a message of JSON-RPC")
    if isinstance(message, Request) and message.id is None:
        raise Refused(400, "A request needs an id", error=(None, INVALID_REQUEST))
    return message


def _event(message: tuple[str, bytes]) -> bytes:
    cursor, line = message
    return b"id: %s\ndata: %s\n\n" % (cursor.encode(), line)


def _always(agent: Servable) -> AgentOf:
    return lambda _principal: agent

"""One connection to a client. Its requests come one after the other, and the application answers each.

A request whose head does not arrive in time, or that is not HTTP, never reaches the application. A partial head is not
a request.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import anyio
import h11

from acp_server.http.asgi import ABORT, CALLER, Application, Headers, Message
from acp_server.http.sockets import Disconnected, Duplex, SocketStream
from acp_server.http.strict import CLOSE, StrictParser

if TYPE_CHECKING:
    import ssl

    from acp_server.http.tls import TlsStream
    from acp_server.http.websocket import WebSocketExchange, WebSocketLimits

logger: logging.Logger = logging.getLogger("acp_server.http")

_LAST_SECONDS: Final = 1.0
"""Seconds that a client may take to read the last response before the connection is closed."""
_READ_AHEAD: Final = 16 * 1024
"""The most bytes of further requests that are read during a request. They are read in order to notice that the client
has disconnected."""
_REST: Final = 64 * 1024
"""The most bytes of an unread body that are discarded, so that the connection can be reused."""
_PLAIN: Final[Headers] = [(b"content-type", b"text/plain; charset=utf-8")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long a client may be silent, in seconds."""

    idle_seconds: float = 75.0
    """Seconds until the head of the next request has arrived. Clients keep idle connections for a shorter time, so no
    connection is closed at the moment of its reuse."""
    send_seconds: float = 60.0
    """Seconds for which a client may read nothing of a response."""


def not_http() -> tuple[Headers, bytes]:
    """Return headers and body of the response, with status 400, to a request that is not HTTP."""
    return _PLAIN, b"The request is not valid HTTP.\n"


class HttpConnection:
    """One connection. `state` is copied into the scope of each request. `refusal` makes the response to a request that
    is not HTTP."""

    def __init__(
        self,
        app: Application,
        connected: socket.socket,
        limits: HttpLimits,
        *,
        state: Mapping[str, Any] | None = None,
        refusal: Callable[[], tuple[Headers, bytes]] = not_http,
        websocket: WebSocketLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if connected.family != getattr(socket, "AF_UNIX", None):
            # A response is written in pieces; without it the kernel would hold the second back until the client
            # confirms the first.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain = SocketStream(connected, limits.send_seconds)
        self._tls = None if tls is None else _encrypted(plain, tls)
        self._stream: Duplex = self._tls or plain
        self._ends = {"client": _address(connected.getpeername), "server": _address(connected.getsockname)}
        self._app = app
        self._limits = limits
        self._state = {**(state or {}), ABORT: self.abort}
        self._extensions: dict[str, Any] = {}
        self._refusal = refusal
        self._parser = StrictParser()
        self._websocket = websocket
        self._exchange: _Exchange | WebSocketExchange | None = None
        """The request that is being answered."""
        self._is_known = False
        self._is_ending = False

    async def serve(self) -> None:
        """Serve requests until either side ends the connection. Raises nothing but a cancel."""
        try:
            if self._tls is not None:
                await self._shake_hands(self._tls)
            while await self._serve_one():
                pass
            await self._stream.finish(_LAST_SECONDS)
        except Disconnected as error:
            logger.debug("a connection has ended: %s", error)
        finally:
            self._stream.abort()

    @property
    def is_known(self) -> bool:
        """Whether the sender of this or an earlier request is authenticated."""
        return self._is_known or (self._exchange is not None and CALLER in self._exchange.state)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._exchange is None

    def abort(self) -> None:
        """Close the connection at once. The application sees that the client has disconnected."""
        self._stream.abort()

    def end(self) -> None:
        """Close the connection after the current response, or at once if there is none."""
        self._is_ending = True
        if self._exchange is None:
            self.abort()
        else:
            self._exchange.end()

    async def _serve_one(self) -> bool:
        """Serve one request. Returns whether another request may follow."""
        request: h11.Request | None = None
        try:
            with anyio.move_on_after(self._limits.idle_seconds):
                request = await self._next_request()
        except h11.RemoteProtocolError:
            await self._refuse()
            return False
        if request is None:
            raise Disconnected("the client sent no further request in time")
        if self._websocket is not None and (b"upgrade", b"websocket") in _lower(request):
            await self._upgrade(request, self._websocket)
            return False
        is_last = self._is_ending or CLOSE in request.headers
        self._exchange = exchange = _Exchange(self._parser, self._stream, request, self._state, self._refuse, is_last)
        try:
            await exchange.run(self._app, self._scope(request))
            if not exchange.is_last:
                with anyio.move_on_after(self._limits.idle_seconds):
                    await exchange.discard()
        except h11.RemoteProtocolError:
            return False
        finally:
            self._is_known = self.is_known
            self._exchange = None
        if self._parser.our_state is not h11.DONE or self._parser.their_state is not h11.DONE:
            return False
        self._parser.start_next_cycle()
        return not exchange.is_last

    async def _shake_hands(self, tls: TlsStream) -> None:
        with anyio.move_on_after(self._limits.idle_seconds) as patience:
            await tls.handshake()
        if patience.cancelled_caught:
            raise Disconnected("the client did not finish the TLS handshake")
        if (peer := tls.peer) is not None:
            self._extensions["tls"] = {"client_cert_name": peer}

    async def _upgrade(self, request: h11.Request, limits: WebSocketLimits) -> None:
        from acp_server.http.websocket import WebSocketExchange  # needs a package that other servers do without

        scope: dict[str, Any] = self._scope(request)
        scope |= {
            "type": "websocket",
            "scheme": "ws" if self._tls is None else "wss",
            "subprotocols": _subprotocols(request),
            "extensions": {**self._extensions, "websocket.http.response": {}},
            "state": dict(self._state),
        }
        self._exchange = WebSocketExchange(self._stream, request, self._parser.trailing_data[0], scope, limits)
        try:
            await self._exchange.run(self._app)
        finally:
            self._exchange = None

    def _scope(self, request: h11.Request) -> dict[str, Any]:
        path, _, query = request.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"),
            "scheme": "http" if self._tls is None else "https",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
            "extensions": self._extensions,
            **self._ends,
        }

    async def _next_request(self) -> h11.Request | None:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(await self._stream.receive())
        return event if isinstance(event, h11.Request) else None

    async def _refuse(self) -> None:
        headers, body = self._refusal()
        headers = [*headers, (b"content-length", b"%d" % len(body)), CLOSE]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        await self._stream.send(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + body)


class _Exchange:
    """One request and its response, in the form of ASGI."""

    def __init__(
        self,
        parser: StrictParser,
        stream: Duplex,
        request: h11.Request,
        state: Mapping[str, Any],
        refuse: Callable[[], Awaitable[None]],
        is_last: bool,
    ) -> None:
        self._parser = parser
        self._stream = stream
        self._request = request
        self._refuse = refuse
        self.state = dict(state)
        self.is_last = is_last
        self.has_begun = False
        """Whether the response has begun."""
        self._head = b""
        """The head of the response. It is held until the first part of the body, so that both are one write."""
        self._has_ended = False
        self._has_left = False
        self._is_refused = False
        """Whether the body of the request is not HTTP, and the request was refused."""
        self._taken = 0
        """Bytes of the body that the application has read."""
        self._reading: anyio.CancelScope | None = None

    def end(self) -> None:
        """Make this request the last one of its connection."""
        self.is_last = True

    async def run(self, app: Application, scope: dict[str, Any]) -> None:
        """Call the application. Raises Disconnected if the client disconnects or the response is aborted."""
        try:
            await app({**scope, "state": self.state}, self._receive, self._send)
        except Disconnected:
            raise
        except Exception as error:
            if _is_disconnected(error):
                raise Disconnected("the client has left") from None
            logger.exception("the application failed")
            if self.has_begun:
                raise Disconnected(
                    "the application failed within its response, so the connection was aborted"
                ) from None
        if self._is_refused:
            raise Disconnected("the request was refused")
        if not self.has_begun:
            await self._send({"type": "http.response.start", "status": 500, "headers": _PLAIN})
            await self._send({"type": "http.response.body", "body": b"Internal Server Error"})
        elif not self._has_ended:
            raise Disconnected("the application left its response unfinished")

    async def _receive(self) -> Message:
        if self._has_ended or self._has_left:
            return {"type": "http.disconnect"}
        with anyio.CancelScope() as self._reading:
            try:
                if self._parser.their_state is h11.SEND_BODY:
                    return await self._next()
                await self._watch()
            except Disconnected:
                self._has_left = True
            except h11.RemoteProtocolError:
                self._has_left = True
                if not self.has_begun:
                    self._is_refused = True
                    await self._refuse()
        return {"type": "http.disconnect"}

    async def _next(self) -> Message:
        """Return the next part of the body."""
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            if self._parser.they_are_waiting_for_100_continue:
                going_on = h11.InformationalResponse(status_code=100, headers=[])
                await self._stream.send(self._parser.send(going_on) or b"")
            self._parser.receive_data(await self._stream.receive())
        if not isinstance(event, h11.Data):
            return {"type": "http.request", "body": b"", "more_body": False}
        self._taken += len(event.data)
        return {"type": "http.request", "body": bytes(event.data), "more_body": True}

    async def _watch(self) -> None:
        """Return when the client has disconnected. Bytes that arrive meanwhile belong to the client's next request."""
        while len(self._parser.trailing_data[0]) < _READ_AHEAD:
            data = await self._stream.receive()
            if not data:
                self._has_left = True
                return
            self._parser.receive_data(data)
        await anyio.sleep_forever()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message["status"], message.get("headers", ()))
            return
        if not self.has_begun or self._has_ended:
            raise RuntimeError(f"the application sent {message['type']} at the wrong time")
        data, self._head = self._head, b""
        body = message.get("body", b"")
        if body and self._request.method != b"HEAD":
            data += self._parser.send(h11.Data(data=body)) or b""
        if not message.get("more_body", False):
            data += self._parser.send(h11.EndOfMessage()) or b""
            self._has_ended = True
        if data:
            await self._stream.send(data)
        if self._has_ended and self._reading is not None:
            self._reading.cancel()

    async def _begin(self, status: int, headers: Any) -> None:
        if self._is_refused:
            raise Disconnected("the request was refused")
        if self.has_begun:
            raise RuntimeError("the application sent http.response.start twice")
        self.has_begun = True
        pairs = [(bytes(name).lower(), bytes(value)) for name, value in headers]
        pairs.append((b"date", _date(int(time.time()))))
        # A client that does not read this in the head sends its next request into a closed connection.
        if not self._is_discardable():
            self.end()
        if self.is_last:
            pairs.append(CLOSE)
        self._head = self._parser.send(h11.Response(status_code=status, headers=pairs)) or b""
        if all(name != b"content-length" for name, _ in pairs):
            # The first piece of a stream may come much later, so the head is sent now.
            head, self._head = self._head, b""
            await self._stream.send(head)

    def _is_discardable(self) -> bool:
        """Whether the unread part of the body is certainly short enough to be discarded after the response."""
        if self._parser.their_state is not h11.SEND_BODY:
            return True
        if self._parser.they_are_waiting_for_100_continue:
            return False
        headers = dict(self._request.headers)
        if b"transfer-encoding" in headers:
            return False
        return int(headers.get(b"content-length", b"0")) - self._taken <= _REST

    async def discard(self) -> None:
        """Read and discard the rest of a body that the application did not read, if it is short."""
        if self._parser.they_are_waiting_for_100_continue:
            return
        read = 0
        while self._parser.their_state is h11.SEND_BODY:
            if self._parser.next_event() is h11.NEED_DATA:
                if read >= _REST:
                    return
                data = await self._stream.receive()
                read += len(data)
                self._parser.receive_data(data)


def _encrypted(plain: SocketStream, context: ssl.SSLContext) -> TlsStream:
    from acp_server.http.tls import TlsStream

    return TlsStream(plain, context)


def _lower(request: h11.Request) -> list[tuple[bytes, bytes]]:
    return [(name, value.strip().lower()) for name, value in request.headers]


def _subprotocols(request: h11.Request) -> list[str]:
    named = [value.decode("latin-1") for name, value in request.headers if name == b"sec-websocket-protocol"]
    return [each.strip() for each in ",".join(named).split(",") if each.strip()]


def _is_disconnected(error: Exception) -> bool:
    """Whether the error is Disconnected. It may be in the groups of an application's task groups."""
    if isinstance(error, ExceptionGroup):
        return all(map(_is_disconnected, cast("ExceptionGroup[Exception]", error).exceptions))
    return isinstance(error, Disconnected)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode("ascii")


def _address(of: Callable[[], Any]) -> tuple[str, int] | None:
    """Return the host and port of one end; None if it has none."""
    try:
        host, port, *_ = of()
        return str(host), int(port)
    except (OSError, ValueError):
        return None  # a Unix socket has a path


__all__ = ["HttpLimits"]

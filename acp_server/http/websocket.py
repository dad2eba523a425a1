"""One WebSocket (RFC 6455) for ASGI. Messages have a limited size, and pings detect a client that is gone.

Compression is not supported. No extension is offered, so a compressed frame ends the connection.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from acp_server.http.asgi import CALLER, MORE, Application, Headers, Message
from acp_server.http.sockets import Disconnected, Duplex

logger: logging.Logger = logging.getLogger("acp_server.http")

_NORMAL: Final = 1000
_GOING_AWAY: Final = 1001
_ABNORMAL: Final = 1006
_TOO_BIG: Final = 1009
_TRY_AGAIN: Final = 1013
_FAILED: Final = 1011
_TEXT: Final = 0x81
"""The first byte of the only frame of a text (RFC 6455, section 5.2)."""
_BYTES: Final = 0x82
_BODY: Final = frozenset({b"content-length", b"transfer-encoding"})
_CORK: Final = 65_536
"""The most bytes of frames that are written together, besides the last frame."""
_LAST_SECONDS: Final = 1.0
"""Seconds that a client may take to confirm a close."""


class Unfinished:
    """Limits the incomplete messages of several WebSockets to `most` bytes in total. Above that, the caller with the
    most bytes loses the WebSocket with its largest message. The client may reconnect."""

    def __init__(self, most: int = 256 * 1024 * 1024) -> None:
        self._most = most
        self._held: dict[WebSocketExchange, int] = {}
        self._total = 0

    def set(self, exchange: WebSocketExchange, size: int) -> None:
        """Set the size of a WebSocket's incomplete message."""
        self._total += size - self._held.pop(exchange, 0)
        if size:
            self._held[exchange] = size
        if self._total > self._most:
            sizes: Counter[Any] = Counter()
            for each, held in self._held.items():
                sizes[each.state.get(CALLER)] += held
            most = max(sizes, key=sizes.__getitem__)
            crowd = [each for each in self._held if each.state.get(CALLER) == most]
            max(crowd, key=self._held.__getitem__).end(_TRY_AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketLimits:
    """The bounds of a WebSocket."""

    message_bytes: int = 32 * 1024 * 1024
    """The most bytes of one message, in any number of frames."""
    unfinished: Unfinished = field(default_factory=Unfinished)
    """The limit that all WebSockets with these limits share."""
    ping_seconds: float = 20.0
    """Seconds between two pings. A client that sends nothing for this time after a ping counts as gone."""


class WebSocketExchange:
    """One WebSocket, from its handshake to its end. `trailing`: bytes that arrived after the handshake."""

    def __init__(
        self, stream: Duplex, request: h11.Request, trailing: bytes, scope: dict[str, Any], limits: WebSocketLimits
    ) -> None:
        self._stream = stream
        self._request = request
        self._trailing = trailing
        self.state: dict[str, Any] = scope["state"]
        self._scope = scope
        self._limits = limits
        self._wire = WSConnection(ConnectionType.SERVER)
        self._text = bytearray()
        """The beginning of an incomplete message."""
        self._lock = anyio.Lock(fast_acquire=True)
        self._corked = bytearray()
        """Frames that are written together with the next frame."""
        self._is_told = False
        """Whether the application has got `websocket.connect`."""
        self._accepted = anyio.Event()
        self._has_answer = False
        self._is_over = False
        self._code = _ABNORMAL
        """The code with which the WebSocket ended."""
        self._pong: Event | None = None
        """The response to the last ping."""
        self._due = anyio.Event()
        self._is_heard = True
        """Whether anything has arrived since the last ping."""
        self._is_listening = False
        """Whether the application is receiving."""
        self._reading: anyio.CancelScope | None = None

    async def run(self, app: Application) -> None:
        """Call the application. Raises Disconnected."""
        if self._request.method != b"GET" or any(name in _BODY for name, _ in self._request.headers):
            # Its body could be parsed as frames, or as another request.
            await self._refuse(400)
            return
        try:
            # wsproto decodes the host, which may be any bytes. The application gets it unchanged.
            headers = [(name, b"-" if name == b"host" else value) for name, value in self._request.headers]
            self._wire.initiate_upgrade_connection(headers, self._request.target)
            list(self._wire.events())
        except (RemoteProtocolError, h11.LocalProtocolError, UnicodeError) as error:
            hint = error.event_hint if isinstance(error, RemoteProtocolError) else None
            await self._refuse(hint.status_code if isinstance(hint, RejectConnection) else 400)
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_alive)
            try:
                await self._serve(app)
            finally:
                self._limits.unfinished.set(self, 0)
            group.cancel_scope.cancel()
        with anyio.move_on_after(_LAST_SECONDS):
            await self._stream.finish(_LAST_SECONDS)

    def end(self, code: int = _GOING_AWAY) -> None:
        """Tell the client that the server is ending, or that it should reconnect."""
        if not self._is_over:
            self._over(code)
            self._due.set()
            if self._reading is not None:
                self._reading.cancel()

    async def _serve(self, app: Application) -> None:
        code = _NORMAL
        try:
            await app(self._scope, self._receive, self._send)
        except Disconnected:
            return
        except Exception:
            logger.exception("the application failed")
            code = _FAILED
        try:
            if not self._has_answer:
                await self._refuse(500)
            elif self._wire.state is ConnectionState.OPEN and not (self._is_over and self._code == _ABNORMAL):
                await self._tell(CloseConnection(code=self._code if self._is_over else code))
        except (Disconnected, LocalProtocolError):
            pass  # the client has disconnected

    # -- input

    async def _receive(self) -> Message:
        if not self._is_told:
            self._is_told = True
            return {"type": "websocket.connect"}
        if not self._accepted.is_set():
            await self._accepted.wait()
        with anyio.CancelScope() as self._reading:
            try:
                while not self._is_over:
                    if (message := await self._message()) is not None:
                        return message
            except Disconnected:
                self._over(_ABNORMAL)
            except RemoteProtocolError as error:
                hint = error.event_hint
                await self._fail(int(hint.code) if isinstance(hint, CloseConnection) else 1002)
        left: Message = {"type": "websocket.disconnect", "code": self._code}
        # Only a regular close has a reason, perhaps empty. So the application can tell it from a broken connection.
        return left if self._code == _ABNORMAL else {**left, "reason": ""}

    async def _message(self) -> Message | None:
        """Return the next message; None if the input was not a complete message."""
        for event in self._wire.events():
            if isinstance(event, (TextMessage, BytesMessage)):
                if (message := await self._piece(event)) is not None or self._is_over:
                    return message
            elif isinstance(event, Ping):
                self._pong = event.response()
                self._due.set()
            elif isinstance(event, CloseConnection):
                self._over(int(event.code))
                await self._tell(event.response())
                return None
        self._is_listening = True
        try:
            data = await self._stream.receive()
        finally:
            self._is_listening = False
        self._is_heard = True
        if not data:
            self._over(_ABNORMAL)
        else:
            self._wire.receive_data(data)
        return None

    async def _piece(self, event: TextMessage | BytesMessage) -> Message | None:
        data = event.data.encode() if isinstance(event, TextMessage) else bytes(event.data)
        if len(self._text) + len(data) > self._limits.message_bytes:
            await self._fail(_TOO_BIG)
            return None
        self._text += data
        if not event.message_finished:
            self._limits.unfinished.set(self, len(self._text))
            return None
        whole, self._text = bytes(self._text), bytearray()
        self._limits.unfinished.set(self, 0)
        kind = {"text": whole.decode()} if isinstance(event, TextMessage) else {"bytes": whole}
        return {"type": "websocket.receive", **kind}

    async def _fail(self, code: int) -> None:
        """End the WebSocket because the client violates the protocol."""
        logger.info("a WebSocket was closed with code %d", code)
        self._over(code)
        try:
            await self._tell(CloseConnection(code=code))
        except (Disconnected, LocalProtocolError):
            pass  # the client has disconnected

    def _over(self, code: int) -> None:
        self._is_over = True
        self._code = code
        self._text = bytearray()
        self._limits.unfinished.set(self, 0)

    # -- output

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.accept" and not self._has_answer:
            self._has_answer = True
            accept = AcceptConnection(subprotocol=message.get("subprotocol"), extra_headers=_pairs(message))
            await self._tell(accept)
            self._wire.receive_data(self._trailing)
            self._accepted.set()
        elif kind == "websocket.http.response.start" and not self._has_answer:
            self._has_answer = True
            await self._tell(RejectConnection(status_code=message["status"], headers=_pairs(message), has_body=True))
        elif kind == "websocket.http.response.body":
            is_last = not message.get("more_body", False)
            await self._tell(RejectData(data=message.get("body", b""), body_finished=is_last))
        elif kind == "websocket.close" and not self._has_answer:
            await self._refuse(403)
        elif self._is_over:
            raise Disconnected("the client has disconnected")
        elif kind == "websocket.close":
            self._over(message.get("code", _NORMAL))
            await self._tell(CloseConnection(code=self._code, reason=message.get("reason")))
        elif kind == "websocket.send" and self._accepted.is_set():
            text = message.get("text")
            frame = self._frame(_BYTES, message["bytes"]) if text is None else self._frame(_TEXT, text.encode())
            if message.get(MORE) and not self._lock.locked() and len(self._corked) < _CORK:
                self._corked += frame
            else:
                await self._write(frame)
        else:
            raise RuntimeError(f"the application sent {kind} at the wrong time")

    async def _refuse(self, status: int) -> None:
        self._has_answer = True
        head = b"HTTP/1.1 %d \r\nconnection: close\r\ncontent-length: 0\r\n" % status
        if status == 426:
            head += b"sec-websocket-version: 13\r\n"
        async with self._lock:
            await self._stream.send(head + b"\r\n")

    def _frame(self, kind: int, data: bytes) -> bytes:
        """A whole message as one frame (RFC 6455, section 5.2). It is built here because wsproto is slower, and each
        message of an agent takes one."""
        if self._wire.state is not ConnectionState.OPEN:
            raise LocalProtocolError("the WebSocket is closed")
        size = len(data)
        if size < 126:
            return b"%c%c%b" % (kind, size, data)
        if size < 1 << 16:
            return b"%c\x7e%b%b" % (kind, size.to_bytes(2), data)
        return b"%c\x7f%b%b" % (kind, size.to_bytes(8), data)

    async def _tell(self, event: Event) -> None:
        await self._write(self._wire.send(event))

    async def _write(self, frames: bytes) -> None:
        async with self._lock:
            self._corked += frames
            frames, self._corked = bytes(self._corked), bytearray()
            await self._stream.send(frames)

    async def _keep_alive(self) -> None:
        """Send pings and pongs in a task that does not block reading, because the client may not read for a while."""
        await self._accepted.wait()
        try:
            while not self._is_over:
                with anyio.move_on_after(self._limits.ping_seconds) as silence:
                    await self._due.wait()
                self._due = anyio.Event()
                pong, self._pong = self._pong, None
                if pong is not None:
                    await self._tell(pong)
                elif silence.cancelled_caught:
                    if not self._is_heard and self._is_listening:
                        self._stream.abort()
                        return
                    self._is_heard = False
                    await self._tell(Ping())
        except (Disconnected, LocalProtocolError):
            pass  # the client has disconnected


def _pairs(message: Mapping[str, Any]) -> Headers:
    return [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]


__all__ = ["Unfinished", "WebSocketLimits"]

"""One client over WebSocket: each text frame is one message, in both directions."""

from __future__ import annotations

import logging
from typing import Any, Final

import anyio

from acp_server.http.asgi import Message, Receive, Send
from acp_server.remote.connections import Connections, Full, new_id
from acp_server.remote.guard import Guard, Refused, Scope

logger: logging.Logger = logging.getLogger("acp_server.remote")

SUBPROTOCOL: Final = "acp"
"""What a client may offer, beside a token."""

_NORMAL: Final = 1000
_REFUSED: Final = 1008
_TRY_AGAIN: Final = 1013


async def serve_websocket(guard: Guard, connections: Connections, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a client that wants to connect, until it is gone."""
    try:
        principal = await guard.admit(scope)
    except Refused as refused:
        await _refuse(scope, send, refused)
        return
    if connections.is_full:
        await _refuse(scope, send, Refused(503, "Too many connections"))
        return
    accept: dict[str, Any] = {"type": "websocket.accept", "headers": [(b"acp-connection-id", new_id().encode())]}
    if SUBPROTOCOL in scope.get("subprotocols", ()):
        accept["subprotocol"] = SUBPROTOCOL
    try:
        await send(accept)
    except OSError as error:
        logger.info("a client has left before it was let in: %s", type(error).__name__)
        return
    stream = WebSocketStream(receive, send, connections.limits.stall)
    try:
        await connections.serve(stream, principal)
    except Full:
        await stream.aclose(_TRY_AGAIN)


async def _refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Before it is accepted, a close is an HTTP 403; servers with an extension can say more."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        body = refused.why.encode() + b"\n"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), *refused.headers]
        await send({"type": "websocket.http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
    else:
        await send({"type": "websocket.close", "code": _REFUSED})


class WebSocketStream:
    """One WebSocket as a stream of lines; see `acp_server.peer.stream.Stream`. `stall`: for how many seconds the client
    may take nothing."""

    def __init__(self, receive: Receive, send: Send, stall: float) -> None:
        self._receive = receive
        self._send = send
        self._stall = stall
        self._over = False
        """Whether the client has left, or was told to."""
        self._injected: list[bytes] = []
        self._reading: anyio.CancelScope | None = None

    def inject(self, line: bytes) -> None:
        """See `acp_server.remote.holders.Line`."""
        if not self._over:
            self._injected.append(line)
            if self._reading is not None:
                self._reading.cancel()

    def drop(self, session: str) -> None:
        """See `acp_server.remote.holders.Line`. All sessions share the one line."""

    async def receive(self) -> bytes:
        """The next message, as a line."""
        if self._over:
            return b""
        text: str | None = None
        while text is None:
            if self._injected:
                return self._injected.pop(0)
            message: Message | None = None
            with anyio.CancelScope() as self._reading:
                message = await self._receive()
            if message is None:
                continue
            if message["type"] != "websocket.receive":
                self._over = True
                return b""
            text = message.get("text")  # Frames of bytes mean nothing.
        # A frame is one message, also if its JSON was written over several lines.
        return text.encode(errors="replace").replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"

    async def send(self, data: bytes) -> None:
        """A frame for each line. Raises anyio's BrokenResourceError if the client has left."""
        for line in data.split(b"\n"):
            if line:
                await self._tell({"type": "websocket.send", "text": line.decode()})

    async def aclose(self, code: int = _NORMAL) -> None:
        """Say goodbye, unless the client has left."""
        try:
            await self._tell({"type": "websocket.close", "code": code})
        except anyio.BrokenResourceError:
            pass  # it has
        self._over = True

    async def _tell(self, message: dict[str, Any]) -> None:
        if self._over:
            raise anyio.BrokenResourceError
        try:
            with anyio.move_on_after(self._stall) as patience:
                await self._send(message)
        except (OSError, RuntimeError) as error:
            # A server knows before we do that a client has left, and each says so in its own way.
            raise anyio.BrokenResourceError from error
        if patience.cancelled_caught:
            self._over = True
            raise anyio.BrokenResourceError("the client takes nothing")

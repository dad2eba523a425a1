"""`WebSocketApp`: an agent for clients that come over WebSocket, in any ASGI application.

Each WebSocket is a connection of its own, and each text frame one message:

    Starlette(routes=[WebSocketRoute("/acp", WebSocketApp(agent))])

It touches nothing of the process. Who may connect beyond the check of origins, how many, and with which certificate is
the matter of the application around it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import anyio

from acp_server.agent.serve import Servable, serve
from acp_server.peer.limits import Limits

logger: logging.Logger = logging.getLogger("acp_server.asgi")

Message: TypeAlias = "Mapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[Message]]"
Send: TypeAlias = "Callable[[dict[str, Any]], Awaitable[None]]"

_NORMAL: Final = 1000
_FORBIDDEN: Final = 1008
_ONLY_WEBSOCKET: Final = b"This address is for WebSocket connections.\n"


class WebSocketApp:
    """An ASGI application that serves `agent` to each client that connects.

    A client that leaves is the end of the input, and nothing else: what runs for it may go on for `limits.drain` and is
    then cut. Cancelling the call that serves a client closes its connection within its `limits`, and propagates.

    `limits`: of each connection; messages that are longer than `limits.line` are refused, and the server has a bound of
    its own below that. `origins`: the web pages that may connect, as browsers name them (`https://app.example.org`), or
    `"*"` for all. By default no page may, since a page that a user happens to visit could reach a server on the user's
    machine; programs that are not browsers send no origin and are let in.
    """

    def __init__(self, agent: Servable, *, limits: Limits | None = None, origins: Collection[str] = ()) -> None:
        self._agent = agent
        self._limits = limits
        # A single one is what was meant, and not its letters.
        self._origins = (origins,) if isinstance(origins, str) else tuple(origins)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """See the ASGI specification. Scopes of HTTP are told to come by WebSocket, others are ignored."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await _refuse(send)
        elif scope["type"] == "websocket" and (await receive())["type"] == "websocket.connect":
            await self._welcome(scope, receive, send)

    async def _welcome(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        origin = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"), None)
        if origin is not None and "*" not in self._origins and origin not in self._origins:
            logger.warning("a page of another origin is refused: %.200r", origin)
            # Before it is accepted, this is an HTTP 403.
            await send({"type": "websocket.close", "code": _FORBIDDEN})
            return
        id = secrets.token_hex(16).encode()
        try:
            await send({"type": "websocket.accept", "headers": [(b"acp-connection-id", id)]})
        except OSError as error:
            logger.info("a client has left before it was let in: %s", type(error).__name__)
            return
        try:
            await serve(self._agent, _WebSocketStream(receive, send), limits=self._limits)
        except SystemExit:
            # It would end the whole server, with all its clients.
            logger.error("a handler has asked for the end of the program; the connection of its client is closed")


class _WebSocketStream:
    """One WebSocket as a stream of lines; see `acp_server.peer.stream.Stream`."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._over = False
        """Whether the client has left, or was told to."""

    async def receive(self) -> bytes:
        """The next message, as a line."""
        if self._over:
            return b""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._over = True
            return b""
        text = message.get("text")
        data: bytes = (message.get("bytes") or b"") if text is None else text.encode(errors="replace")
        # A frame is one message, also if its JSON was written over several lines.
        return data.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"

    async def send(self, data: bytes) -> None:
        """A frame for each line. Raises anyio's BrokenResourceError if the client has left."""
        for line in data.split(b"\n"):
            if line:
                await self._tell({"type": "websocket.send", "text": line.decode()})

    async def aclose(self) -> None:
        """Say goodbye, unless the client has left."""
        try:
            await self._tell({"type": "websocket.close", "code": _NORMAL})
        except anyio.BrokenResourceError:
            pass  # it has
        self._over = True

    async def _tell(self, message: dict[str, Any]) -> None:
        if self._over:
            raise anyio.BrokenResourceError
        try:
            await self._send(message)
        except (OSError, RuntimeError) as error:
            # A server knows before we do that a client has left, and each says so in its own way.
            raise anyio.BrokenResourceError from error


async def _live(receive: Receive, send: Send) -> None:
    """There is nothing to start or to end with the server."""
    while (kind := (await receive())["type"]) != "lifespan.shutdown":
        await send({"type": f"{kind}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"upgrade", b"websocket")]
    await send({"type": "http.response.start", "status": 426, "headers": headers})
    await send({"type": "http.response.body", "body": _ONLY_WEBSOCKET})

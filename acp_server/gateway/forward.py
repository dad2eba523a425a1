"""A request handed on to the node that has its chat, and what that node answers, byte by byte.

Only a stream that follows tool outputs is: everything else is done by rows (`acp_server.gateway.commands`). The token
of the client goes along, so nodes need no secret of their own.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import SocketStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from acp_server.gateway.connection import ABORT
from acp_server.gateway.errors import ApiError, Code

FORWARDED: Final = b"x-acp-forwarded"
"""A header of a request that another node has handed on. It is not handed on again."""
_OURS: Final = frozenset({b"connection", b"transfer-encoding", b"content-length", b"date", b"x-tt-logid"})
"""Headers of an answer that this node writes itself."""
_PATIENCE: Final = 10.0
"""Seconds until a node has to have taken the connection."""
_SIZE: Final = 65536


class Forwarded(Response):
    """What another node answers. Raises ApiError if it cannot be reached."""

    def __init__(self, url: str, target: str, authorization: str, body: bytes, running: set[Forwarded]) -> None:
        """It is in `running` while it is handed on."""
        super().__init__()
        parts = urlsplit(url)
        self._place = parts.hostname or "", parts.port or 80
        self._request = h11.Request(
            method="POST",
            target=target,
            headers=[
                (b"host", parts.netloc.encode()),
                (b"authorization", authorization.encode("latin-1")),
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (FORWARDED, b"1"),
                (b"connection", b"close"),
            ],
        )
        self._body = body
        self._running = running
        self._stream: SocketStream | None = None

    async def connect(self) -> Forwarded:
        """Reach the node before anything is answered. Raises ApiError."""
        try:
            with anyio.fail_after(_PATIENCE):
                self._stream = await anyio.connect_tcp(*self._place)
        except (OSError, TimeoutError):
            raise ApiError(Code.BUSY, "the gateway that has the chat cannot be reached; try again later") from None
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        assert self._stream is not None
        self._running.add(self)
        try:
            await self._hand_on(self._stream, scope, receive, send)
        finally:
            self._running.remove(self)

    async def _hand_on(self, stream: SocketStream, scope: Scope, receive: Receive, send: Send) -> None:
        async with stream, anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                await self._pass_on(stream, send)
            except (OSError, anyio.BrokenResourceError, h11.RemoteProtocolError):
                # One of the two has left. Broken off, so that the client does not take it for a whole answer.
                scope["state"][ABORT]()
            group.cancel_scope.cancel()

    async def _pass_on(self, stream: SocketStream, send: Send) -> None:
        connection = h11.Connection(h11.CLIENT)
        for event in (self._request, h11.Data(data=self._body), h11.EndOfMessage()):
            await stream.send(connection.send(event) or b"")
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                try:
                    connection.receive_data(await stream.receive(_SIZE))
                except anyio.EndOfStream:
                    connection.receive_data(b"")
            elif isinstance(event, h11.Response):
                headers = [(name, value) for name, value in event.headers if name not in _OURS]
                await send({"type": "http.response.start", "status": event.status_code, "headers": headers})
            elif isinstance(event, h11.Data):
                await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return

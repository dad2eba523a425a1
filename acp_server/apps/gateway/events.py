"""Server-sent events in the restricted form that the API's clients can read, and the listeners to a chat's events.

A frame is an `event:` line and one `data:` line of ASCII; there are no ids and no comments. After `done` the body ends.

The stream after tool outputs may have to come from another node. Then the request is forwarded to that node, and the
node's response is passed on unchanged. The client's token is forwarded too, so the nodes need no shared secret.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import SocketStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.http.asgi import ABORT, while_connected
from acp_server.http.events import EventQueue

CREATED: Final = "conversation.chat.created"
IN_PROGRESS: Final = "conversation.chat.in_progress"
DELTA: Final = "conversation.message.delta"
MESSAGE: Final = "conversation.message.completed"
REQUIRES_ACTION: Final = "conversation.chat.requires_action"
COMPLETED: Final = "conversation.chat.completed"
FAILED: Final = "conversation.chat.failed"
DONE: Final = "done"

FORWARDED: Final = b"x-acp-forwarded"
"""The header that marks a forwarded request. Such a request is not forwarded again."""
_OURS: Final = frozenset({b"connection", b"transfer-encoding", b"content-length", b"date", b"x-tt-logid"})
"""Headers in another node's response that this node writes itself."""
_PATIENCE: Final = 10.0
"""Seconds for another node to accept the connection."""
_SIZE: Final = 65536


def frame(name: str, data: Any) -> bytes:
    """Return one event as bytes."""
    # Non-ASCII is escaped: some clients end a line at any of Unicode's line breaks.
    return f"event:{name}\ndata:{json.dumps(data, separators=(',', ':'))}\n\n".encode("ascii")


class Feed:
    """The event stream of one chat. Events are not kept if no client listens."""

    def __init__(self, backlog: int) -> None:
        self._backlog = backlog
        self._listeners: list[EventQueue] = []

    def listen(self) -> EventQueue:
        """Listen to all later events until `done`."""
        listener = EventQueue(self._backlog)
        self._listeners.append(listener)
        return listener

    def emit(self, name: str, data: Any) -> None:
        """Send an event to the listeners. Never waits."""
        self._listeners = [listener for listener in self._listeners if not listener.closed]
        if self._listeners:
            data = frame(name, data)
            for listener in self._listeners:
                listener.put(data)

    def done(self) -> None:
        """End the stream of each listener. `listen` may be called again later."""
        self.emit(DONE, "[DONE]")
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()


class Forwarded(Response):
    """Passes on the response of another node. Raises ApiError if the node cannot be reached."""

    def __init__(self, url: str, target: str, authorization: str, body: bytes, running: set[Forwarded]) -> None:
        """`running`: a set that contains this object while the response is forwarded."""
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
        """Connect to the node before the response begins. Raises ApiError."""
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
            async with self._stream:
                await while_connected(receive, partial(self._hand_on, self._stream, scope, send))
        finally:
            self._running.remove(self)

    async def _hand_on(self, stream: SocketStream, scope: Scope, send: Send) -> None:
        try:
            await self._pass_on(stream, send)
        except (OSError, anyio.BrokenResourceError, h11.RemoteProtocolError):
            # One of the two has disconnected. Aborted, so that the client does not take it for a complete response.
            scope["state"][ABORT]()

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

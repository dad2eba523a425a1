"""A client that speaks WebSocket, on asyncio and trio, and says also what no library would."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ByteStream
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError


class WebSocket:
    """One WebSocket. `answer` is what the server said to the handshake."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.wire = WSConnection(ConnectionType.CLIENT)
        self.answer: Any = None
        self._events: list[Event] = []
        self._text = ""
        self.pongs: list[bytes] = []
        self.is_closed = False
        """Whether the server has ended the connection."""

    async def open(self, host: str = "localhost", subprotocols: Sequence[str] = (), **headers: str) -> int:
        """The status."""
        extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        request = Request(host=host, target="/acp", extra_headers=extra, subprotocols=[*subprotocols])
        await self.stream.send(self.wire.send(request))
        self.answer = await self.event()
        return 101 if isinstance(self.answer, AcceptConnection) else self.answer.status_code

    async def event(self) -> Event:
        while not self._events:
            try:
                data = await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.is_closed = True
                return CloseConnection(code=1006)
            self.feed(data)
        return self._events.pop(0)

    def feed(self, data: bytes) -> None:
        """Bytes of the server."""
        self.wire.receive_data(data)
        self._events += self.wire.events()

    async def text(self) -> str:
        """The next message."""
        while True:
            event = await self.event()
            if isinstance(event, Ping):
                await self.stream.send(self.wire.send(event.response()))
            elif isinstance(event, Pong):
                self.pongs.append(bytes(event.payload))
            elif isinstance(event, TextMessage):
                self._text += event.data
                if event.message_finished:
                    text = self._text
                    self._text = ""
                    return text
            else:
                raise AssertionError(event)

    async def body(self) -> bytes:
        """Of a refusal."""
        body = b""
        while isinstance(event := await self.event(), (RejectConnection, RejectData)):
            if isinstance(event, RejectData):
                body += event.data
                if event.body_finished:
                    break
        return body

    async def send(self, event: Event) -> None:
        await self.stream.send(self.wire.send(event))

    async def code(self) -> int:
        """That of the close that comes next, be it behind messages."""
        while not isinstance(event := await self.event(), CloseConnection):
            pass
        if not self.is_closed and int(event.code) != 1006:
            try:
                await self.send(event.response())
            except (anyio.BrokenResourceError, LocalProtocolError):
                pass  # It was this client that began.
        return int(event.code)


@asynccontextmanager
async def websocket(port: int) -> AsyncGenerator[WebSocket]:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        yield WebSocket(stream)

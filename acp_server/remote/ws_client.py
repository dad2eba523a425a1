"""`WebSocketStream`: the stream to a remote agent over one WebSocket, a text frame for each message.

The request that asks for it is httpx's, with all that belongs to that: proxies, certificates, cookies. The frames are
wsproto's. No compression is offered, so a frame takes as many bytes as were bounded.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections import deque
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, Final

import anyio
import httpx
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from acp_server.remote.exchange import Exchanges, TooManyCookies, because, body_of, refusal
from acp_server.remote.settings import ClientLimits
from acp_server.safe_text import one_line
from acp_server.tasks.grace import grace
from acp_server.tasks.spawn import Spawner

logger: logging.Logger = logging.getLogger("acp_server.remote")

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_READ: Final = 64 * 1024
_PINGS: Final = 5
"""Pings that are sent into silence before the line counts as dead (the draft of durable transports)."""
_LAST_WORDS: Final = 0.5
"""Seconds that the goodbye may take."""
_NORMAL: Final = 1000
_BROKEN: Final = 1006
"""What stands for an end without a goodbye."""


class LineBroken(Exception):
    """The WebSocket is of no use any more. `is_end`: whether the server has said goodbye."""

    def __init__(self, why: str, *, is_end: bool = False) -> None:
        self.is_end = is_end
        super().__init__(why)


class _Line:
    """One WebSocket."""

    def __init__(self, response: httpx.Response, limits: ClientLimits) -> None:
        self._network: Any = response.extensions["network_stream"]
        self._frames = Connection(ConnectionType.CLIENT)
        self._limits = limits
        self._writing = anyio.Lock()
        self._text: list[str] = []
        self._size = 0
        self._silent = 0
        self._events: deque[Event] = deque()
        self._tasks = Spawner(self._failed)
        self._sign: Ping | Pong | None = None
        """A sign of life that is to be sent. Reading goes on meanwhile: the server may take nothing before it has been
        read from."""
        self._sending = anyio.CancelScope()
        self._is_signing = False

    async def receive(self) -> str:
        """The next message. Raises LineBroken."""
        try:
            while True:
                while not self._events:
                    await self._read()
                if (text := await self._handle(self._events.popleft())) is not None:
                    return text
        except (httpx.HTTPError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise LineBroken(because(error)) from None
        except RemoteProtocolError as error:
            raise LineBroken(f"the server broke the rules of WebSocket: {because(error)}") from None

    async def send(self, text: str) -> None:
        """Write one message. Raises LineBroken."""
        try:
            await self._write(TextMessage(data=text))
        except Exception as error:
            if isinstance(error, LineBroken):
                raise
            raise LineBroken(because(error)) from None

    async def close(self) -> None:
        """Say goodbye, if there is anything to say it to."""
        self._sign = None
        self._sending.cancel()
        await self._tasks.wait_idle()
        if self._frames.state is ConnectionState.OPEN:
            await self._write(CloseConnection(code=_NORMAL))

    async def _read(self) -> None:
        pause = self._limits.silence / _PINGS
        try:
            data = await self._network.read(_READ, timeout=pause)
        except Exception as error:
            # The library under httpx has errors of its own; their names say it.
            if type(error).__name__ != "ReadTimeout":
                raise LineBroken(because(error)) from None
            self._silent += 1
            if self._silent > _PINGS:
                raise LineBroken("the server is silent") from None
            self._signal(Ping())
            return
        self._silent = 0
        self._frames.receive_data(data or None)
        self._events += self._frames.events()

    async def _handle(self, event: Event) -> str | None:
        if isinstance(event, Ping):
            self._signal(event.response())
        elif isinstance(event, CloseConnection):
            code, reason = int(event.code), one_line(event.reason or "", 200)
            if code == _BROKEN:
                raise LineBroken("the line broke")
            if self._frames.state is ConnectionState.OPEN:
                # The library's own, about what it could not read.
                raise LineBroken(f"the server broke the rules of WebSocket: {reason}")
            text = f"the server has closed the WebSocket (code {code}{': ' + reason if reason else ''})"
            raise LineBroken(text, is_end=code == _NORMAL)
        elif isinstance(event, TextMessage | BytesMessage):
            self._size += len(event.data)
            if self._size > self._limits.event:
                raise LineBroken(f"the server has sent a message of more than {self._limits.event} bytes")
            if isinstance(event, TextMessage):
                # Others are ignored, as the rules have it.
                self._text.append(event.data)
            if event.message_finished:
                text, self._text, self._size = "".join(self._text), [], 0
                return text or None
        elif not isinstance(event, Pong):
            raise LineBroken("the server broke the rules of WebSocket")
        return None

    def _signal(self, event: Ping | Pong) -> None:
        # Of several, the last one is enough.
        self._sign = event
        if not self._is_signing:
            self._is_signing = True
            self._tasks.spawn(self._send_signs)

    async def _send_signs(self) -> None:
        with anyio.CancelScope() as self._sending:
            while (sign := self._sign) is not None:
                self._sign = None
                await self._write(sign)
        self._is_signing = False

    def _failed(self, error: BaseException) -> None:
        # Who reads or writes meets it as well.
        logger.debug("a sign of life was not sent: %s", because(error))

    async def _write(self, event: Any) -> None:
        async with self._writing:
            try:
                data = self._frames.send(event)
            except LocalProtocolError:
                raise LineBroken("the WebSocket is closed") from None
            await self._network.write(data)


class WebSocketStream:
    """See the module, and `acp_server.peer.stream.Stream`. It connects when the first message is sent.

    `problem` says in words why it has ended, if it was not closed here.
    """

    def __init__(self, exchanges: Exchanges, limits: ClientLimits) -> None:
        self._exchanges = exchanges
        self._limits = limits
        self._stack = AsyncExitStack()
        self._line: _Line | None = None
        self._opened = anyio.Event()
        self._is_over = False
        self.problem: str | None = None

    async def receive(self) -> bytes:
        """The next message, as a line; `b""` once the server has said goodbye."""
        await self._opened.wait()
        if self._line is None or self._is_over:
            raise anyio.BrokenResourceError(self.problem or "closed")
        try:
            text = await self._line.receive()
        except LineBroken as error:
            self._end(f"{self._exchanges.address.name}: {error}")
            if error.is_end:
                return b""
            raise anyio.BrokenResourceError(self.problem) from None
        # A frame is one message, also if its JSON was written over several lines.
        return text.replace("\n", " ").replace("\r", " ").encode() + b"\n"

    async def send(self, data: bytes) -> None:
        """A frame for each line."""
        if self._line is None and not self._is_over:
            await self._connect()
        for line in data.split(b"\n"):
            if self._line is None or self._is_over:
                raise anyio.BrokenResourceError(self.problem or "closed")
            if line:
                try:
                    await self._line.send(line.decode())
                except LineBroken as error:
                    self._end(f"{self._exchanges.address.name}: {error}")
                    raise anyio.BrokenResourceError(self.problem) from None

    async def aclose(self) -> None:
        """Say goodbye and close. Idempotent."""
        try:
            if self._line is not None:
                with grace(_LAST_WORDS):
                    await self._line.close()
        except Exception as error:
            logger.debug("the server was not told of the end: %s", because(error))
        finally:
            self._end(None)
            with grace(_LAST_WORDS):
                await self._stack.aclose()
            with grace(_LAST_WORDS):
                await self._exchanges.aclose()

    async def _connect(self) -> None:
        name = self._exchanges.address.name
        key = base64.b64encode(secrets.token_bytes(16))
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Version": "13",
        }
        try:
            response = await self._stack.enter_async_context(self._exchanges.open("GET", headers))
            if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
                self._end(refusal(response, await body_of(response, 1024), self._exchanges.address))
            elif response.headers.get("sec-websocket-accept", "").encode() != _accept(key):
                self._end(f"{name} did not answer as a server of WebSocket does")
            else:
                self._line = _Line(response, self._limits)
                self._opened.set()
        except (httpx.HTTPError, TooManyCookies) as error:
            self._end(f"{name} cannot be reached ({because(error)})")

    def _end(self, problem: str | None) -> None:
        if not self._is_over:
            self._is_over = True
            self.problem = problem
            self._opened.set()
            if problem is not None:
                logger.info("the connection to a remote agent has ended: %s", problem)


def _accept(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())

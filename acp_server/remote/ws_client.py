"""`WebSocketStream` is the stream to a remote agent over WebSocket. Each message is a text frame.

If the server supports it (`Acp-Repeatable`), a WebSocket that breaks is replaced by another WebSocket of the same
connection. Each side then repeats the messages that the other side has not received (`acp_server.remote.cursors`).

httpx sends the upgrade request, with its proxies, certificates and cookies. wsproto reads and writes the frames.
Compression is not offered, because a small frame could unpack to more bytes than the limit.
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

from acp_server.remote.address import CONNECTION, REPEATABLE
from acp_server.remote.cursors import read_answer, resume, without_cursor
from acp_server.remote.exchange import NOT_SENT, Exchanges, TooManyCookies, because, body_of, refusal
from acp_server.remote.settings import Backoff, ClientLimits
from acp_server.safe_text import one_line
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner

logger: logging.Logger = logging.getLogger("acp_server.remote")

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_READ: Final = 64 * 1024
_PINGS: Final = 5
"""The number of unanswered pings after which the WebSocket counts as dead (the draft of durable transports)."""
_LAST_WORDS: Final = 0.5
"""Seconds that the close frame, and each step of closing, may take."""
_NORMAL: Final = 1000
_PASSING: Final = frozenset({1011, 1012, 1013})
"""Close codes after which the client reconnects: internal error or ping timeout, restart, overload."""
_BROKEN: Final = 1006
"""The close code of a WebSocket that ended without a close frame."""


class SocketBroken(Exception):
    """Raised if the WebSocket has ended. `is_end`: whether the server closed it with code 1000. `is_final`: whether the
    client must not reconnect."""

    def __init__(self, why: str, *, is_end: bool = False, is_final: bool = False) -> None:
        self.is_end = is_end
        self.is_final: bool = is_end or is_final
        super().__init__(why)


class _Socket:
    """One WebSocket."""

    def __init__(self, response: httpx.Response, limits: ClientLimits) -> None:
        self._network: Any = response.extensions["network_stream"]
        self._error: SocketBroken | None = None
        self._stack: AsyncExitStack | None = None
        self._frames = Connection(ConnectionType.CLIENT)
        self._limits = limits
        self._writing = anyio.Lock()
        self._text: list[str] = []
        self._size = 0
        self._silent = 0
        self._events: deque[Event] = deque()
        self._tasks = Spawner(self._failed)
        self._sign: Ping | Pong | None = None
        """The ping or pong to send next. A task sends it while reading continues, because a server may not read until
        its own messages are read."""
        self._sending = anyio.CancelScope()
        self._is_signing = False

    async def receive(self) -> str:
        """Return the next message. Raises SocketBroken."""
        try:
            while True:
                while not self._events:
                    await self._read()
                if (text := await self._handle(self._events.popleft())) is not None:
                    return text
        except (httpx.HTTPError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise SocketBroken(because(error)) from None
        except RemoteProtocolError as error:
            raise SocketBroken(f"the server violated the WebSocket protocol: {because(error)}", is_final=True) from None

    async def next(self) -> list[str]:
        """Wait for the next message. Return it with the messages that arrived at the same time. Raises SocketBroken."""
        if (error := self._error) is not None:
            self._error = None
            raise error
        texts = [await self.receive()]
        try:
            while self._events:
                if (text := await self._handle(self._events.popleft())) is not None:
                    texts.append(text)
        except SocketBroken as broken:
            self._error = broken  # The next call raises it: the caller gets the earlier messages first.
        return texts

    async def send(self, text: str) -> None:
        """Write one message. Raises SocketBroken."""
        try:
            await self._write(TextMessage(data=text))
        except Exception as error:
            if isinstance(error, SocketBroken):
                raise
            raise SocketBroken(because(error)) from None

    async def close(self) -> None:
        """Send a close frame and wait for the server's, unless the WebSocket is closing already."""
        self._sign = None
        self._sending.cancel()
        await self._tasks.wait_idle()
        if self._frames.state is ConnectionState.OPEN:
            await self._write(CloseConnection(code=_NORMAL))
            # Closing a socket with unread bytes resets it, and the close frame may be lost.
            while not self._is_closed():
                await self._read()

    def _is_closed(self) -> bool:
        return self._frames.state is ConnectionState.CLOSED

    def keep(self, stack: AsyncExitStack) -> None:
        """Keep the WebSocket open; `drop` closes `stack`, which holds its HTTP response."""
        self._stack = stack

    async def drop(self) -> None:
        """Close the network connection without a close frame. Pending reads and writes raise SocketBroken."""
        self._sign = None
        self._sending.cancel()
        with grace(_LAST_WORDS):
            await self._network.aclose()
        stack, self._stack = self._stack, None
        if stack is not None:
            with grace(_LAST_WORDS):
                await stack.aclose()

    async def _read(self) -> None:
        pause = self._limits.silence / _PINGS
        try:
            data = await self._network.read(_READ, timeout=pause)
        except Exception as error:
            # httpcore raises its own errors here. They are told apart by name, since httpcore is not a dependency.
            if type(error).__name__ != "ReadTimeout":
                raise SocketBroken(because(error)) from None
            self._silent += 1
            if self._silent > _PINGS:
                raise SocketBroken("the server has sent nothing for too long") from None
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
                raise SocketBroken("the connection broke")
            if self._frames.state is ConnectionState.OPEN:
                # While it is open, wsproto creates this event itself, for a frame that it cannot read.
                raise SocketBroken(f"the server violated the WebSocket protocol: {reason}", is_final=True)
            text = f"the server has closed the WebSocket (code {code}{': ' + reason if reason else ''})"
            raise SocketBroken(text, is_end=code == _NORMAL, is_final=code not in _PASSING)
        elif isinstance(event, TextMessage | BytesMessage):
            self._size += len(event.data)
            if self._size > self._limits.event:
                why = f"the server has sent a message of more than {self._limits.event} bytes"
                raise SocketBroken(why, is_final=True)
            if isinstance(event, TextMessage):
                # Binary messages are ignored: the transport has none.
                self._text.append(event.data)
            if event.message_finished:
                text, self._text, self._size = "".join(self._text), [], 0
                return text or None
        elif not isinstance(event, Pong):
            raise SocketBroken("the server violated the WebSocket protocol", is_final=True)
        return None

    def _signal(self, event: Ping | Pong) -> None:
        # Only the last one is sent: a pong for the last ping answers the earlier ones, too (RFC 6455, 5.5.3).
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
        # Not reported here, because the next read or write meets the same error.
        logger.debug("a ping or pong was not sent: %s", because(error))

    async def _write(self, event: Any) -> None:
        async with self._writing:
            try:
                data = self._frames.send(event)
            except LocalProtocolError:
                raise SocketBroken("the WebSocket is closed") from None
            await self._network.write(data)


class _Sent:
    """Keeps the messages that were sent on a connection, so that they can be repeated. `most`: the most characters that
    are kept, but at least one message."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._texts: deque[str] = deque()
        self._size = 0
        self.first = 1
        """The number of the first message that is kept."""

    @property
    def count(self) -> int:
        """Return the number of messages that were sent."""
        return self.first - 1 + len(self._texts)

    def add(self, text: str) -> None:
        """Keep another message. Above the limit the oldest messages are dropped."""
        self._texts.append(text)
        self._size += len(text)
        while self._size > self._most and len(self._texts) > 1:
            self._drop()

    def arrived(self, count: int) -> bool:
        """Drop the first `count` messages, which have arrived.

        Returns False if the next message is not kept any more, or if fewer than `count` messages were sent.
        """
        while self._texts and self.first <= count:
            self._drop()
        return self.first - 1 <= count <= self.count

    def __getitem__(self, number: int) -> str:
        return self._texts[number - self.first]

    def _drop(self) -> None:
        self._size -= len(self._texts.popleft())
        self.first += 1


class WebSocketStream:
    """A `Stream` (`acp_server.peer.stream`) over WebSocket. The first message opens the connection.

    `problem` is the reason of the end, or None if `aclose` ended it.
    """

    def __init__(self, exchanges: Exchanges, limits: ClientLimits, backoff: Backoff) -> None:
        self._exchanges = exchanges
        self._name = exchanges.address.name
        self._limits = limits
        self._backoff = backoff
        self._socket: _Socket | None = None
        """The present WebSocket. It is None before the first one was opened and after one has broken."""
        self._opened = anyio.Event()
        self._connecting = anyio.Lock()
        self._scope = anyio.CancelScope()
        """The scope of the attempts to connect."""
        self._connection = ""
        self._is_repeatable = False
        """Whether the server counts the messages that have arrived (`Acp-Repeatable`)."""
        self._sent = _Sent(limits.unsent)
        self._cursor = ""
        """The cursor of the last message, or empty."""
        self._has_heard = False
        """Whether a message has arrived since the last break. The backoff then begins anew."""
        self._delays = backoff.delays()
        self._why = ""
        """The reason of the last break."""
        self._old: _Socket | None = None
        """The WebSocket that broke, until it is dropped."""
        self._is_over = False
        self.problem: str | None = None

    async def receive(self) -> bytes:
        """Return the next messages, as lines; `b""` once the server has closed the WebSocket with code 1000.

        Raises anyio's BrokenResourceError once the stream has ended in another way.
        """
        await self._opened.wait()
        while True:
            socket = await self._current()
            try:
                texts = await socket.next()
            except SocketBroken as error:
                if error.is_end and not self._is_over:
                    self._end(f"{self._name}: {error}")
                    return b""
                self._broken(socket, error)
                continue
            self._has_heard = True
            return b"".join(map(self._taken, texts))

    def _taken(self, text: str) -> bytes:
        # A frame is one message, even if its JSON has line breaks between values.
        message, cursor = without_cursor(text.replace("\n", " ").replace("\r", " ").encode())
        self._cursor = cursor or self._cursor
        return message + b"\n"

    async def send(self, data: bytes) -> None:
        """Send a text frame for each line. Raises anyio's BrokenResourceError once the stream has ended."""
        for each in data.split(b"\n"):
            if each:
                await self._send(each.decode(errors="replace"))

    async def aclose(self) -> None:
        """Close the WebSocket and the HTTP client. Idempotent."""
        socket = self._socket or self._old
        self._end(None)
        try:
            if socket is not None:
                with grace(_LAST_WORDS):
                    await socket.close()
        except Exception as error:
            logger.debug("the closing handshake of the WebSocket failed: %s", because(error))
        finally:
            if socket is not None:
                await socket.drop()
            with grace(_LAST_WORDS):
                await self._exchanges.aclose()

    async def _send(self, text: str) -> None:
        socket = await self._current()
        self._sent.add(text)
        number = self._sent.count
        try:
            await socket.send(text)
        except SocketBroken as error:
            self._broken(socket, error)
            # The next WebSocket repeats the message.
            await self._current()
            if not self._is_repeatable or self._sent.count < number:
                raise anyio.BrokenResourceError(self.problem or "closed") from None

    # -- its WebSockets

    async def _current(self) -> _Socket:
        """Return the present WebSocket. If needed, open one and first send all earlier messages on it.

        Raises anyio's BrokenResourceError if the stream has ended.
        """
        if self._socket is None and not self._is_over:
            async with self._connecting:
                if self._socket is None and not self._is_over:
                    with anyio.CancelScope() as self._scope:
                        await self._connect()
        if self._socket is None or self._is_over:
            raise anyio.BrokenResourceError(self.problem or "closed")
        return self._socket

    def _broken(self, socket: _Socket, error: SocketBroken) -> None:
        """Record that a WebSocket broke. End the stream if the client must not reconnect."""
        if self._socket is not socket or self._is_over:
            return  # Noted before.
        if error.is_final or not self._is_repeatable:
            self._end(f"{self._name}: {error}")
            return
        logger.info("the connection broke; reconnecting: %s", error)
        self._why = str(error)
        self._socket, self._old = None, socket

    async def _connect(self) -> None:
        """Open a WebSocket and resume the connection, with backoff. Ends the stream if that fails."""
        if (old := self._old) is not None:
            self._old = None
            await old.drop()
        if self._has_heard:
            self._has_heard = False
            self._delays = self._backoff.delays()
        is_first = self._connection == ""
        while not self._is_over:
            if not is_first and not await self._pause():
                return
            try:
                await self._attempt()
                return
            except (SocketBroken, httpx.HTTPError, TooManyCookies) as error:
                self._why = because(error)
                is_final = isinstance(error, TooManyCookies) or (isinstance(error, SocketBroken) and error.is_final)
                # A first attempt is repeated if it may have reached the server. If it cannot have, the stream ends.
                if is_final or (is_first and isinstance(error, NOT_SENT)):
                    self._end(f"{self._name} cannot be reached ({self._why})")
                is_first = False

    async def _pause(self) -> bool:
        delay = next(self._delays, None)
        if delay is None:
            often = f"the connection to {self._name} broke too often ({self._why})"
            self._end(often if self._connection else f"{self._name} cannot be reached ({self._why})")
            return False
        await anyio.sleep(delay)
        return True

    async def _attempt(self) -> None:
        """Make one attempt to connect. Raises SocketBroken, httpx.HTTPError and TooManyCookies."""
        async with AsyncExitStack() as stack:
            opened = await self._open(stack)
            if opened is None:
                return
            socket, headers = opened
            # Closes the WebSocket if the attempt fails or is cancelled.
            stack.push_async_callback(socket.drop)
            if not self._connection or not await self._resume(socket):
                if self._is_over:
                    return
                self._connection = headers.get(CONNECTION, "")
                self._is_repeatable = headers.get(REPEATABLE, "").lower() == "true" and bool(self._connection)
                await self._send_from(socket, 1)
            socket.keep(stack.pop_all())
            self._socket = socket
            self._opened.set()

    async def _resume(self, socket: _Socket) -> bool:
        """Resume the connection. Returns False if that failed.

        Then the stream has ended, or the client begins a new connection, because no message can be lost.
        """
        await socket.send(resume(self._connection, self._cursor).decode())
        answer = read_answer((await socket.receive()).encode())
        if isinstance(answer, int) and self._sent.arrived(answer):
            await self._send_from(socket, answer + 1)
            return True
        if isinstance(answer, str) and not self._cursor and self._sent.count <= 1:
            return False
        why = one_line(answer, 200) if isinstance(answer, str) else "it does not know what has arrived"
        self._end(f"the connection to {self._name} broke, and messages are lost ({why})")
        return False

    async def _send_from(self, socket: _Socket, number: int) -> None:
        while number <= self._sent.count:
            await socket.send(self._sent[number])
            number += 1

    async def _open(self, stack: AsyncExitStack) -> tuple[_Socket, httpx.Headers] | None:
        """Open a WebSocket, and return it with the headers of its response. Return None if it was refused, which ends
        the stream.

        Raises SocketBroken if the server may accept the WebSocket later.
        """
        key = base64.b64encode(secrets.token_bytes(16))
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Version": "13",
        }
        if self._connection:
            headers[CONNECTION] = self._connection
        response = await stack.enter_async_context(self._exchanges.open("GET", headers))
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            why = refusal(response, await body_of(response, 1024), self._exchanges.address)
            if self._connection and (response.status_code >= 500 or "retry-after" in response.headers):
                raise SocketBroken(why)
            self._end(why)
            return None
        if response.headers.get("sec-websocket-accept", "").encode() != _accept(key):
            self._end(f"{self._name} did not complete the handshake of WebSocket")
            return None
        return _Socket(response, self._limits), response.headers

    def _end(self, problem: str | None) -> None:
        if not self._is_over:
            self._is_over = True
            self.problem = problem
            self._opened.set()
            self._scope.cancel()
            if problem is not None:
                logger.info("the connection to a remote agent has ended: %s", problem)


def _accept(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())

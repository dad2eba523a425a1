"""WebSockets: messages in frames of any size, pings, closes, and clients that do not keep to the rules."""

import logging
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from acp_server.http.asgi import CALLER, MORE
from acp_server.http.connection import HttpConnection, HttpLimits
from acp_server.http.listener import Places
from acp_server.http.server import Server
from acp_server.http.websocket import Unfinished, WebSocketLimits

from .websocket_client import websocket

pytestmark = pytest.mark.anyio


class Echo:
    """Says again what it hears."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.scope: dict[str, Any] = {}
        self.left = anyio.Event()
        self.go: anyio.Event | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        self.scope = scope
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        assert (await receive())["type"] == "websocket.connect"
        await self._accept(send)
        try:
            await self._echo(receive, send)
        finally:
            self.left.set()

    async def _accept(self, send: Any) -> None:
        await send({"type": "websocket.accept", "headers": [(b"acp-connection-id", b"7")]})

    async def _echo(self, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "fail":
                raise ValueError("as asked")
            if message.get("text") == "bye":
                await send({"type": "websocket.close", "code": 4001, "reason": "so"})
                return
            if self.go is not None:
                await self.go.wait()
            await send({**message, "type": "websocket.send"})
        self.codes.append(message["code"])


@asynccontextmanager
async def serving(app: Any, tls: Any = None, **limits: Any) -> AsyncIterator[tuple[int, Server]]:
    server = Server(app, Places(100), HttpLimits(), websocket=WebSocketLimits(**limits), tls=tls)
    listening = socket.create_server(("127.0.0.1", 0))
    with listening, anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, [listening])
            yield listening.getsockname()[1], server
            server.hurry()


def frame(first: int, payload: bytes, *, masked: bool = True) -> bytes:
    """A frame as it is on the wire, with a mask of zeros."""
    mask = 0x80 if masked else 0
    if len(payload) < 126:
        head = bytes([first, mask | len(payload)])
    elif len(payload) < 65536:
        head = bytes([first, mask | 126]) + struct.pack("!H", len(payload))
    else:
        head = bytes([first, mask | 127]) + struct.pack("!Q", len(payload))
    return head + (bytes(4) if masked else b"") + payload


FIN, RSV1, CONT, TEXT = 0x80, 0x40, 0, 1


async def test_messages_come_and_go_whole_however_they_are_cut() -> None:
    async with serving(app := Echo()) as (port, _), websocket(port) as client:
        assert await client.open() == 101
        assert dict(client.answer.extra_headers)[b"acp-connection-id"] == b"7"
        assert not client.answer.extensions
        await client.send(TextMessage(data="hello"))
        assert await client.text() == "hello"
        await client.send(BytesMessage(data=b"\0\1"))
        assert await client.event() == BytesMessage(data=bytearray(b"\0\1"))
        text = "ü€𝄞" * 30_000
        data = text.encode()
        pieces = [data[begin : begin + 7] for begin in range(0, len(data), 7)]
        whole = frame(TEXT, pieces[0]) + b"".join(frame(CONT, piece) for piece in pieces[1:])
        # A ping in the midst of a message, and an empty piece.
        whole += frame(FIN | 9, b"now") + frame(CONT, b"") + frame(FIN | CONT, b".")
        await client.stream.send(whole)
        assert await client.text() == text + "."
        if not client.pongs:
            pong = await client.event()
            assert isinstance(pong, Pong)
            client.pongs.append(bytes(pong.payload))
        assert client.pongs == [b"now"]
        await client.send(CloseConnection(code=1000))
        assert await client.code() == 1000
        await app.left.wait()
        assert app.codes == [1000]
        assert app.scope["type"] == "websocket"
        assert (app.scope["scheme"], app.scope["path"]) == ("ws", "/acp")


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 200_000])
async def test_a_message_of_any_size_is_one_frame(size: int) -> None:
    async with serving(Echo()) as (port, _), websocket(port) as client:
        await client.open()
        await client.send(TextMessage(data="x" * size))
        got = b""
        while len(got) < len(frame(FIN | TEXT, b"x" * size, masked=False)):
            got += await client.stream.receive()
        assert got == frame(FIN | TEXT, b"x" * size, masked=False)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(FIN | TEXT, b"x" * 1001), 1009),
        (frame(TEXT, b"x" * 600) + frame(CONT, b"x" * 600), 1009),
        (frame(FIN | TEXT, b"x" * 1001)[:8] + b"x" * 2000, 1009),
        (frame(FIN | RSV1 | TEXT, b"\xab\x56\x4a\x04\x00"), 1002),
        (frame(FIN | TEXT, b"\xff\xfe"), 1007),
        (frame(FIN | TEXT, b"x", masked=False), 1002),
        (frame(FIN | CONT, b"x"), 1002),
        (frame(TEXT, b"x") + frame(FIN | TEXT, b"x"), 1002),
        (frame(FIN | 3, b"x"), 1002),
        (frame(FIN | 9, b"x" * 126), 1002),
        (frame(9, b"x"), 1002),
        (frame(FIN | 8, struct.pack("!H", 1005)), 1002),
    ],
    ids=[
        *("giant", "fragments", "giant-in-pieces", "compressed", "not-utf-8", "unmasked", "continues-nothing"),
        *("interrupted", "unknown", "long-ping", "ping-in-pieces", "close-that-is-none"),
    ],
)
async def test_a_client_that_breaks_the_rules_is_told_so_and_is_gone_for_the_application(
    data: bytes, code: int
) -> None:
    async with serving(app := Echo(), message_bytes=1000) as (port, _), websocket(port) as client:
        assert await client.open() == 101
        await client.stream.send(data)
        assert await client.code() == code
        await app.left.wait()
        assert app.codes == [code]


async def test_a_client_that_vanishes_is_gone_for_the_application() -> None:
    async with serving(app := Echo()) as (port, _):
        async with websocket(port) as client:
            await client.open()
        await app.left.wait()
        assert app.codes == [1006]


async def test_a_client_that_answers_no_ping_is_gone() -> None:
    async with serving(app := Echo(), ping_seconds=0.02) as (port, _), websocket(port) as client:
        await client.open()
        await app.left.wait()
        assert app.codes == [1006]


async def test_a_client_that_answers_pings_stays() -> None:
    async with serving(app := Echo(), ping_seconds=0.2) as (port, _), websocket(port) as client:
        await client.open()
        for _ in range(3):
            ping = await client.event()
            assert isinstance(ping, Ping)
            await client.send(ping.response())
        assert not app.left.is_set()


async def test_a_client_that_reads_nothing_is_heard_all_the_same() -> None:
    """Its pings are answered when it reads; what it sends does not wait for that."""
    heard = 0
    done = anyio.Event()

    class Flooding(Echo):
        async def _echo(self, receive: Any, send: Any) -> None:
            nonlocal heard
            async with anyio.create_task_group() as group:

                async def flood() -> None:
                    while True:
                        await send({"type": "websocket.send", "text": "x" * 100_000})

                group.start_soon(flood)
                while (message := await receive()).get("text") != "last":
                    heard += message["type"] == "websocket.receive"
                group.cancel_scope.cancel()
            done.set()

    async with serving(Flooding()) as (port, _), websocket(port) as client:
        await client.open()
        for _ in range(1000):
            await client.stream.send(frame(FIN | 9, b"x" * 100) + frame(FIN | TEXT, b"more"))
        await client.stream.send(frame(FIN | TEXT, b"last"))
        await done.wait()
        assert heard == 1000


async def test_an_application_that_says_goodbye_is_understood() -> None:
    async with serving(Echo()) as (port, _), websocket(port) as client:
        await client.open()
        await client.send(TextMessage(data="bye"))
        assert await client.event() == CloseConnection(code=4001, reason="so")


async def test_an_application_that_fails_is_a_close(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with serving(Echo()) as (port, _), websocket(port) as client:
        await client.open()
        await client.send(TextMessage(data="fail"))
        assert await client.code() == 1011


async def test_a_server_that_ends_says_so() -> None:
    async with serving(app := Echo()) as (port, server), websocket(port) as client:
        await client.open()
        await client.send(TextMessage(data="hello"))
        assert await client.text() == "hello"
        server.end()
        assert await client.code() == 1001
        await app.left.wait()
        assert app.codes == [1001]


class Refusing(Echo):
    def __init__(self, *answer: dict[str, Any]) -> None:
        super().__init__()
        self._answer = answer

    async def _accept(self, send: Any) -> None:
        for message in self._answer:
            await send(message)

    async def _echo(self, receive: Any, send: Any) -> None:
        pass


async def test_an_application_that_does_not_let_a_client_in_says_why() -> None:
    app = Refusing(
        {"type": "websocket.http.response.start", "status": 401, "headers": [(b"content-length", b"2")]},
        {"type": "websocket.http.response.body", "body": b"no"},
    )
    async with serving(app) as (port, _), websocket(port) as client:
        assert await client.open() == 401
        assert await client.body() == b"no"
    async with serving(Refusing({"type": "websocket.close"})) as (port, _), websocket(port) as client:
        assert await client.open() == 403
    async with serving(Refusing()) as (port, _), websocket(port) as client:
        assert await client.open() == 500


UPGRADE = b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /acp HTTP/1.1\r\n" + UPGRADE, 400),
        (b"GET /acp HTTP/1.1\r\n" + UPGRADE + KEY.replace(b"13", b"8"), 426),
        (b"POST /acp HTTP/1.1\r\n" + UPGRADE + KEY + b"Content-Length: 0\r\n", 400),
        (b"GET /acp HTTP/1.1\r\n" + UPGRADE + KEY + b"Content-Length: 2\r\n", 400),
        (b"GET /acp HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n", 200),
    ],
    ids=["no-key", "old", "post", "body", "another-protocol"],
)
async def test_a_handshake_that_is_none_is_refused(head: bytes, status: int) -> None:
    async with serving(Echo()) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(head + b"\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Host: \xff", 101),
        (b"Host: " + b"a" * 64, 101),
        (b"Host: a..b", 101),
        (b"Host: xn--\xff", 101),
        (b"Host: x\r\nSec-WebSocket-Protocol: \xff", 400),
        (b"Host: x\r\nSec-WebSocket-Extensions: \xff", 400),
        (b"Host: x\r\nConnection: \xff", 400),
        (b"Host: x\r\nSec-WebSocket-Key: \xff", 101),
        (b"Host: x\r\nSec-WebSocket-Extensions: permessage-deflate", 101),
    ],
)
async def test_a_handshake_of_any_bytes_is_answered_and_the_server_goes_on(header: bytes, status: int) -> None:
    name = header.rpartition(b"\n")[2].partition(b":")[0] + b":"
    rest = b"".join(line for line in (UPGRADE + KEY).splitlines(keepends=True) if not line.startswith((b"Host:", name)))
    async with serving(app := Echo()) as (port, _):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET /acp HTTP/1.1\r\n" + header + b"\r\n" + rest + b"\r\n")
            answer = await stream.receive()
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"deflate" not in answer
        if status == 101:
            host = dict(app.scope["headers"])[b"host"]
            assert header.startswith(b"Host: " + host)
        async with websocket(port) as client:
            assert await client.open() == 101


async def test_a_connection_that_fails_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with serving(Echo()) as (port, _), websocket(port) as client:
        assert await client.open() == 101
        with pytest.MonkeyPatch.context() as patch:

            async def fail(connection: HttpConnection) -> None:
                connection.abort()
                raise ValueError("a fault of ours")

            patch.setattr(HttpConnection, "serve", fail)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                assert not [data async for data in stream]
        await client.send(TextMessage(data="hello"))
        assert await client.text() == "hello"


async def test_messages_that_are_not_whole_are_bounded_together_and_the_longest_gives_way() -> None:
    app = Echo()
    async with (
        serving(app, unfinished=Unfinished(100_000)) as (port, _),
        websocket(port) as small,
        websocket(port) as large,
    ):
        for client, size in ((small, 10_000), (large, 80_000)):
            assert await client.open() == 101
            await client.stream.send(frame(TEXT, b"x" * size))
            await client.send(Ping())
            assert await client.event() == Pong()
        # The one that is longest is closed, and not the one that has said the last word.
        await small.stream.send(frame(CONT, b"x" * 30_000))
        assert await large.code() == 1013
        await small.stream.send(frame(FIN | CONT, b"."))
        assert await small.text() == "x" * 40_000 + "."
        # What was held counts no more.
        for _ in range(10):
            await small.stream.send(frame(TEXT, b"x" * 90_000) + frame(FIN | CONT, b"."))
            assert await small.text() == "x" * 90_000 + "."
        await small.stream.send(frame(TEXT, b"x" * 90_000))
        await small.stream.send(frame(CONT, b"x" * 20_000))
        assert await small.code() == 1013


async def test_tens_of_thousands_of_empty_pieces_and_pings_are_one_message_and_as_many_pings() -> None:
    async with serving(Echo()) as (port, _), websocket(port) as client, websocket(port) as other:
        assert await client.open() == await other.open() == 101
        async with anyio.create_task_group() as group:

            async def pieces() -> None:
                await client.stream.send(frame(TEXT, b"a"))
                for _ in range(100):
                    await client.stream.send((frame(CONT, b"") + frame(FIN | 9, b"")) * 300)
                await client.stream.send(frame(FIN | CONT, b"b"))

            group.start_soon(pieces)
            await other.send(TextMessage(data="meanwhile"))
            assert await other.text() == "meanwhile"
            assert await client.text() == "ab"


@pytest.mark.parametrize("close", [*(struct.pack("!H", code) for code in (0, 999, 1004, 1015, 2999, 5000)), b"\x03"])
async def test_a_close_that_says_what_none_may_say_is_a_close(close: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(app := Echo()) as (port, _), websocket(port) as client:
        assert await client.open() == 101
        await client.stream.send(frame(FIN | 8, close))
        assert await client.code() == 1002
        await app.left.wait()
    assert not caplog.records


async def test_a_frame_that_comes_with_the_handshake_is_not_lost() -> None:
    async with serving(Echo()) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        head = b"GET /acp HTTP/1.1\r\n" + UPGRADE + KEY + b"\r\n"
        await stream.send(head + frame(FIN | TEXT, b"early"))
        received = b""
        while b"early" not in received:
            received += await stream.receive()
        assert received.startswith(b"HTTP/1.1 101 ")


async def test_messages_of_one_caller_that_are_not_whole_do_not_push_out_a_longer_one_of_another() -> None:
    class Known(Echo):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "websocket":
                scope["state"][CALLER] = dict(scope["headers"])[b"x-caller"]
            await super().__call__(scope, receive, send)

    async with AsyncExitStack() as stack:
        port, _ = await stack.enter_async_context(serving(Known(), unfinished=Unfinished(100_000)))
        mine, *theirs = [await stack.enter_async_context(websocket(port)) for _ in range(5)]
        assert await mine.open(x_caller="ann") == 101
        await mine.stream.send(frame(TEXT, b"x" * 40_000))
        for client in theirs:
            assert await client.open(x_caller="bob") == 101
            await client.stream.send(frame(TEXT, b"x" * 20_000))
        codes: list[int] = []

        async def note(client: Any) -> None:
            codes.append(await client.code())
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for client in theirs:
                tasks.start_soon(note, client)
        assert codes == [1013]
        await mine.stream.send(frame(FIN | CONT, b"."))
        assert await mine.text() == "x" * 40_000 + "."


async def test_messages_that_follow_at_once_are_written_together_and_stay_in_order() -> None:
    class Burst(Echo):
        async def _echo(self, receive: Any, send: Any) -> None:
            await receive()
            for number in range(100):
                await send({"type": "websocket.send", "text": f"small {number}", MORE: number < 99})
            for number in range(4):
                await send({"type": "websocket.send", "text": f"{number}" * 50_000, MORE: True})
            await send({"type": "websocket.close", "code": 4001})

    async with serving(Burst()) as (port, _), websocket(port) as client:
        assert await client.open() == 101
        await client.send(TextMessage(data="go"))
        first = await client.stream.receive()
        assert first.count(b"small") == 100
        client.feed(first)
        assert [await client.text() for _ in range(100)] == [f"small {number}" for number in range(100)]
        assert [await client.text() for _ in range(4)] == [f"{number}" * 50_000 for number in range(4)]
        assert await client.code() == 4001

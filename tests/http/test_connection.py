"""One connection: how long it may be silent or take nothing, and the answer to what is not HTTP."""

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream

from acp_server.http.connection import HttpConnection, HttpLimits
from acp_server.http.listener import Places
from acp_server.http.server import Server
from acp_server.http.sockets import SocketStream as OurStream

PATIENCE = 20.0

pytestmark = pytest.mark.anyio

Connect = Callable[[], Awaitable[SocketStream]]
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Answers when it is let to, with as much as it is told."""

    def __init__(self) -> None:
        self.may_answer = anyio.Event()
        self.asked = anyio.Event()
        self.left = anyio.Event()
        self.size = 2
        self.piece = 65536
        self.scope: dict[str, Any] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        self.scope = scope
        self.asked.set()
        try:
            await self._answer(receive, send)
        finally:
            self.left.set()

    async def _answer(self, receive: Any, send: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, receive, group.cancel_scope)
            await self.may_answer.wait()
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % self.size)]}
            )
            for begin in range(0, self.size, self.piece):
                body = b"ok" * (min(self.piece, self.size - begin) // 2)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            group.cancel_scope.cancel()

    async def _watch(self, receive: Any, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()


class Refusing(App):
    """Answers at once and reads no body."""

    async def _answer(self, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def serve(app: App, places: Places | None = None, **limits: float) -> AsyncIterator[Connect]:
    server = Server(app, places or Places(1000), HttpLimits(**limits))
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]

    async def connect() -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", port)

    with listening, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, [listening])
            yield connect
            app.may_answer.set()
            server.hurry()


async def all_of(stream: SocketStream) -> bytes:
    """What comes until the connection ends."""
    received = b""
    try:
        async for piece in stream:
            received += piece
    except anyio.BrokenResourceError:
        pass
    return received


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "line", "head"])
async def test_a_request_whose_head_does_not_arrive_is_waited_for_only_so_long(begun: bytes) -> None:
    async with serve(app := App(), idle_seconds=0.05) as connect, await connect() as stream:
        if begun:
            await stream.send(begun)
        assert await all_of(stream) == b""
        assert not app.asked.is_set()


async def test_a_head_that_drips_is_waited_for_no_longer() -> None:
    async with serve(App(), idle_seconds=0.05) as connect, await connect() as stream:
        with pytest.raises(anyio.BrokenResourceError):  # noqa: PT012
            while True:
                await stream.send(b"x")
                await anyio.sleep(0.005)


async def test_a_connection_without_a_further_request_is_ended_and_one_that_is_answered_is_not() -> None:
    async with serve(app := App(), idle_seconds=0.05) as connect, await connect() as stream:
        await stream.send(GET)
        await app.asked.wait()
        await anyio.sleep(0.1)  # longer than it may be without a request
        assert not app.left.is_set()
        app.may_answer.set()
        received = await all_of(stream)
        assert received.count(b"HTTP/1.1 200") == 1
        assert received.endswith(b"ok")


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    app = App()
    app.size = 1 << 30
    app.may_answer.set()
    async with serve(app, send_seconds=0.05) as connect, await connect() as stream:
        await stream.send(GET)
        await app.left.wait()
        assert len(await all_of(stream)) < app.size


async def test_a_client_that_is_slow_and_takes_all_of_it_is_not() -> None:
    app = App()
    app.size = 8 << 20
    app.may_answer.set()
    async with serve(app, send_seconds=0.5, idle_seconds=0.05) as connect, await connect() as stream:
        await stream.send(GET)
        assert len(await all_of(stream)) > app.size


async def test_the_time_for_an_answer_in_one_piece_begins_anew_with_each_part_that_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []

    def noted(seconds: float) -> anyio.CancelScope:
        limits.append(seconds)
        return anyio.CancelScope()

    ours, theirs = socket.socketpair()
    with theirs:
        stream = OurStream(ours, 7)
        theirs.setblocking(False)
        data = b"x" * (4 << 20)
        monkeypatch.setattr(anyio, "move_on_after", noted)
        taken = 0
        async with anyio.create_task_group() as group:
            group.start_soon(stream.send, data)
            while taken < len(data):
                await anyio.wait_readable(theirs)
                taken += len(theirs.recv(65536))
        stream.abort()
    assert len(limits) > 3
    assert {*limits} == {7}


@pytest.mark.parametrize(
    "text",
    [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x: y\r\n" * 20_000,
    ],
    ids=lambda text: repr(text[:12]),
)
async def test_what_is_not_http_is_told_so(text: bytes) -> None:
    async with serve(App()) as connect, await connect() as stream:
        await stream.send(text)
        head, _, body = (await all_of(stream)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert body == b"The request is not valid HTTP.\n"


async def test_garbage_in_a_body_whose_request_is_answered_already_just_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App()
    app.may_answer.set()
    async with serve(app) as connect, await connect() as stream:
        await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        received = b""
        while not received.endswith(b"ok"):
            received += await stream.receive()
        await stream.send(b"no chunk\r\n")
        assert await all_of(stream) == b""
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_offer_of_another_protocol_is_answered_in_this_one() -> None:
    app = App()
    app.may_answer.set()
    more = b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
    async with serve(app, idle_seconds=0.05) as connect, await connect() as stream:
        await stream.send(GET[:-2] + more)
        assert (await all_of(stream)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/v3/chat?a=b", "/v3/chat", b"a=b"),
        (b"http://127.0.0.1:8000/v3/chat?a=http://x/y", "/v3/chat", b"a=http://x/y"),
        (b"HTTPS://example.org/v1/a%20b//c", "/v1/a b//c", b""),
        (b"http://example.org", "/", b""),
        (b"http://example.org?a=b", "/", b"a=b"),
        (b"/http://x/y", "/http://x/y", b""),
        (b"*", "*", b""),
    ],
)
async def test_a_request_may_name_the_path_or_the_whole_url(target: bytes, path: str, query: bytes) -> None:
    app = App()
    app.may_answer.set()
    async with serve(app) as connect, await connect() as stream:
        await stream.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await all_of(stream)).startswith(b"HTTP/1.1 200")
    assert (app.scope["path"], app.scope["query_string"]) == (path, query)
    assert app.scope["raw_path"].startswith(b"/") or target == b"*"


async def test_the_second_part_of_an_answer_does_not_wait_for_the_client_to_confirm_the_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        mine, _ = listening.accept()
    with mine:
        HttpConnection(App(), mine, HttpLimits())
        assert mine.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "text",
    [
        POST + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"Content-Length: 2, 2\r\n\r\n{}",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\tc\r\n\r\n",
    ],
    ids=["both", "both, small", "repeated", "list", "1.0", "LF", "one LF", "last LF", "folded", "folded, tab"],
)
@pytest.mark.parametrize("pieces", ["whole", "bytes"])
async def test_a_request_that_can_be_read_in_two_ways_is_refused_and_nothing_is_read_behind_it(
    text: bytes, pieces: str
) -> None:
    app = App()
    app.may_answer.set()
    async with serve(app) as connect, await connect() as stream:
        try:
            for piece in [text + SMUGGLED] if pieces == "whole" else [bytes([byte]) for byte in text + SMUGGLED]:
                await stream.send(piece)
        except anyio.BrokenResourceError:
            assert pieces == "bytes"  # It was refused in the middle.
        received = await all_of(stream)
    assert not app.asked.is_set()
    if pieces == "whole":
        assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b"0\r\n\n", b"0\r\nA: b\n\n", b"0\r\nA: b\r\n c\r\n\r\n"])
async def test_nothing_is_read_behind_a_body_whose_end_is_in_its_encoding(end: bytes) -> None:
    app = App()
    app.may_answer.set()
    async with serve(app) as connect, await connect() as stream:
        await stream.send(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n" + end + SMUGGLED)
        received = await all_of(stream)
    assert received.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in received
    assert app.scope["path"] == "/"


async def test_requests_one_behind_the_other_are_answered_one_after_the_other() -> None:
    app = App()
    app.may_answer.set()
    second = b"GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with serve(app) as connect, await connect() as stream:
        await stream.send(POST + b"Content-Length: 4\r\n\r\n\n\n\r\n" + second)
        assert (await all_of(stream)).count(b"HTTP/1.1 200") == 2
    assert app.scope["path"] == "/second"


async def test_what_a_client_sends_at_once_is_taken_in_small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of one byte costs as much as a large one, and all that is taken at once is parsed at once."""
    portions: list[int] = []
    take = OurStream.receive

    async def noted(self: OurStream) -> bytes:
        data = await take(self)
        portions.append(len(data))
        return data

    monkeypatch.setattr(OurStream, "receive", noted)
    app = App()
    async with serve(app) as connect, await connect() as stream:
        body = b"1\r\n \r\n" * 10_000 + b"0\r\n\r\n"
        await stream.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        app.may_answer.set()
        assert (await all_of(stream)).startswith(b"HTTP/1.1 200")
    assert max(portions) <= 16 * 1024


@pytest.mark.parametrize(
    ("announced", "size", "is_last"),
    [
        ("Accept: */*", 0, False),
        ("Content-Length: 65536", 65536, False),
        ("Content-Length: 65537", 65537, True),
        ("Content-Length: 2\r\nExpect: 100-continue", 2, True),
        ("Transfer-Encoding: chunked", 5, True),
    ],
)
async def test_an_answer_says_whether_the_connection_is_closed_over_an_unread_body(
    announced: str, size: int, is_last: bool
) -> None:
    async with serve(Refusing()) as connect, await connect() as stream:
        await stream.send(f"POST / HTTP/1.1\r\nHost: x\r\n{announced}\r\n\r\n".encode())
        head = await stream.receive()
        assert head.startswith(b"HTTP/1.1 400")
        assert (b"connection: close" in head) == is_last
        if not is_last:
            await stream.send(b" " * size + GET)
            assert (await stream.receive()).startswith(b"HTTP/1.1 400")

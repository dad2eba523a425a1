"""A client over WebSocket, and servers that do as they like."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from acp_server.client import Handlers, RemoteAgent
from acp_server.errors import ConnectionClosed
from acp_server.remote import Backoff, ClientLimits, connect_url, connect_ws
from acp_server.schema import RequestPermissionRequest, RequestPermissionResponse

from . import PATIENCE

pytestmark = pytest.mark.anyio

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Server:
    """The server's side of one WebSocket. `head` is what it answers the request with, if not as the rules say."""

    def __init__(self) -> None:
        self.url = ""
        self.head: bytes | None = None
        self.request: dict[str, str] = {}
        self.heard: list[Event] = []
        self.met = anyio.Event()
        self._changed = anyio.Event()
        self._stream: anyio.abc.SocketStream
        self._frames = Connection(ConnectionType.SERVER)

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await self._shake_hands(stream)
                while data := await stream.receive():
                    self._frames.receive_data(data)
                    self.heard += self._frames.events()
                    self._changed.set()
                    self._changed = anyio.Event()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the client has gone

    async def say(self, *events: Any) -> None:
        for event in events:
            await self._stream.send(self._frames.send(event))

    def frame(self, event: Any) -> bytes:
        return self._frames.send(event)

    async def raw(self, data: bytes) -> None:
        await self._stream.send(data)

    async def cut(self) -> None:
        await self._stream.aclose()

    async def hears(self, kind: type[Event], number: int = 1) -> Any:
        """The `number`th event of this kind."""
        with anyio.fail_after(PATIENCE):
            while len(found := [event for event in self.heard if isinstance(event, kind)]) < number:
                await self._changed.wait()
        return found[number - 1]

    async def initialized(self) -> None:
        await self.answer(1, {"protocolVersion": 1})

    async def answer(self, number: int, result: Any) -> None:
        """Answer the `number`th message."""
        id = json.loads((await self.hears(TextMessage, number)).data)["id"]
        await self.say(TextMessage(data=json.dumps({"jsonrpc": "2.0", "id": id, "result": result})))

    async def _shake_hands(self, stream: anyio.abc.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        lines = data.decode().split("\r\n")[1:]
        self.request = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        accept = base64.b64encode(hashlib.sha1(self.request["sec-websocket-key"].encode() + GUID).digest())
        head = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        head += b"Acp-Connection-Id: c1\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        self._stream = stream
        await stream.send(self.head or head)
        self.met.set()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.url = f"ws://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/acp"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.serve)
        with anyio.fail_after(2 * PATIENCE):
            yield server
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def talking(
    handlers: Handlers | None = None, bounds: ClientLimits | None = None
) -> AsyncIterator[tuple[Server, RemoteAgent]]:
    async with serving() as server, connect_ws(server.url, handlers, bounds=bounds) as agent:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.initialize)
            await server.initialized()
        yield server, agent


async def lost(agent: RemoteAgent) -> str:
    """Why the next request is lost."""
    with pytest.raises(ConnectionClosed) as error:
        await agent.request("_x", {})
    return str(error.value.reason)


async def test_token_and_headers_go_with_the_request_and_each_message_is_a_text_frame() -> None:
    async with serving() as server, connect_ws(server.url, token="secret", headers={"X-Team": "a"}) as agent:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.initialize)
            await server.initialized()
        assert (server.request["authorization"], server.request["x-team"]) == ("Bearer secret", "a")
        assert "sec-websocket-extensions" not in server.request
        agent.notify("_a", {"text": "ä"})
        agent.notify("_b", {})
        assert (await server.hears(TextMessage, 2)).data == '{"jsonrpc":"2.0","method":"_a","params":{"text":"ä"}}'
        assert '"_b"' in (await server.hears(TextMessage, 3)).data
    assert (await server.hears(CloseConnection)).code == 1000


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nwhy", "token.*status 401: why"),
        (b"HTTP/1.1 302 No\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n", "redirects to http://other"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "status 200"),
        (b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "not complete the handshake"),
        (b"nonsense\r\n\r\n", "cannot be reached"),
    ],
)
async def test_a_server_that_does_not_let_it_in_ends_the_connection_in_words(head: bytes, said: str) -> None:
    backoff = Backoff(attempts=2, first=0.0)
    async with serving() as server, connect_ws(server.url, token="secret", backoff=backoff) as agent:
        server.head = head
        with pytest.raises(ConnectionClosed, match=f"initialize was answered: .*{said}"):
            await agent.initialize()


async def test_a_message_may_come_in_parts_and_over_several_lines_and_binary_ones_are_ignored() -> None:
    async with talking() as (server, agent):
        got = list[Any]()

        async def ask() -> None:
            got.append(await agent.request("_x", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            asked = json.loads((await server.hears(TextMessage, 2)).data)["id"]
            await server.say(BytesMessage(data=b"\0\n"))
            await server.say(TextMessage(data='{"jsonrpc":"2.0",\r\n', message_finished=False))
            await server.say(Ping(payload=b"p"), TextMessage(data=f'"id":{asked},\n"result":"yes"}}'))
        assert got == ["yes"]
        assert (await server.hears(Pong)).payload == b"p"


@pytest.mark.parametrize(
    ("kind", "finished"), [(TextMessage, True), (TextMessage, False), (BytesMessage, True), (BytesMessage, False)]
)
async def test_a_message_beyond_the_bound_ends_the_connection(kind: Any, finished: bool) -> None:
    async with talking(bounds=ClientLimits(event=1000)) as (server, agent):
        for _ in range(1 if finished else 3):
            data: Any = "x" * (2000 if finished else 500)
            await server.say(kind(data=data if kind is TextMessage else data.encode(), message_finished=finished))
        assert "more than 1000 bytes" in await lost(agent)


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [(1000, None, "code 1000"), (1001, None, "code 1001"), (1011, "out of\x1b order", "code 1011: out of")],
)
async def test_a_goodbye_is_told_in_words_that_steer_no_terminal(code: int, reason: str | None, said: str) -> None:
    async with talking() as (server, agent):
        await server.say(CloseConnection(code=code, reason=reason))
        why = await lost(agent)
        assert said in why
        assert "\x1b" not in why


@pytest.mark.parametrize("data", [b"\x83\x00", b"\xc1\x00", b"\x81\x02\xff\xfe", b"\x89\x7e\x00\xff" + b"x" * 255])
async def test_what_breaks_the_rules_ends_the_connection(data: bytes) -> None:
    async with talking() as (server, agent):
        await server.raw(data)
        assert "violated the WebSocket protocol" in await lost(agent)


async def test_a_line_that_drops_ends_the_connection_and_withdraws_what_was_asked() -> None:
    begun, cut = anyio.Event(), anyio.Event()

    async def ask(_: RequestPermissionRequest) -> RequestPermissionResponse:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cut.set()
        raise AssertionError

    async with talking(Handlers(permission=ask)) as (server, agent):
        params = '{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}'
        question = f'{{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{params}}}'
        async with anyio.create_task_group() as tasks:

            async def open_session() -> None:
                session = await agent.new_session("/")
                assert session.id == "s"

            tasks.start_soon(open_session)
            await server.answer(2, {"sessionId": "s"})
        await server.say(TextMessage(data=question))
        await begun.wait()
        await server.cut()
        await cut.wait()
        assert "the connection broke" in await lost(agent)


async def test_what_came_before_a_goodbye_is_read_first() -> None:
    async with talking() as (server, agent):
        got = list[Any]()

        async def ask() -> None:
            got.append(await agent.request("_x", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            asked = json.loads((await server.hears(TextMessage, 2)).data)["id"]
            answer = TextMessage(data=f'{{"jsonrpc":"2.0","id":{asked},"result":"yes"}}')
            note = TextMessage(data='{"jsonrpc":"2.0","method":"_y"}')
            await server.raw(b"".join(map(server.frame, (note, answer, CloseConnection(code=1008)))))
        assert got == ["yes"]
        assert "code 1008" in await lost(agent)


async def test_silence_is_broken_by_pings_and_a_server_that_answers_none_is_gone() -> None:
    async with talking(bounds=ClientLimits(silence=0.05)) as (server, agent):
        await server.hears(Ping, 2)
        assert "has sent nothing for too long" in await lost(agent)


async def test_an_agent_is_reached_by_a_unix_socket(tmp_path: Path) -> None:
    server = Server()
    path = str(tmp_path / "agent.sock")
    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.serve)
        with anyio.fail_after(2 * PATIENCE):
            async with connect_url(f"unix:{path}") as agent:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(agent.initialize)
                    await server.met.wait()
                    await server.initialized()
                assert agent.info is not None
        tasks.cancel_scope.cancel()

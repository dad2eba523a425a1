"""What an adversary may try with connections, by real sockets."""

import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from wsproto.events import TextMessage

from acp_server import Call
from acp_server.http.listener import raise_descriptors
from acp_server.remote import BearerTokens, RemoteApp, RemoteLimits, kept
from acp_server.remote.cursors import resume
from tests.http.test_websocket import serving
from tests.http.websocket_client import WebSocket, websocket
from tests.session.editor import CALM

from .http_client import Client, client_of
from .http_client import app_of as app_of_agent
from .serving import reader
from .test_streams import Stuck

pytestmark = pytest.mark.anyio

HALF_OPEN = 10_000 if os.environ.get("ALL_ATTACKS") else 1_000
"""Ten times the places already; `ALL_ATTACKS=1` takes a hundred times, and half a minute."""
TOKENS = BearerTokens([("ann", "secret-of-ann"), ("bob", "secret-of-bob")])
ANN, BOB = ({"authorization": f"Bearer secret-of-{name}"} for name in ("ann", "bob"))
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


def app_of(**remote: Any) -> RemoteApp:
    return RemoteApp(reader()[0], limits=CALM, remote=RemoteLimits(**remote), authenticate=TOKENS)


async def hello(client: WebSocket, **headers: str) -> int:
    """The status, once the client is served."""
    status = await client.open(**headers)
    if status == 101:
        await client.send(TextMessage(data=json.dumps(INITIALIZE)))
        assert "protocolVersion" in await client.text()
    return status


async def dropped(port: int, **headers: str) -> str:
    """The id of a connection whose client has left without a word."""
    async with websocket(port) as client:
        assert await hello(client, **headers) == 101
        return dict(client.answer.extra_headers)[b"acp-connection-id"].decode()


@asynccontextmanager
async def stays(port: int, **headers: str) -> AsyncGenerator[WebSocket]:
    async with websocket(port) as client:
        assert await hello(client, **headers) == 101
        yield client


async def is_known(port: int, id: str, **headers: str) -> bool:
    async with websocket(port) as client:
        assert await client.open(acp_connection_id=id, **headers) == 101
        await client.send(TextMessage(data=resume(id, "").decode()))
        return "resumed" in await client.text()


async def test_clients_that_drop_without_a_word_keep_out_neither_new_ones_nor_those_that_are_there() -> None:
    async with serving(app_of(connections=8)) as (port, _), stays(port, **ANN) as there:
        for _ in range(256):
            await dropped(port, **BOB)
        async with stays(port, **ANN):
            await there.send(TextMessage(data=json.dumps({**INITIALIZE, "id": 1})))
            assert '"id":1' in await there.text()


async def test_who_drops_often_takes_the_place_of_none_but_its_own() -> None:
    async with serving(app_of(connections=4)) as (port, _):
        anns = await dropped(port, **ANN)
        bobs = [await dropped(port, **BOB) for _ in range(10)]
        assert await is_known(port, anns, **ANN)
        assert [await is_known(port, id, **BOB) for id in bobs[-3:]] == [True] * 3
        assert not await is_known(port, bobs[-4], **BOB)


async def test_where_every_client_is_there_one_more_is_refused_for_now() -> None:
    async with (
        serving(app_of(connections=2)) as (port, _),
        stays(port, **ANN),
        stays(port, **BOB),
        websocket(port) as more,
    ):
        assert await more.open(**BOB) == 503
        assert dict(more.answer.headers)[b"retry-after"] == b"1"


async def test_clients_over_http_that_open_no_stream_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(connections=3)
    clients = [Client(app, **BOB) for _ in range(4)]
    assert [(await client.initialize()).status for client in clients] == [200, 200, 200, 503]
    monkeypatch.setattr(kept, "MOMENT", 0.0)
    assert (await clients[3].initialize()).status == 200
    statuses = [(await client.post({"method": "_hello"})).status for client in clients]
    assert statuses == [404, 202, 202, 202]
    await clients[0].aclose()


async def test_websockets_that_say_nothing_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(app_of(connections=2)) as (port, _):
        async with websocket(port) as one, websocket(port) as other, websocket(port) as more:
            assert [await client.open(**BOB) for client in (one, other, more)] == [101, 101, 503]
        monkeypatch.setattr(kept, "MOMENT", 0.0)
        async with websocket(port) as one, websocket(port) as other:
            assert await one.open(**BOB) == await other.open(**BOB) == 101
            async with stays(port, **ANN):
                assert await one.code() == 1013


async def test_a_websocket_that_names_its_connection_and_begins_another_finds_no_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(app_of(connections=1)) as (port, _), stays(port, **ANN) as there, websocket(port) as more:
        named = dict(there.answer.extra_headers)[b"acp-connection-id"].decode()
        assert await more.open(acp_connection_id=named, **ANN) == 101
        await more.send(TextMessage(data=json.dumps(INITIALIZE)))
        assert await more.code() == 1013
        await there.send(TextMessage(data=json.dumps({**INITIALIZE, "id": 1})))
        assert '"id":1' in await there.text()
    assert not caplog.records


async def test_thousands_of_half_open_connections_keep_out_no_client(caplog: pytest.LogCaptureFixture) -> None:
    allowed = raise_descriptors(HALF_OPEN + 1_000)
    count = HALF_OPEN if allowed is None else min(HALF_OPEN, allowed - 1_000)
    heads = (b"G", b"GET /acp HTTP/1.1\r\nHost: localhost\r\n", b"POST /acp HTTP/1.1\r\nContent-Length: 9\r\n")
    async with serving(app_of()) as (port, _):
        with ExitStack() as streams:
            for number in range(count):
                stream = streams.enter_context(socket.socket())
                stream.setblocking(False)
                stream.connect_ex(("127.0.0.1", port))
                await anyio.wait_writable(stream)
                stream.send(heads[number % 3])
            async with stays(port, **ANN):
                pass
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "the limit of 100 connections is reached" in caplog.text
    caplog.clear()


async def test_what_is_packed_is_not_unpacked() -> None:
    async with serving(app_of()) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stream:
        bomb = b"\x1f\x8b" + bytes(100)
        await stream.send(
            b"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-of-ann\r\n"
            b"Content-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
        )
        assert (await stream.receive()).startswith(b"HTTP/1.1 400 ")


async def test_numbers_of_messages_are_short() -> None:
    client = Client(app_of(), **ANN)
    await client.initialize()
    message = {"method": "_hello"}
    assert (await client.post(message, acp_message_id="9" * 64)).status == 202
    assert (await client.post(message, acp_message_id="9" * 65)).status == 400
    await client.aclose()


@pytest.mark.parametrize("length", ["-1", "x", "²", "9" * 19, "9" * 5_000])
async def test_a_length_that_is_too_long_or_is_none_is_refused_without_a_look_at_the_body(length: str) -> None:
    client = Client(app_of(), **ANN)
    await client.initialize()
    answer = await client.post({"method": "_hello"}, content_length=length.encode().decode("latin-1"))
    assert answer.status == 413
    await client.aclose()


async def test_a_message_that_gives_way_while_it_waits_is_handed_over_when_it_is_sent_again() -> None:
    agent = Stuck()

    @agent.method("_x")
    async def answer(call: Call) -> Any:
        return call.params

    async with client_of(app_of_agent(agent, waiting=100)) as client:
        connection = client.open()
        message = {"id": 2, "method": "_x", "params": {"x": "y" * 200}}
        await client.post({"id": 1, "method": "_x", "params": {"x": "y" * 200}})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.post, message)
            await anyio.wait_all_tasks_blocked()
            # This is how a request gives way to one of another client.
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.post, message)
            await anyio.wait_all_tasks_blocked()
            agent.go.set()
            assert [(await connection.next())["id"] for _ in range(2)] == [1, 2]

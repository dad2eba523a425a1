"""No client shuts out the others: each bound of the server is shared between principals, and between connections."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from acp_server import Agent, Call, Turn
from acp_server.remote import BearerTokens, RemoteApp, RemoteLimits
from acp_server.remote.ring import Holdings, Ring
from acp_server.remote.shares import Bytes, Full
from acp_server.schema import AgentMessageChunk, TextContent
from acp_server.store.records import TurnRecord
from tests.session.editor import CALM

from .http_client import NEW, Client, Events, scope_of, session_of, turn_around
from .serving import reader

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
TOKENS = BearerTokens([("ann", "secret-of-ann"), ("bob", "secret-of-bob"), ("eve", "secret-of-eve")])
HELLO = {"method": "_hello"}
CANCEL = {"method": "$/cancel_request", "params": {"requestId": 1}}


@asynccontextmanager
async def shared(**remote: Any) -> AsyncGenerator[Callable[[str], Client]]:
    """Makes clients of several principals, by name. Their application ends with the block."""
    app = RemoteApp(reader()[0], limits=CALM, remote=RemoteLimits(**remote), authenticate=TOKENS)
    clients: list[Client] = []

    def client_of(name: str) -> Client:
        clients.append(Client(app, authorization=f"Bearer secret-of-{name}"))
        return clients[-1]

    try:
        yield client_of
    finally:
        with anyio.fail_after(20, shield=True):
            for client in clients:
                await client.aclose()


async def opened(client: Client, *sessions: str) -> list[Events]:
    """Streams that are open, one after the other."""
    streams: list[Events] = []
    for session in sessions:
        streams.append(client.open(session))
        assert await streams[-1].began() == 200
    return streams


class Slow:
    """A POST whose body does not end. `status`: 0 until it is answered."""

    def __init__(self, client: Client, tasks: TaskGroup, size: int = 0) -> None:
        self.status = 0
        self._pieces = [b"x" * size]
        self._client = client
        tasks.start_soon(self._run)

    async def _run(self) -> None:
        headers = {**self._client.headers, "content-type": "application/json", "acp-connection-id": self._client.id}
        await self._client.app(scope_of("POST", headers), self._receive, self._send)

    async def _receive(self) -> Any:
        if self._pieces:
            return {"type": "http.request", "body": self._pieces.pop(), "more_body": True}
        await anyio.sleep_forever()
        raise AssertionError

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


async def test_the_streams_of_one_principal_give_way_to_another() -> None:
    async with shared(requests=4) as client_of:
        ann, bob = client_of("ann"), client_of("bob")
        await ann.initialize()
        streams = await opened(ann, *"abcd")
        more = ann.open("more")
        assert await more.began() == 503
        assert more.headers["retry-after"] == "1"
        assert (await bob.initialize()).status == 200
        await streams[0].ended()
        its = await opened(bob, *"ab")
        await streams[1].ended()
        # Each has its share now.
        assert await bob.open("c").began() == await ann.open("e").began() == 503
        assert not any(each.is_over for each in (*streams[2:], *its))
        # A stream that has given way is resumed once there is a place.
        its[0].leave()
        await its[0].ended()
        assert await ann.open("a", "").began() == 200


async def test_the_streams_of_one_connection_give_way_to_another_of_the_same_principal() -> None:
    async with shared(requests=4) as client_of:
        greedy, other = client_of("ann"), client_of("ann")
        await greedy.initialize()
        await other.initialize()
        streams = await opened(greedy, *"abcd")
        its = await opened(other, *"ab")
        for each in streams[:2]:
            await each.ended()
        assert await other.open("c").began() == 503
        assert not any(each.is_over for each in (*streams[2:], *its))


async def test_a_cancel_takes_the_place_of_a_stream_of_the_same_connection() -> None:
    async with shared(requests=2) as client_of:
        ann = client_of("ann")
        await ann.initialize()
        streams = await opened(ann, *"ab")
        assert (await ann.post(CANCEL)).status == 202
        await streams[0].ended()
        assert not streams[1].is_over


async def test_bodies_that_do_not_end_give_way_to_the_requests_of_others() -> None:
    async with shared(requests=3) as client_of, anyio.create_task_group() as tasks:
        ann, bob = client_of("ann"), client_of("bob")
        await ann.initialize()
        await bob.initialize()
        slow = [Slow(ann, tasks) for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        assert (await bob.post(HELLO)).status == 202
        await anyio.wait_all_tasks_blocked()
        assert sorted(each.status for each in slow) == [0, 0, 503]
        tasks.cancel_scope.cancel()


async def test_bodies_of_one_principal_leave_room_for_those_of_others() -> None:
    async with shared(bodies=1000) as client_of, anyio.create_task_group() as tasks:
        ann, bob = client_of("ann"), client_of("bob")
        await ann.initialize()
        await bob.initialize()
        slow = [Slow(ann, tasks, 300) for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        assert sorted(each.status for each in slow) == [0, 503, 503]
        assert (await ann.post({"method": "_" + "x" * 300})).status == 503
        assert (await bob.post({"method": "_" + "x" * 200})).status == 202
        tasks.cancel_scope.cancel()


async def test_connections_that_are_there_give_way_to_a_principal_with_few() -> None:
    async with shared(connections=4) as client_of:
        anns, bobs = ([client_of(name) for _ in range(4)] for name in ("ann", "bob"))
        for client in anns:
            assert (await client.initialize()).status == 200
            assert await client.open().began() == 200
        for client, status in zip(bobs[:3], (200, 200, 503), strict=True):
            assert (await client.initialize()).status == status
            assert await client.open().began() == (200 if status == 200 else 404)
        assert [(await client.post(HELLO)).status for client in anns] == [404, 404, 202, 202]
        assert [(await client.post(HELLO)).status for client in bobs[:2]] == [202, 202]


async def test_a_client_that_is_away_keeps_its_place_if_another_principal_has_most_of_them() -> None:
    async with shared(connections=4) as client_of:
        ann, eve = client_of("ann"), client_of("eve")
        await ann.initialize()
        stream = ann.open()
        await stream.began()
        stream.leave()
        await stream.ended()
        bobs = [client_of("bob") for _ in range(3)]
        for client in bobs:
            await client.initialize()
            assert await client.open().began() == 200
        assert (await eve.initialize()).status == 200
        assert (await ann.post(HELLO)).status == 202
        assert [(await client.post(HELLO)).status for client in bobs] == [404, 202, 202]


def test_many_small_streams_do_not_push_out_a_large_one_of_another_principal() -> None:
    limits, holdings = RemoteLimits(), Holdings(100_000)
    mine = Ring(limits, holdings.account("ann"))
    mine.put(b"x" * 20_000)
    theirs = holdings.account("bob")
    rings = [Ring(limits, theirs) for _ in range(100)]
    for ring in rings:
        ring.put(b"x" * 1900)
    assert not mine.is_given_up
    assert holdings.size <= 100_000
    assert sum(ring.is_given_up for ring in rings) == 61


def test_streams_of_one_connection_do_not_push_out_those_of_another() -> None:
    limits, holdings = RemoteLimits(), Holdings(100_000)
    mine = Ring(limits, holdings.account("ann"))
    mine.put(b"x" * 20_000)
    theirs = holdings.account("ann")
    for _ in range(100):
        Ring(limits, theirs).put(b"x" * 1900)
    assert not mine.is_given_up


def test_each_principal_may_hold_as_many_bytes_as_it_leaves_free() -> None:
    held = Bytes(1200)
    held.reserve("ann", 600)
    with pytest.raises(Full):
        held.reserve("ann", 1)
    held.reserve("bob", 300)
    with pytest.raises(Full):
        held.reserve("bob", 1)
    held.release("ann", 600)
    held.reserve("bob", 300)
    held.release("bob", 600)
    # Without principals there is nobody to leave room for.
    held.reserve(None, 1200)
    with pytest.raises(Full):
        held.reserve(None, 1)
    held.release(None, 1200)
    assert held.size == 0


@asynccontextmanager
async def working(agent: Agent, work: int, *names: str) -> AsyncGenerator[list[tuple[Client, Events]]]:
    """Clients of these principals, each with the stream of its connection. `work`: the bound that they share."""
    app = RemoteApp(agent, limits=CALM, remote=RemoteLimits(work=work), authenticate=TOKENS)
    clients = [Client(app, authorization=f"Bearer secret-of-{name}") for name in names]
    try:
        for client in clients:
            await client.initialize()
        yield [(client, client.open()) for client in clients]
    finally:
        with anyio.fail_after(20, shield=True):
            for client in clients:
                await client.aclose()


async def test_requests_of_all_connections_are_bounded_together_except_those_that_end_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    agent = reader()[0]

    @agent.method("_wait")
    async def wait(call: Call) -> None:
        await anyio.sleep_forever()

    async with working(agent, MIB, "ann", "ann", "bob") as clients:
        session = await clients[0][0].new_session(clients[0][1], 1)
        for client, stream in clients:
            for id in range(10, 10 + (60 if client is not clients[2][0] else 3)):
                await client.post({"id": id, "method": "_wait", "params": {"x": "y" * 20_000}})
            await anyio.wait_all_tasks_blocked()
            refused = [each for each in stream.seen if each.get("error", {}).get("data") == {"limit": "requests"}]
            assert bool(refused) == (client is not clients[2][0])
        client, stream = clients[0]
        close = {"id": 2, "method": "session/close", "params": {"sessionId": session}}
        events = client.open(session)
        await client.post(close, session)
        assert (await events.next())["result"] == {}
        # Requests that end make room.
        before = len(stream.seen)
        for id in range(10, 15):
            await client.post({"method": "$/cancel_request", "params": {"requestId": id}})
        await turn_around(lambda: len(stream.seen) == before + 5)
        await client.post({"id": 3, "method": "_wait", "params": {"x": "y" * 20_000}})
        await anyio.wait_all_tasks_blocked()
        assert stream.seen[-1]["id"] != 3


async def test_open_sessions_of_all_connections_are_bounded_together() -> None:
    async with working(reader()[0], MIB, "ann", "ann", "ann") as clients:
        opened: list[tuple[Client, str]] = []
        for client, stream in clients:
            for id in range(1, 30):
                await client.post({"id": id, "method": "session/new", "params": NEW})
                if "result" in (answer := await stream.next()):
                    opened.append((client, answer["result"]["sessionId"]))
                else:
                    assert answer["error"]["code"] == -32600
        assert 10 < len(opened) < MIB / (16 * 1024)
        client, session = opened[-1]
        await client.post({"id": 40, "method": "session/close", "params": {"sessionId": session}}, session)
        await anyio.wait_all_tasks_blocked()
        await client.new_session(clients[2][1], 41)


async def test_the_records_of_running_turns_are_bounded_over_all_connections() -> None:
    agent = Agent("talker")
    records: list[TurnRecord] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        records.append(turn.record)
        for _ in range(100):
            turn.put(AgentMessageChunk(content=TextContent(text="x" * 10_000)))
        await anyio.sleep_forever()

    app = RemoteApp(agent, limits=CALM, remote=RemoteLimits(work=2 * MIB))
    clients = [Client(app) for _ in range(5)]
    try:
        for client in clients:
            await client.initialize()
            session, _ = await session_of(client)
            assert (await client.prompt(session, "talk")).status == 202
        await anyio.wait_all_tasks_blocked()
        sizes = [len(each.contents) for each in records]
        assert sum(sizes) < 2 * MIB + 5 * 32 * 1024
        # The last one finds room, too.
        assert 80_000 < min(sizes) < max(sizes) < 1.1 * MIB
    finally:
        with anyio.fail_after(20, shield=True):
            for client in clients:
                await client.aclose()

"""Connections that break, readers that do not read, and the bounds of what is kept for them."""

import gc
import json
import logging
from typing import Any

import anyio
import pytest

from acp_server import Agent, Call, MemoryStore, Turn
from acp_server.remote import RemoteApp, RemoteLimits
from tests.session.editor import CALM, CANCELLED, END_TURN

from .http_client import NEW, Client, app_of, client_of, session_of, turn_around
from .serving import reader

pytestmark = pytest.mark.anyio


def talker() -> tuple[Agent, list[anyio.Event]]:
    """An agent that says `COUNT SIZE`: so many texts of so many characters. `wait` first waits for the last event."""
    agent = Agent("talker")
    gates: list[anyio.Event] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text.startswith("wait "):
            gates.append(anyio.Event())
            await turn.say("waiting")
            await gates[-1].wait()
        count, size = map(int, turn.text.removeprefix("wait ").split())
        for number in range(count):
            await turn.say(f"{number} ".ljust(size, "."))

    return agent, gates


def number(message: Any) -> int:
    return int(message["params"]["update"]["content"]["text"].split()[0])


async def test_a_reader_that_comes_back_with_its_cursor_misses_nothing_and_gets_nothing_twice() -> None:
    agent, gates = talker()
    async with client_of(app_of(agent)) as client:
        session, _ = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "wait 10 1")
        assert (await events.next())["params"]["update"]["content"]["text"] == "waiting"
        cursor = events.last_id
        events.leave()
        await events.ended()
        gates[0].set()
        again = client.open(session, cursor)
        while "result" not in await again.next():
            pass
        # As if the connection had broken after the fourth of them, which the server does not know yet.
        once_more = client.open(session, again.ids[3])
        await again.ended()
        while "result" not in await once_more.next():
            pass
        assert [number(each) for each in (again.seen[:4] + once_more.seen)[:-1]] == [*range(10)]
        # It is what it was before, with the same cursors.
        whole = client.open(session, cursor)
        for _ in range(11):
            await whole.next()
        assert whole.seen == again.seen
        assert whole.ids == again.ids == [*again.ids[:4], *once_more.ids]


async def test_a_reader_without_a_cursor_goes_on_with_what_was_not_taken() -> None:
    agent, gates = talker()
    async with client_of(app_of(agent)) as client:
        session, _ = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "wait 3 1")
        await events.next()
        events.leave()
        await events.ended()
        gates[0].set()
        again = client.open(session)
        assert [number(await again.next()) for _ in range(3)] == [0, 1, 2]
        assert (await again.next())["result"] == END_TURN


@pytest.mark.parametrize("cursor", ["", "1", "x-1", "-1", "%s-0", "%s-99", "%s-٣", "%s-1e9", "%s--1", "%s-" + "9" * 30])
async def test_a_cursor_that_is_none_of_the_stream_is_refused(cursor: str) -> None:
    async with client_of(app_of(talker()[0], kept=0)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "1 1")
        while "result" not in await events.next():
            pass
        events.leave()
        await events.ended()
        assert connection.last_id is not None
        tag = (events.last_id or "").partition("-")[0]
        text = cursor.replace("%s", tag).encode().decode("latin-1")
        assert await client.open(session, text).began() == 409
        assert await client.open(session, connection.last_id).began() == 409
        assert await client.open(session, events.last_id).began() == 200


async def test_a_cursor_whose_rest_is_not_kept_any_more_is_refused() -> None:
    async with client_of(app_of(talker()[0], kept=1000)) as client:
        session, _ = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "20 100")
        while "result" not in await events.next():
            pass
        assert await client.open(session, events.ids[0]).began() == 409
        assert not events.is_over
        assert await client.open(session, events.last_id).began() == 200


async def test_work_goes_on_while_its_reader_is_away() -> None:
    agent, _, cut = reader()
    async with client_of(app_of(agent)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "hang")
        await events.next()
        for each in (events, connection):
            each.leave()
            await each.ended()
        assert not cut.is_set()
        await client.post({"method": "session/cancel", "params": {"sessionId": session}}, session)
        assert (await client.open(session, events.last_id).next())["result"] == CANCELLED


async def test_a_client_that_is_gone_for_longer_than_its_grace_is_an_end_of_the_input() -> None:
    agent, turns, cut = reader()
    limits = RemoteLimits()
    async with client_of(RemoteApp(agent, limits=CALM, remote=limits)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "hang")
        await events.next()
        connection.leave()
        await connection.ended()
        assert not cut.is_set()
        # Only now, since it also bounds how long the first reader may take to come.
        object.__setattr__(limits, "grace", 0.0)
        events.leave()
        with anyio.fail_after(20):
            await cut.wait()
            await turns[0].client.connection.wait_closed()
        assert (await client.post({"id": 5, "method": "session/list"})).status == 404
        assert await client.open(session, events.last_id).began() == 404


async def test_a_client_that_reads_and_says_nothing_is_ended_at_last() -> None:
    async with client_of(app_of(talker()[0], idle=0.05)) as client:
        await client.open().ended()


async def test_an_agent_waits_for_a_reader_that_is_behind_and_a_cancel_does_not() -> None:
    agent, _ = talker()
    async with client_of(app_of(agent, unread=100_000)) as client:
        session, _ = await session_of(client)
        events = client.open(session)
        await events.began()
        events.blocked = anyio.Event()
        await client.prompt(session, "100000 1000")
        await client.post({"method": "session/cancel", "params": {"sessionId": session}}, session)
        await anyio.wait_all_tasks_blocked()
        events.blocked.set()
        events.blocked = None
        while "result" not in (message := await events.next()):
            pass
        assert message["result"] == CANCELLED
        # What fits into the stream, what the connection holds besides, and no more.
        assert [number(each) for each in events.seen[:-1]] == [*range(len(events.seen) - 1)]
        assert len(events.seen) < 1000


async def test_a_stream_that_is_full_for_too_long_is_given_up_and_its_client_is_told() -> None:
    agent, _ = talker()
    async with client_of(app_of(agent, unread=10_000, stall=0.05)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "1 1")
        while "result" not in await events.next():
            pass
        events.blocked = anyio.Event()
        await client.prompt(session, "1000 1000", 7)
        await events.ended()
        # The turn goes on, and the connection as well.
        other = await client.new_session(connection, 3)
        assert other != session
        lost = client.open(session, events.last_id)
        # To come again helps only where another reader leaves.
        assert (await lost.began(), "retry-after" in lost.headers) == (409, False)
        assert await client.open(session, events.last_id).began() == 409
        await client.post({"id": 4, "method": "session/load", "params": {"sessionId": session, **NEW}}, session)
        await connection.next()
        assert await client.open(session, events.last_id).began() == 409
        again = client.open(session)
        assert await again.began() == 200
        await client.prompt(session, "1 1", 5)
        while "result" not in (message := await again.next()):
            pass
        assert message == {"jsonrpc": "2.0", "id": 5, "result": END_TURN}


async def test_a_client_that_does_not_read_what_its_connection_is_told_loses_the_connection() -> None:
    agent, _, _ = reader()
    async with client_of(app_of(agent, unread=1000, stall=0.05)) as client:
        for id in range(100):
            if (await client.post({"id": id, "method": "session/new", "params": NEW})).status == 404:
                break
            await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            while (await client.post({"id": 1, "method": "session/list"})).status != 404:
                await anyio.wait_all_tasks_blocked()


async def test_connections_streams_and_messages_are_bounded() -> None:
    app = app_of(talker()[0], connections=2, streams=3, bodies=2000)
    async with client_of(app) as client:
        other = Client(app)
        assert (await other.initialize()).status == 200
        refused = await Client(app).initialize()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        first, second = client.open("a"), client.open("b")
        assert (await first.began(), await second.began()) == (200, 200)
        assert await client.open("c").began() == 429
        # One that has no reader and nothing for one makes room.
        first.leave()
        await first.ended()
        assert await client.open("c").began() == 200
        assert (await client.post({"id": 1, "method": "session/list", "params": {"x": "y" * 3000}})).status == 503
        assert (await client.post({"id": 1, "method": "session/list"})).status == 202
        await other.request("DELETE", acp_connection_id=other.id)
        await turn_around(lambda: len(app._open()) == 1)
        assert (await Client(app).initialize()).status == 200


async def test_nothing_is_left_of_clients_that_are_gone() -> None:
    agent, _ = talker()
    app = app_of(agent)
    connections = app._open()
    for _ in range(3):
        client = Client(app)
        await client.initialize()
        session, connection = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "10 1000")
        while "result" not in await events.next():
            pass
        await client.prompt(session, "10 1000", 3)
        await client.request("DELETE", acp_connection_id=client.id)
        await connection.ended()
        await events.ended()
    await turn_around(lambda: len(connections) == 0)
    assert (connections.holdings.size, connections.bodies.size) == (0, 0)
    await app.aclose()
    gc.collect()


class Stuck(Agent):
    """An agent whose connections read nothing before `go`."""

    def __init__(self) -> None:
        super().__init__("stuck")
        self.go = anyio.Event()
        self.took: list[Any] = []

    def connect(self, stream: Any, limits: Any = None) -> Any:
        agent = self

        class Late:
            is_first = True

            async def receive(self) -> bytes:
                if not self.is_first:
                    await agent.go.wait()
                self.is_first = False
                data = await stream.receive()
                agent.took += [json.loads(line).get("method") for line in data.splitlines()]
                return data

            async def send(self, data: bytes) -> None:
                await stream.send(data)

            async def aclose(self) -> None:
                await stream.aclose()

        return super().connect(Late(), limits)


async def test_a_message_waits_for_room_and_a_cancel_takes_it_along(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    agent = Stuck()

    @agent.method("_x")
    async def wait(call: Call) -> None:
        if call.params["x"].startswith("w"):
            await anyio.sleep_forever()

    async with client_of(app_of(agent, waiting=1000)) as client:
        connection = client.open()
        statuses: dict[Any, int] = {}

        async def post(id: int, params: Any) -> None:
            statuses[id] = (await client.post({"id": id, "method": "_x", "params": params})).status

        async with anyio.create_task_group() as tasks:
            for id in range(1, 4):
                tasks.start_soon(post, id, {"x": ("w" if id == 3 else "y") * 900})
                await anyio.wait_all_tasks_blocked()
            assert statuses == {1: 202}
            cancel = {"method": "$/cancel_request", "params": {"requestId": 3}}
            assert (await client.post(cancel)).status == 202
            await anyio.wait_all_tasks_blocked()
            assert statuses == {1: 202, 3: 202}
            other = {"method": "session/cancel", "params": {"sessionId": "a"}}
            assert (await client.post(other, "a")).status == 202
            agent.go.set()
            answers = {(answer := await connection.next())["id"]: answer.get("error", {}).get("code") for _ in range(3)}
        assert answers[3] == -32800
        assert statuses == {1: 202, 2: 202, 3: 202}


async def test_a_message_that_waits_when_its_connection_ends_is_told_so() -> None:
    agent = Stuck()
    async with client_of(app_of(agent, waiting=100)) as client:
        statuses: list[int] = []

        async def post(id: int) -> None:
            statuses.append((await client.post({"id": id, "method": "_x", "params": {"x": "y" * 200}})).status)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, 1)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(post, 2)
            await anyio.wait_all_tasks_blocked()
            await client.request("DELETE", acp_connection_id=client.id)
        assert statuses == [202, 404]
        agent.go.set()
        await turn_around(lambda: len(client.app._open()) == 0)
        assert client.app._open().bodies.size == 0


async def test_a_message_that_arrives_too_slowly_is_given_up() -> None:
    app = app_of(talker()[0], receive=0)
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    await app({"type": "http", "method": "POST", "headers": headers}, receive, send)
    assert sent[0]["status"] == 408
    assert app._open().bodies.size == 0


async def test_a_request_that_is_sent_again_is_not_begun_again() -> None:
    agent, turns, _ = reader()
    async with client_of(app_of(agent)) as client:
        session, _ = await session_of(client)
        events = client.open(session)
        for _ in range(3):
            assert (await client.prompt(session, "hang", "one")).status == 202
        await events.next()
        await client.post({"method": "session/cancel", "params": {"sessionId": session}}, session)
        assert (await events.next())["result"] == CANCELLED
        assert len(turns) == 1


@pytest.mark.parametrize("torn", [False, True], ids=["behind", "within"])
async def test_a_line_that_is_cut_at_any_message_loses_nothing_and_repeats_nothing(torn: bool) -> None:
    agent, turns, _ = reader()
    async with client_of(app_of(agent)) as client:
        session, _ = await session_of(client)
        whole = client.open(session)
        await client.prompt(session, "/project/a.txt", 7)
        await whole.next()
        asked = await whole.next()
        await client.post({"id": asked["id"], "result": {"content": "all"}}, session)
        while "result" not in await whole.next():
            pass
        whole.leave()
        await whole.ended()
        count = len(whole.seen)
        for cut in range(count - 1):
            events = client.open(session, whole.ids[0])
            events.cut_at = cut
            events.is_torn = torn
            await events.ended()
            rest = client.open(session, events.last_id or whole.ids[0])
            while "result" not in (events.seen + rest.seen or [{}])[-1]:
                assert await rest.next()
            assert whole.seen[1:] == events.seen + rest.seen, cut
            assert whole.ids[1:] == events.ids + rest.ids
            rest.leave()
            await rest.ended()
        assert len(turns) == 1


@pytest.mark.parametrize("version", [1, 2])
async def test_a_client_is_told_that_streams_can_be_resumed(version: int) -> None:
    client = Client(app_of(reader()[0], kept=10_240, grace=5))
    params = {"protocolVersion": version, "capabilities": {}, "info": {"name": "me", "version": "1"}}
    result = (await client.post({"id": 0, "method": "initialize", "params": params})).json["result"]
    place = result["capabilities"] if version == 2 else result["agentCapabilities"]["_meta"]
    assert place["transport"] == {"resumable": {"retentionMessages": 10, "retentionSeconds": 5}}
    await client.aclose()


async def test_a_reader_that_comes_back_learns_the_state_of_its_session() -> None:
    client = Client(app_of(reader()[0]))
    params = {"protocolVersion": 2, "capabilities": {}, "info": {"name": "me", "version": "1"}}
    answer = await client.post({"id": 0, "method": "initialize", "params": params})
    client.id = answer.headers["acp-connection-id"]
    session, _ = await session_of(client)
    events = client.open(session)
    await client.prompt(session, "hang")
    while "begun" not in str(await events.next()):
        pass
    again = client.open(session, events.last_id)
    state = (await again.next())["params"]["update"]
    assert (state["sessionUpdate"], state["state"]) == ("state_update", "running")
    await client.aclose()


async def test_ten_thousand_half_open_connections_and_streams_are_bounded() -> None:
    app = app_of(reader()[0], connections=50, streams=50)
    clients = [Client(app) for _ in range(10_000)]
    statuses: list[int] = []
    for client in clients:
        statuses.append((await client.initialize()).status)
        if statuses[-1] == 200:
            await client.open().began()
    assert (statuses.count(200), statuses.count(503)) == (50, 9_950)
    assert len(app._open()) == 50
    opened = [clients[0].open(f"none-{number}") for number in range(10_000)]
    statuses = [await events.began() for events in opened]
    assert (statuses.count(200), statuses.count(429)) == (49, 9_951)
    for events in opened:
        events.leave()
    for client in clients:
        await client.aclose()


async def test_the_answer_to_a_load_says_behind_which_message_of_its_session_it_comes() -> None:
    agent, _ = talker()
    agent.store = MemoryStore()
    async with client_of(app_of(agent)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        await client.prompt(session, "3 1")
        while "result" not in await events.next():
            pass
        await client.post({"id": 9, "method": "session/load", "params": {"sessionId": session, **NEW}}, session)
        answer = await connection.next()
        behind = answer["result"]["_meta"]["acp_server/behind"]
        while behind not in events.ids:
            await events.next()
        assert "3 1" in str(events.seen)


async def test_the_response_to_a_load_follows_no_message_from_before_the_request() -> None:
    """The client may have left the stream behind that message, and would wait for it for ever."""
    agent, _ = talker()
    agent.store = MemoryStore()
    async with client_of(app_of(agent)) as client:
        session, connection = await session_of(client)
        await client.post({"id": 3, "method": "session/close", "params": {"sessionId": session}}, session)
        assert (await client.open(session).next())["id"] == 3
        await client.post({"id": 4, "method": "session/load", "params": {"sessionId": session, **NEW}}, session)
        result = (await connection.next())["result"]
        assert result["sessionId"] == session
        assert "acp_server/behind" not in result.get("_meta", {})


async def test_a_request_with_a_number_of_its_own_is_not_taken_for_a_copy() -> None:
    agent, gates = talker()
    async with client_of(app_of(agent)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "wait 0 0"}]}
        message = {"id": 3, "method": "session/prompt", "params": prompt}
        for number in ("1", "2", "2"):
            await client.post(message, session, acp_message_id=number)
        await client.post(message, session)
        assert (await connection.next())["error"]["data"] == {"duplicateId": 3}
        await turn_around(lambda: gates)
        gates[0].set()
        while "result" not in (answered := await events.next()):
            pass
        assert answered == {"jsonrpc": "2.0", "id": 3, "result": END_TURN}
        # The copies were not taken.
        await client.post({"id": 4, "method": "session/list"})
        assert (await connection.next())["id"] == 4

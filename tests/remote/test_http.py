"""Agents over HTTP, in the words of ASGI: each request and its status, and which stream a message goes to."""

import json
from typing import Any

import anyio
import pytest

from acp_server import Agent, MemoryStore, Turn
from acp_server.remote import RemoteApp, RemoteLimits
from tests.session.editor import CALM, CANCELLED, END_TURN

from .http_client import NEW, Client, app_of, client_of, editor_of
from .serving import reader

pytestmark = pytest.mark.anyio


INITIALIZE = {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
LIST = {"id": 9, "method": "session/list", "params": {}}
UNKNOWN = {"acp_connection_id": "f" * 32}


@pytest.mark.parametrize(
    ("message", "session", "headers", "status"),
    [
        (LIST, None, {}, 202),
        (LIST, None, {"content_type": "application/json; charset=utf-8"}, 202),
        ({"method": "session/cancel", "params": {"sessionId": "a"}}, "a", {}, 202),
        ({"method": "$/cancel_request", "params": {"requestId": 1}}, None, {}, 202),
        ({"id": 3, "method": "session/load", "params": {"sessionId": "a", **NEW}}, None, {}, 202),
        ({"id": 3, "result": None}, None, {}, 202),
        (LIST, None, {"content_type": None}, 415),
        (LIST, None, {"content_type": "text/plain"}, 415),
        (LIST, None, {"acp_connection_id": None}, 400),
        (LIST, None, UNKNOWN, 404),
        (INITIALIZE, None, {}, 400),
        (INITIALIZE, None, UNKNOWN, 404),
        ({"id": 3, "method": "session/prompt", "params": {"sessionId": "a", "prompt": []}}, None, {}, 400),
        ({"id": 3, "method": "session/prompt", "params": {"sessionId": "a", "prompt": []}}, "b", {}, 400),
        ({"method": "session/cancel", "params": {"sessionId": "a"}}, None, {}, 400),
        (LIST, "x" * 2000, {}, 400),
        (b"[]", None, {}, 501),
        (b"[1]", None, {}, 501),
        (b"{", None, {}, 400),
        (b"", None, {}, 400),
        (b"7", None, {}, 400),
        ({"id": True, "method": "session/list"}, None, {}, 400),
        ({"id": None, "method": "session/list"}, None, {}, 400),
        ({"id": 4}, None, {}, 202),
        (b'{"jsonrpc": "2.0"}' + b" " * 3000, None, {}, 413),
    ],
)
async def test_a_post_has_its_status(message: Any, session: Any, headers: Any, status: int) -> None:
    async with client_of(app_of(reader()[0], body=3000)) as client:
        answer = await client.post(message, session, **headers)
        assert answer.status == status
        assert (answer.body == b"") == (status == 202)


@pytest.mark.parametrize(
    ("message", "id", "code"),
    [
        (b"{", None, -32700),
        (b"7", None, -32600),
        (b"[1]", None, -32600),
        ({"id": True, "method": "session/list"}, None, -32600),
        ({"id": 3, "method": "session/list", "params": 1}, 3, -32600),
        ({"id": "3", "method": "session/prompt", "params": {}}, "3", -32602),
    ],
)
async def test_what_is_refused_has_the_answer_of_json_rpc(message: Any, id: Any, code: int) -> None:
    async with client_of(app_of(reader()[0])) as client:
        answer = await client.post(message)
        assert answer.headers["content-type"] == "application/json"
        assert (answer.json["id"], answer.json["error"]["code"]) == (id, code)


async def test_initialize_is_answered_at_once_with_the_id_of_a_connection() -> None:
    client = Client(app_of(reader()[0]))
    answer = await client.initialize()
    assert (answer.status, answer.headers["content-type"], len(client.id)) == (200, "application/json", 32)
    assert answer.json["result"]["protocolVersion"] == 1
    other = Client(client.app)
    await other.initialize()
    assert other.id != client.id
    await client.aclose()


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"accept": None}, 406),
        ("GET", {"accept": "application/json, */*"}, 406),
        ("GET", {"acp_connection_id": None}, 400),
        ("GET", UNKNOWN, 404),
        ("DELETE", {"acp_connection_id": None}, 400),
        ("DELETE", UNKNOWN, 404),
        ("PUT", {}, 405),
        ("OPTIONS", {}, 405),
    ],
)
async def test_another_request_has_its_status(method: str, headers: Any, status: int) -> None:
    async with client_of(app_of(reader()[0])) as client:
        own = {"accept": "text/event-stream", "acp_connection_id": client.id, **headers}
        assert (await client.request(method, **own)).status == status


async def test_a_connection_is_deleted_once() -> None:
    async with client_of(app_of(reader()[0])) as client:
        events = client.open()
        assert (await events.began(), events.headers["content-type"]) == (200, "text/event-stream")
        assert (await client.request("DELETE", acp_connection_id=client.id)).status == 202
        assert (await client.request("DELETE", acp_connection_id=client.id)).status == 404
        assert (await client.post(LIST)).status == 404
        await events.ended()


async def test_a_stream_has_one_reader_at_a_time() -> None:
    async with client_of(app_of(reader()[0])) as client:
        first = client.open()
        assert await first.began() == 200
        second = client.open()
        assert (await second.began(), second.headers["retry-after"]) == (409, "1")
        assert await client.open("a").began() == 200
        first.leave()
        await first.ended()
        assert await client.open().began() == 200


async def test_what_opens_a_session_is_answered_on_the_stream_of_the_connection_and_all_else_on_its_own() -> None:
    agent, _, _ = reader()
    agent.store = MemoryStore()
    async with client_of(app_of(agent)) as client:
        connection = client.open()
        session = await client.new_session(connection)
        events = client.open(session)
        await client.prompt(session, "/project/a.txt")
        assert (await events.next())["params"]["update"]["content"]["text"] == "begun "
        asked = await events.next()
        assert asked["method"] == "fs/read_text_file"
        assert (await client.post({"id": asked["id"], "result": {"content": "all"}}, "another")).status == 400
        assert (await client.post({"id": asked["id"], "result": {"content": "all"}}, session)).status == 202
        assert (await events.next())["params"]["update"]["content"]["text"] == "all"
        assert (await events.next())["result"] == END_TURN
        await client.post(LIST)
        assert [each["sessionId"] for each in (await connection.next())["result"]["sessions"]] == [session]
        close = {"id": 5, "method": "session/close", "params": {"sessionId": session}}
        await client.post(close, session)
        assert (await events.next())["id"] == 5
        load = {"id": 6, "method": "session/load", "params": {"sessionId": session, **NEW}}
        await client.post(load, session)
        assert (await events.next())["params"]["update"]["sessionUpdate"] == "user_message_chunk"
        loaded = await connection.next()
        assert (loaded["id"], loaded["result"]["sessionId"]) == (6, session)


async def test_a_stream_that_is_opened_before_its_session_gets_all_that_is_said_in_it() -> None:
    agent, _, _ = reader()
    agent.store = MemoryStore()
    app = app_of(agent)
    async with client_of(app) as client:
        connection = client.open()
        session = await client.new_session(connection)
        events = client.open(session)
        await client.prompt(session, "/project/a.txt")
        await events.next()
        asked = await events.next()
        await client.post({"id": asked["id"], "result": {"content": "all"}}, session)
        await events.next()
        assert (await events.next())["result"] == END_TURN
        await client.request("DELETE", acp_connection_id=client.id)
        await events.ended()
        other = Client(app)
        await other.initialize()
        again, its = other.open(), other.open(session)
        assert (await again.began(), await its.began()) == (200, 200)
        await other.post({"id": 1, "method": "session/load", "params": {"sessionId": session, **NEW}}, session)
        assert (await again.next())["id"] == 1
        assert (await its.next())["params"]["update"]["sessionUpdate"] == "user_message_chunk"
        again.leave()
        its.leave()


async def test_ids_of_two_types_are_two_requests() -> None:
    async with client_of(app_of(reader()[0])) as client:
        connection = client.open()
        one, other = await client.new_session(connection), await client.new_session(connection, 2)
        first, second = client.open(one), client.open(other)
        await client.prompt(one, "hang", 7)
        await client.prompt(other, "hang", "7")
        await first.next()
        await second.next()
        await client.post({"method": "session/cancel", "params": {"sessionId": other}}, other)
        assert await second.next() == {"jsonrpc": "2.0", "id": "7", "result": CANCELLED}
        await client.post({"method": "$/cancel_request", "params": {"requestId": 7}})
        assert await first.next() == {"jsonrpc": "2.0", "id": 7, "result": CANCELLED}


async def test_an_editor_is_served_as_over_any_transport() -> None:
    agent, _, cut = reader()
    async with editor_of(app_of(agent)) as (editor, _):
        session = await editor.open()
        id = await editor.prompt(session, "/project/a.txt")
        asked = await editor.client.expect_request("fs/read_text_file")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert editor.withdrawn() == [asked["id"]]
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        await editor.withdraw(id)
        assert await editor.answer(id) == CANCELLED
        assert cut.is_set()
        editor.client.answer("fs/read_text_file", {"content": "line\n" * 100_000})
        assert await editor.ask(session, "/project/a.txt") == END_TURN


async def test_what_withdraws_a_request_comes_on_the_stream_of_the_request() -> None:
    async with client_of(app_of(reader()[0])) as client:
        session = await client.new_session(client.open())
        events = client.open(session)
        await client.prompt(session, "/project/a.txt")
        await events.next()
        asked = await events.next()
        await client.post({"method": "session/cancel", "params": {"sessionId": session}}, session)
        withdrawn = await events.next()
        assert (withdrawn["method"], withdrawn["params"]) == ("$/cancel_request", {"requestId": asked["id"]})
        assert (await events.next())["result"] == CANCELLED


async def test_a_silent_stream_has_comments() -> None:
    async with client_of(app_of(reader()[0], keep_alive=0)) as client:
        await client.open().commented(3)


async def test_a_message_that_is_written_over_several_lines_is_one() -> None:
    async with client_of(app_of(reader()[0])) as client:
        connection = client.open()
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": NEW}, indent=2)
        assert (await client.post(text.replace("\n", "\r\n").encode())).status == 202
        assert "sessionId" in (await connection.next())["result"]


async def test_an_agent_that_does_not_answer_initialize_is_given_up() -> None:
    agent = Agent("slow")

    @agent.initialize
    async def initialize(_: Any) -> None:
        await anyio.sleep_forever()

    client = Client(RemoteApp(agent, limits=CALM, remote=RemoteLimits(initialize=0)))
    assert (await client.initialize()).status == 504
    await client.aclose()


async def test_an_agent_that_ends_its_connection_ends_its_streams() -> None:
    agent, turns, _ = reader()
    async with client_of(app_of(agent)) as client:
        connection = client.open()
        session = await client.new_session(connection)
        events = client.open(session)
        await client.prompt(session, "hang")
        await events.next()
        turns[0].client.connection.close()
        assert (await events.next())["id"] == 2
        await events.ended()
        await connection.ended()
        assert (await client.post(LIST)).status == 404


async def test_a_handler_that_wants_to_end_the_program_ends_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, _, _ = reader()
    app = app_of(agent)
    async with client_of(app) as client:
        other = Client(app)
        await other.initialize()
        session = await other.new_session(connection := other.open())
        await other.prompt(session, "exit")
        await connection.ended()
        assert (await other.post(LIST)).status == 404
        assert await client.new_session(client.open())
    assert "a handler raised SystemExit" in caplog.text
    caplog.clear()


async def test_each_principal_has_its_own_agent_and_connections() -> None:
    said: dict[str, str] = {}

    def agent_of(principal: str | None) -> Agent:
        agent = Agent(principal or "unknown")

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            said[turn.text] = agent.name
            await turn.say("Heard.")

        return agent

    def who(scope: Any) -> str | None:
        return dict(scope["headers"]).get(b"x-name", b"").decode() or None

    app = RemoteApp(agent_of, limits=CALM, authenticate=who)
    async with client_of(app, **{"x-name": "ann"}) as client:
        session = await client.new_session(client.open())
        events = client.open(session)
        await client.prompt(session, "hello")
        assert (await events.next())["method"] == "session/update"
        assert (await events.next())["result"] == END_TURN
        bob = Client(app, **{"x-name": "bob"})
        bob.id = client.id
        assert (await bob.post(LIST)).status == 404
        assert (await bob.request("DELETE", acp_connection_id=client.id)).status == 404
        assert (await Client(app).initialize()).status == 401
    assert said == {"hello": "ann"}


def _counting() -> tuple[Agent, list[str]]:
    agent, asked = Agent("counting"), list[str]()

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        asked.append(turn.text)
        return turn.text

    return agent, asked


async def test_a_message_that_is_sent_again_under_its_number_is_taken_once_also_when_it_was_answered() -> None:
    agent, asked = _counting()
    async with client_of(app_of(agent)) as client:
        assert (await Client(client.app).initialize()).headers["acp-repeatable"] == "true"
        session = await client.new_session(client.open())
        events = client.open(session)
        for id, number, text in [(2, "7", "first"), (2, "7", "first"), (3, "8", "second")]:
            params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
            message = {"id": id, "method": "session/prompt", "params": params}
            assert (await client.post(message, session, acp_message_id=number)).status == 202
            while text not in asked or "result" not in events.seen[-1] or events.seen[-1]["id"] != id:
                await events.next()
        assert asked == ["first", "second"]
        assert [each["id"] for each in events.seen if "id" in each] == [2, 3]


async def test_an_empty_cursor_asks_for_a_stream_from_its_beginning() -> None:
    agent, _ = _counting()
    async with client_of(app_of(agent)) as client:
        session = await client.new_session(client.open())
        first = client.open(session)
        await client.prompt(session, "x")
        while "result" not in await first.next():
            pass
        first.leave()
        await first.ended()
        again = client.open(session, cursor="")
        while "result" not in await again.next():
            pass
        assert again.seen == first.seen

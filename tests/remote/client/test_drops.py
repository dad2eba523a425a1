"""Connections that break: what is asked for again, what is sent again, and what a program is told where neither will
do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server.client import Handlers, RemoteAgent, RemoteSession
from acp_server.errors import ConnectionClosed, InternalError
from acp_server.remote import Backoff, ClientLimits, connect_http
from acp_server.schema import RequestPermissionRequest, RequestPermissionResponse

from . import Events, Message, Request, Server, serving
from .talking import answer, asked_raw, chunk, opened, over, texts

pytestmark = pytest.mark.anyio

AT_ONCE = Backoff(attempts=3, first=0.0)


@asynccontextmanager
async def talking(
    handlers: Handlers | None = None, bounds: ClientLimits | None = None
) -> AsyncIterator[tuple[Server, RemoteAgent, RemoteSession]]:
    async with serving() as server, connect_http(server.url, handlers, bounds=bounds, backoff=AT_ONCE) as agent:
        await agent.initialize()
        yield server, agent, await opened(server, agent)


async def finish(events: Events, asked: Request, id: str | None = None) -> None:
    await events.say(answer(asked.message["id"], {"stopReason": "end_turn"}), id)


@pytest.mark.parametrize("cut", range(0, 70, 9))
async def test_a_stream_that_drops_in_an_event_goes_on_behind_the_last_whole_one(cut: int) -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        events = await server.stream("s1")
        await events.say(chunk("one "), "c-1")
        await events.raw(b':\nid: c-2\ndata: {"jsonrpc":"2.0","method":"session/update","params":{"session'[:cut])
        await events.cut()
        again = await server.stream("s1", 2)
        assert again.request.headers["last-event-id"] == "c-1"
        await again.say(chunk("two"), "c-2")
        await finish(again, asked, "c-3")
        assert await texts(turn) == ["one ", "two"]


async def test_a_server_that_begins_with_the_last_event_says_it_once() -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        events = await server.stream("s1")
        await events.say(chunk("one "), "c-1")
        await events.cut()
        again = await server.stream("s1", 2)
        await again.say(chunk("one "), "c-1")
        await finish(again, asked, "c-2")
        assert await texts(turn) == ["one "]


async def test_a_position_without_a_message_is_one_to_go_on_from() -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        events = await server.stream("s1")
        await events.raw(b"id: c-0\n\n")
        await events.cut()
        again = await server.stream("s1", 2)
        assert again.request.headers["last-event-id"] == "c-0"
        await finish(again, asked)
        await over(turn)


async def test_a_stream_that_the_server_ends_in_order_is_asked_for_again() -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        events = await server.stream("s1")
        await events.say(chunk("one "))
        await events.end()
        again = await server.stream("s1", 2)
        assert "last-event-id" not in again.request.headers
        await finish(again, asked)
        assert await texts(turn) == ["one "]


@pytest.mark.parametrize(
    "capabilities",
    [
        {"capabilities": {"transport": {"resumable": {}}}},
        {"agentCapabilities": {"_meta": {"transport": {"resumable": {"retentionSeconds": 60}}}}},
    ],
)
async def test_where_streams_can_be_resumed_a_drop_before_the_first_event_is_asked_from_the_beginning(
    capabilities: Message,
) -> None:
    async with serving() as server, connect_http(server.url, backoff=AT_ONCE) as agent:
        server.initialized = {"protocolVersion": 1, **capabilities}
        await agent.initialize()
        await (await server.stream()).cut()
        again = await server.stream(None, 2)
        assert again.request.headers["last-event-id"] == ""
        await opened(server, agent, stream=again)


@pytest.mark.parametrize("session", [None, "s1"])
async def test_a_stream_without_cursors_that_drops_ends_the_connection_and_says_what_is_lost(session: Any) -> None:
    async with talking() as (server, _, opened_session), opened_session.prompt("x") as turn:
        await server.post("session/prompt")
        await (await server.stream("s1")).say(chunk("one "))
        await (await server.stream(session)).cut()
        with pytest.raises(ConnectionClosed, match=r"session/prompt was answered: the connection .* broke") as error:
            await over(turn)
        assert error.value.reason is not None


@pytest.mark.parametrize(("status", "said"), [(404, "not know the conn"), (409, "lost messages"), (401, "token")])
async def test_a_server_that_refuses_to_go_on_ends_the_connection_in_words(status: int, said: str) -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        await server.post("session/prompt")
        events = await server.stream("s1")
        await events.say(chunk("one "), "c-1")

        async def react(request: Request) -> bool:
            if request.method == "GET":
                await request.answer(status)
            return request.method == "GET"

        server.react = react
        await events.cut()
        with pytest.raises(ConnectionClosed, match=f"{said}.*status {status}"):
            await over(turn)


async def test_a_line_that_drops_again_and_again_is_given_up_after_so_many_attempts() -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        await server.post("session/prompt")
        events = await server.stream("s1")
        await events.say(chunk("one "), "c-1")

        async def react(request: Request) -> bool:
            if request.method == "GET":
                await request.answer(503)
            return request.method == "GET"

        server.react = react
        before = len(server.gets)
        await events.cut()
        with pytest.raises(ConnectionClosed, match="broke too often"):
            await over(turn)
        assert len(server.gets) - before == AT_ONCE.attempts


async def test_a_message_that_comes_gives_a_line_all_its_attempts_again() -> None:
    async with talking() as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        for number in range(1, 3 * AT_ONCE.attempts):
            events = await server.stream("s1", number)
            await events.say(chunk(f"{number} "), f"c-{number}")
            await events.cut()
        await finish(await server.stream("s1", 3 * AT_ONCE.attempts), asked)
        assert len(await texts(turn)) == 3 * AT_ONCE.attempts - 1


async def test_a_server_that_showed_signs_of_life_and_is_silent_counts_as_gone() -> None:
    async with talking(bounds=ClientLimits(silence=0.01)) as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        events = await server.stream("s1")
        await events.say(chunk("one "), "c-1")
        await events.raw(b":\n\n")
        again = await server.stream("s1", 2)
        assert again.request.headers["last-event-id"] == "c-1"
        await finish(again, asked)
        assert await texts(turn) == ["one "]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"data: " + b"x" * 5000, "EventTooLong"),
        (b"data: x\n" * 700, "EventTooLong"),
        (b"id: " + b"x" * 5000, "EventTooLong"),
    ],
)
async def test_an_event_beyond_the_bound_ends_the_connection(data: bytes, said: str) -> None:
    async with talking(bounds=ClientLimits(event=4096)) as (server, _, session), session.prompt("x") as turn:
        await server.post("session/prompt")
        await (await server.stream("s1")).raw(data)
        with pytest.raises(ConnectionClosed, match=said):
            await over(turn)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Content_Type": "text/html"}, "something else than a stream of events"),
        ({"Content_Type": "text/event-stream", "Content_Encoding": "gzip"}, "something else than a stream of events"),
    ],
)
async def test_an_answer_that_is_not_a_stream_of_events_ends_the_connection(headers: dict[str, str], said: str) -> None:
    async with serving() as server, connect_http(server.url) as agent:

        async def react(request: Request) -> bool:
            if request.method == "GET":
                await request.answer(200, b"<html>", **headers)
            return request.method == "GET"

        server.react = react
        await agent.initialize()
        with pytest.raises(ConnectionClosed, match=said):
            await agent.new_session("/")


async def test_a_request_that_may_have_arrived_fails_and_is_withdrawn_and_its_answer_is_dropped() -> None:
    async with talking() as (server, agent, session):
        server.react = _cut("_once", 1)
        with pytest.raises(InternalError, match="may have reached the agent"):
            await agent.request("_once", {"sessionId": "s1"})
        withdrawn = await server.post("$/cancel_request")
        lost = server.of("_once")[0].message["id"]
        assert withdrawn.message["params"] == {"requestId": lost}
        await (await server.stream("s1")).say(answer(lost, "late"))
        async with session.prompt("x") as turn:
            await finish(await server.stream("s1"), await server.post("session/prompt"))
            await over(turn)
        assert len(server.of("_once")) == 1


async def test_a_server_that_takes_each_message_once_gets_it_again() -> None:
    async with serving() as server:

        async def repeatable(request: Request) -> bool:
            if request.method != "POST" or request.message["method"] != "initialize":
                return False
            body = {"jsonrpc": "2.0", "id": request.message["id"], "result": server.initialized}
            await request.answer(200, body, Acp_Connection_Id="c1", Acp_Repeatable="true")
            return True

        server.react = repeatable
        async with connect_http(server.url, backoff=AT_ONCE) as agent:
            await agent.initialize()
            server.react = _cut("_twice", 2)
            agent.notify("_twice", {})
            await server.post("_twice", 3)
            numbers = [request.headers["acp-message-id"] for request in server.of("_twice")]
            assert len(numbers) == 3
            assert len(set(numbers)) == 1


async def test_a_line_that_breaks_in_initialize_is_tried_again() -> None:
    async with serving() as server, connect_http(server.url, backoff=AT_ONCE) as agent:
        server.react = _cut("initialize", 2)
        await agent.initialize()
        assert len(server.of("initialize")) == 3


async def test_an_answer_that_may_have_arrived_is_sent_again() -> None:
    async def allow(request: RequestPermissionRequest) -> Any:
        return request.options[0]

    async with talking(Handlers(permission=allow)) as (server, _, session), session.prompt("x") as turn:
        asked = await server.post("session/prompt")
        events = await server.stream("s1")

        async def react(request: Request) -> bool:
            is_first = len([each for each in server.posts if "method" not in each.message]) == 1
            if request.method == "POST" and "method" not in request.message and is_first:
                await request.cut()
                return True
            return False

        server.react = react
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": options}
        await events.say({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params})
        await server.until(lambda: len([each for each in server.posts if "method" not in each.message]) == 2)
        await finish(events, asked)
        await over(turn)


async def test_what_a_handler_was_asked_is_withdrawn_when_the_line_is_lost() -> None:
    cut, begun = anyio.Event(), anyio.Event()

    async def ask(_: RequestPermissionRequest) -> RequestPermissionResponse:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cut.set()
        raise AssertionError

    async with talking(Handlers(permission=ask)) as (server, _, session), session.prompt("x") as turn:
        await server.post("session/prompt")
        events = await server.stream("s1")
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": []}
        await events.say({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params})
        await begun.wait()
        await events.cut()
        await cut.wait()
        with pytest.raises(ConnectionClosed):
            await over(turn)


async def test_a_server_that_is_gone_is_tried_again_and_then_given_up() -> None:
    async with anyio.create_task_group() as tasks:
        gone, is_gone = anyio.Event(), anyio.Event()
        url: list[str] = []

        async def serve() -> None:
            async with serving() as server:
                url.append(server.url)
                is_gone.set()
                await gone.wait()

        tasks.start_soon(serve)
        await is_gone.wait()
        async with connect_http(url[0], backoff=AT_ONCE) as agent:
            await agent.initialize()
            gone.set()
            with pytest.raises(ConnectionClosed) as error:
                await agent.request("_x", {})
        assert error.value.reason is not None


async def test_more_questions_than_are_allowed_end_the_connection() -> None:
    cancelled = list[Any]()

    async def ask(request: RequestPermissionRequest) -> RequestPermissionResponse:
        cancelled.append(request)
        await anyio.sleep_forever()
        raise AssertionError

    handlers, bounds = Handlers(permission=ask), ClientLimits(asked=3)
    async with talking(handlers, bounds) as (server, _, session), session.prompt("x") as turn:
        await server.post("session/prompt")
        events = await server.stream("s1")
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": []}
        for id in range(4):
            await events.say({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
        with pytest.raises(ConnectionClosed, match="asked 3 questions"):
            await over(turn)


async def test_more_cookies_than_are_kept_end_the_connection() -> None:
    async with serving() as server:
        number = 0

        async def react(request: Request) -> bool:
            nonlocal number
            if request.method != "POST" or request.message["method"] == "initialize":
                return False
            number += 1
            await request.answer(202, b"", Set_Cookie=f"c{number}=1")
            return True

        server.react = react
        async with connect_http(server.url) as agent:
            await agent.initialize()
            for _ in range(70):
                agent.notify("_x", {})
            with pytest.raises(ConnectionClosed, match="too many cookies"):
                await agent.request("_y", {})


def _cut(method: str, times: int) -> Any:
    """Cut the connections on which a message of this method comes, so many times."""
    left = [times]

    async def react(request: Request) -> bool:
        if request.method != "POST" or request.message.get("method") != method or not left[0]:
            return False
        left[0] -= 1
        await request.cut()
        return True

    return react


async def test_an_answer_waits_for_the_history_that_comes_on_another_stream() -> None:
    heard: list[str] = []
    async with talking() as (server, agent, _):
        history = await server.stream("s1")
        async with anyio.create_task_group() as tasks:

            async def load() -> None:
                await agent.load_session("s1", "/", on_update=lambda update: heard.append(str(update)))
                heard.append("loaded")

            tasks.start_soon(load)
            asked = await server.post("session/load")
            result = {"sessionId": "s1", "_meta": {"acp_server/behind": "c-2"}}
            await (await server.stream()).say(answer(asked.message["id"], result))
            await history.say(chunk("one"), "c-1")
            await history.say(chunk("two"), "c-2")
        assert ["one" in heard[0], "two" in heard[1], heard[2]] == [True, True, "loaded"]


async def test_a_response_waits_for_the_history_also_if_a_later_request_has_the_same_id() -> None:
    async with serving() as server, asked_raw(server, "session/load") as (stream, history):
        await stream.send(b'{"jsonrpc":"2.0","id":1,"method":"_again"}\n')
        await server.post("_again")
        events = await server.stream()
        await events.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "again"}})
        assert b'"again"' in await stream.receive()
        await events.say(answer(1, {"sessionId": "s1", "_meta": {"acp_server/behind": "c-1"}}))
        await events.say({"jsonrpc": "2.0", "method": "_behind", "params": {}})
        received = b""
        while b'"_behind"' not in received:
            received += await stream.receive()
        await history.say(chunk("one"), "c-1")
        while b'"one"' not in received or b'"result"' not in received:
            received += await stream.receive()
        assert received.index(b'"one"') < received.index(b'"result"')


@pytest.mark.parametrize("behind", ["c-1", "c-2"])
async def test_an_answer_behind_what_has_come_does_not_wait(behind: str) -> None:
    async with talking() as (server, agent, _):
        history = await server.stream("s1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.load_session, "s1", "/")
            asked = await server.post("session/load")
            await history.say(chunk("one"), "c-1")
            await history.say(chunk("two"), "c-2")
            await history.say({"jsonrpc": "2.0", "id": 7, "method": "_ping", "params": {"sessionId": "s1"}}, "c-3")
            await server.until(lambda: [each for each in server.posts if each.message.get("id") == 7])
            result = {"sessionId": "s1", "_meta": {"acp_server/behind": behind}}
            await (await server.stream()).say(answer(asked.message["id"], result))


async def test_responses_that_wait_for_the_same_event_all_arrive_behind_it() -> None:
    async with talking() as (server, agent, _):
        history = await server.stream("s1")
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(agent.request, "session/load", {"sessionId": "s1", "cwd": "/", "mcpServers": []})
            result = {"sessionId": "s1", "_meta": {"acp_server/behind": "c-1"}}
            for number in (1, 2):
                asked = await server.post("session/load", number)
                await (await server.stream()).say(answer(asked.message["id"], result))
            await history.say(chunk("one"), "c-1")

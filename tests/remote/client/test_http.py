"""What a client sends over HTTP, in which order, and on which streams it listens."""

from typing import Any

import anyio
import pytest

from acp_server.client import Handlers, allow_once
from acp_server.errors import ConnectionClosed, InternalError, RpcError, UsageError
from acp_server.remote import ClientLimits, connect_http

from . import PATIENCE, Request, serving
from .talking import answer, asked_raw, chunk, opened, over

pytestmark = pytest.mark.anyio


async def test_a_turn_goes_out_as_posts_and_comes_in_on_the_stream_of_its_session() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        session = await opened(server, agent)
        async with session.prompt("hello") as turn:
            asked = await server.post("session/prompt")
            events = await server.stream("s1")
            for text in ("one ", "two"):
                await events.say(chunk(text))
            await events.say(answer(asked.message["id"], {"stopReason": "end_turn"}))
            said = [update.to_wire()["content"]["text"] async for update in turn]
        assert (said, turn.stop_reason) == (["one ", "two"], "end_turn")
        named = {each.message["method"]: (each.headers.get("acp-connection-id"), each.session) for each in server.posts}
        assert named == {"initialize": (None, None), "session/new": ("c1", None), "session/prompt": ("c1", "s1")}
    assert [each.headers["acp-connection-id"] for each in server.deletes] == ["c1"]


async def test_the_stream_of_a_session_is_open_before_the_session_is_loaded() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        order = list[str]()

        async def react(request: Request) -> bool:
            order.append(f"{request.method} {(request.message or {}).get('method')} {request.session}")
            return False

        server.react = react
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.load_session, "old", "/")
            asked = await server.post("session/load")
            await (await server.stream()).say(answer(asked.message["id"]))
        assert [each for each in order if each != "GET None None"] == ["GET None old", "POST session/load old"]


async def test_an_answer_goes_to_the_session_whose_stream_has_asked() -> None:
    async with serving() as server, connect_http(server.url, Handlers(permission=allow_once)) as agent:
        await agent.initialize()
        session = await opened(server, agent)
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": options}
        question = {"jsonrpc": "2.0", "id": "1", "method": "session/request_permission", "params": params}
        async with session.prompt("x") as turn:
            asked = await server.post("session/prompt")
            events = await server.stream("s1")
            await events.say(question)
            said = await server.until(lambda: [each for each in server.posts if "method" not in each.message])
            assert (said[0].session, said[0].message["id"]) == ("s1", "1")
            assert said[0].message["result"]["outcome"]["optionId"] == "yes"
            await events.say(answer(asked.message["id"], {"stopReason": "end_turn"}))
            await over(turn)


async def test_a_second_response_to_one_request_does_not_overtake_the_first() -> None:
    async with serving() as server, asked_raw(server, "_begin") as (stream, events):
        await events.say({"jsonrpc": "2.0", "id": 7, "method": "_ask", "params": {"sessionId": "s1"}})
        assert b'"_ask"' in await stream.receive()

        async def react(request: Request) -> bool:
            return bool(request.message) and request.message.get("result") == "no"

        server.react = react
        await stream.send(b'{"jsonrpc":"2.0","id":7,"result":"no"}\n{"jsonrpc":"2.0","id":7,"result":"yes"}\n')
        said = await server.until(lambda: [each for each in server.posts if each.message.get("id") == 7])
        await anyio.wait_all_tasks_blocked()
        assert [each.message["result"] for each in server.posts if each.message.get("id") == 7] == ["no"]
        await said[0].answer(202)
        await server.until(lambda: server.posts[-1].message.get("result") == "yes")


@pytest.mark.parametrize("method", ["session/cancel", "$/cancel_request"])
async def test_a_cancel_is_sent_while_the_post_of_its_prompt_waits_and_again_behind_it(method: str) -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        session = await opened(server, agent)
        server.react = _hold("session/prompt")
        async with session.prompt("x") as turn:
            held = await server.post("session/prompt")
            if method == "session/cancel":
                turn.cancel()
            else:
                agent.notify(method, {"requestId": held.message["id"]})
            await server.post(method)
            assert len(server.of(method)) == 1
            # It has not been taken, so the cancel may have come too early.
            await held.answer(202)
            await server.post(method, 2)
            await (await server.stream("s1")).say(answer(held.message["id"], {"stopReason": "cancelled"}))
            await over(turn)
        assert len(server.of(method)) == 2


async def test_a_cancel_of_what_was_taken_is_sent_once() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        session = await opened(server, agent)
        async with session.prompt("x") as turn:
            asked = await server.post("session/prompt")
            await asked.is_answered.wait()
            # Whatever else goes to the session is taken behind it.
            agent.notify("_mark", {"sessionId": "s1"})
            await (await server.post("_mark")).is_answered.wait()
            turn.cancel()
            await (await server.post("session/cancel")).is_answered.wait()
            await (await server.stream("s1")).say(answer(asked.message["id"], {"stopReason": "cancelled"}))
            await over(turn)
        assert len(server.of("session/cancel")) == 1


async def test_messages_of_one_session_wait_for_each_other_and_not_for_another_one() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        for id in ("s1", "s2"):
            await opened(server, agent, id)
        server.react = _hold("_first")
        agent.notify("_first", {"sessionId": "s1"})
        agent.notify("_second", {"sessionId": "s1"})
        held = await server.post("_first")
        agent.notify("_other", {"sessionId": "s2"})
        await server.post("_other")
        assert not server.of("_second")
        await held.answer(202)
        await server.post("_second")


async def test_cookies_and_headers_go_with_each_request_and_come_back_on_the_next_connection() -> None:
    from http.cookiejar import CookieJar

    jar = CookieJar()
    async with serving() as server:

        async def react(request: Request) -> bool:
            if request.method != "POST" or request.message["method"] != "initialize":
                return False
            body = {"jsonrpc": "2.0", "id": request.message["id"], "result": server.initialized}
            await request.answer(200, body, Acp_Connection_Id="c1", Set_Cookie="node=7; Path=/")
            return True

        server.react = react
        for _ in range(2):
            async with connect_http(server.url, headers={"X-Team": "a"}, token="secret", cookies=jar) as agent:
                await agent.initialize()
                await server.stream()
    for request in [*server.posts, *server.gets, *server.deletes]:
        assert (request.headers["x-team"], request.headers["authorization"]) == ("a", "Bearer secret")
    cookies = [each.headers.get("cookie") for each in [*server.posts, *server.gets, *server.deletes]]
    assert cookies == [None, *["node=7"] * (len(cookies) - 1)]


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "token"), (403, "not admit this client"), (404, "not know the conn"), (503, "refused"), (302, "elsewhere")],
)
async def test_a_server_that_refuses_to_begin_ends_the_connection_in_words(status: int, said: str) -> None:
    async with serving() as server:

        async def react(request: Request) -> bool:
            await request.answer(status, b"because")
            return True

        server.react = react
        async with connect_http(server.url) as agent:
            with pytest.raises(ConnectionClosed, match=f"initialize was answered: .*{said}.*status {status}"):
                await agent.initialize()


async def test_no_redirect_is_followed_so_no_other_server_sees_the_token() -> None:
    async with serving() as server, serving() as other:

        async def react(request: Request) -> bool:
            await request.answer(307, b"", Location=other.url)
            return True

        server.react = react
        async with connect_http(server.url, token="secret") as agent:
            with pytest.raises(ConnectionClosed, match=r"redirects to http://127\.0\.0\.1:\d+ \(status 307\)"):
                await agent.initialize()
        assert not other.posts


async def test_a_server_that_cannot_be_reached_is_named_and_its_secrets_are_not() -> None:
    async with serving() as server:
        pass
    url = server.url.replace("//", "//user:secret@") + "?key=secret"
    with anyio.fail_after(PATIENCE):
        async with connect_http(url) as agent:
            with pytest.raises(ConnectionClosed, match="cannot be reached") as error:
                await agent.initialize()
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"X-A": "b\r\nX-C: d"}},
        {"headers": {"X\r\nA": "b"}},
        {"headers": {"X-A": "ä"}},
        {"headers": {"acp-session-id": "s"}},
        {"headers": {"Content-Length": "0"}},
        {"token": "a\nb"},
        {"token": "a b"},
        {"token": ""},
    ],
)
async def test_what_would_be_another_header_is_refused_before_anything_is_sent(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        connect_http("http://127.0.0.1:9/acp", **given)
    assert "\r" not in str(error.value)


@pytest.mark.parametrize("url", ["", "acp", "ftp://a/b", "http://", "http://a b/", "http://a:b/", "unix:", "file:///a"])
async def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        connect_http(url)


async def test_the_id_of_a_session_that_would_be_another_header_is_sent_nowhere() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        with pytest.raises(InternalError, match="does not fit into a header"):
            await agent.request("session/prompt", {"sessionId": "s\r\nX-A: b"})
        assert not server.of("session/prompt")


@pytest.mark.parametrize("status", [400, 409, 413, 500, 503])
async def test_a_message_that_is_refused_fails_alone_with_its_status(status: int) -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()

        async def react(request: Request) -> bool:
            if request.method != "POST" or request.message["method"] != "_no":
                return False
            await request.answer(status, b"no")
            return True

        server.react = react
        with pytest.raises(RpcError) as error:
            await agent.request("_no", {})
        assert error.value.data == {"status": status}
        await opened(server, agent)


async def test_more_sessions_than_are_allowed_are_refused_and_the_others_go_on() -> None:
    async with serving() as server, connect_http(server.url, bounds=ClientLimits(sessions=1)) as agent:
        await agent.initialize()
        session = await opened(server, agent)
        await server.stream("s1")
        with pytest.raises(InternalError, match="more than 1 sessions"):
            await agent.request("_x", {"sessionId": "s2"})
        agent.notify("_y", {"sessionId": session.id})
        await server.post("_y")


async def test_what_needs_no_response_opens_no_stream_of_its_session() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()
        agent.notify("session/cancel", {"sessionId": "unknown"})
        await server.post("session/cancel")
        assert [get.session for get in server.gets] == [None]


async def test_a_server_that_knows_a_session_only_once_it_is_loaded_is_asked_again() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        await agent.initialize()

        async def react(request: Request) -> bool:
            if request.session is None or (request.method == "GET" and len(server.gets) > 2):
                return False
            await request.answer(404, b"Unknown session")
            return True

        server.react = react
        loaded = anyio.Event()

        async def load() -> None:
            await agent.load_session("old", "/")
            loaded.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load)
            asked = await server.post("session/load")
            assert asked.session is None
            await (await server.stream()).say(answer(asked.message["id"]))
            await server.stream("old")
            await loaded.wait()


def _hold(method: str) -> Any:
    async def react(request: Request) -> bool:
        return bool(request.message) and request.message.get("method") == method

    return react

"""How long a client over HTTP reads the stream of a session that was closed."""

from typing import Any

import anyio
import pytest

from acp_server.errors import RpcError
from acp_server.remote import ClientLimits, connect_http

from . import Events, Request, serving
from .talking import answer, asked_raw, opened

pytestmark = pytest.mark.anyio

CLOSING = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}
AT_ONCE = ClientLimits(closing=0.0)


async def test_the_stream_of_a_session_ends_with_the_session() -> None:
    async with serving() as server, connect_http(server.url, bounds=AT_ONCE) as agent:
        server.initialized = CLOSING
        await agent.initialize()
        await opened(server, agent)
        events = await server.stream("s1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.close_session, "s1")
            asked = await server.post("session/close")
            await events.say(answer(asked.message["id"]))
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await events.request.stream.receive()


@pytest.mark.parametrize("error", [None, {"code": -32002, "message": "no such session"}])
async def test_the_stream_of_a_closed_session_is_read_until_each_request_of_it_is_answered(error: Any) -> None:
    async with serving() as server, connect_http(server.url, bounds=AT_ONCE) as agent:
        server.initialized = CLOSING
        await agent.initialize()
        await opened(server, agent)
        events = await server.stream("s1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.close_session, "s1")
            closing = await server.post("session/close")

            async def late() -> None:
                if error is None:
                    await agent.request("_late", {"sessionId": "s1"})
                else:
                    with pytest.raises(RpcError, match="no such session"):
                        await agent.request("_late", {"sessionId": "s1"})

            tasks.start_soon(late)
            asked = await server.post("_late")
            await events.say(answer(closing.message["id"]))
            # The response to the close has arrived before the next event is sent.
            await events.say({"jsonrpc": "2.0", "id": "ping", "method": "_ping", "params": {"sessionId": "s1"}})
            await server.until(lambda: [each for each in server.posts if each.message.get("id") == "ping"])
            said = answer(asked.message["id"])
            await events.say(said if error is None else {"jsonrpc": "2.0", "id": said["id"], "error": error})
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await events.request.stream.receive()


async def test_the_stream_of_a_session_that_is_loaded_while_it_is_closed_stays() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        server.initialized = {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"close": {}}},
        }
        await agent.initialize()
        await opened(server, agent)
        events = await server.stream("s1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.close_session, "s1")
            closing = await server.post("session/close")
            tasks.start_soon(agent.load_session, "s1", "/")
            loading = await server.post("session/load")
            await events.say(answer(closing.message["id"]))
            await (await server.stream()).say(answer(loading.message["id"], {"sessionId": "s1"}))
        await events.say({"jsonrpc": "2.0", "id": "ping", "method": "_ping", "params": {"sessionId": "s1"}})
        await server.until(lambda: [each for each in server.posts if each.message.get("id") == "ping"])
        assert sum(get.session == "s1" for get in server.gets) == 1


CREATE = {"jsonrpc": "2.0", "id": 7, "method": "terminal/create", "params": {"sessionId": "s1"}}
CREATED = b'{"jsonrpc":"2.0","id":7,"result":{"terminalId":"t"}}\n'
RELEASE = {"jsonrpc": "2.0", "id": 8, "method": "terminal/release", "params": {"sessionId": "s1"}}


def is_response(request: Request) -> bool:
    return "result" in (request.message or {})


async def test_a_late_response_of_a_closed_session_opens_its_stream_for_what_the_agent_asks_then() -> None:
    async with serving() as server, asked_raw(server, "session/close", ClientLimits(sessions=1)) as (stream, events):
        await events.say(CREATE)
        assert b'"terminal/create"' in await stream.receive()
        await events.say(answer(1))
        assert b'"result"' in await stream.receive()
        # Another session takes the place of the closed one.
        await stream.send(b'{"jsonrpc":"2.0","method":"_other","params":{"sessionId":"s2"}}\n')
        await server.post("_other")
        await stream.send(CREATED)
        again = await server.stream("s1", 2)
        await again.say(RELEASE)
        assert b'"terminal/release"' in await stream.receive()


async def test_a_closed_session_is_read_on_for_what_the_agent_asks_after_a_late_response() -> None:
    async with serving() as server, asked_raw(server, "session/close") as (stream, events):
        await events.say(CREATE)
        assert b'"terminal/create"' in await stream.receive()
        await stream.send(CREATED)
        await server.until(lambda: any(map(is_response, server.posts)))
        await events.say(answer(1))
        assert b'"result"' in await stream.receive()
        await events.say(RELEASE)
        assert b'"terminal/release"' in await stream.receive()
        assert len(server.gets) == 2


async def test_the_stream_of_a_late_response_ends_after_a_while() -> None:
    async with serving() as server, asked_raw(server, "session/close", AT_ONCE) as (stream, events):
        await events.say(CREATE)
        assert b'"terminal/create"' in await stream.receive()
        await events.say(answer(1))
        assert b'"result"' in await stream.receive()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await events.request.stream.receive()
        await stream.send(CREATED)
        again = await server.stream("s1", 2)
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await again.request.stream.receive()


@pytest.mark.parametrize("how", ["cut", "end", "refused"])
async def test_a_closed_session_that_the_server_has_forgotten_does_not_end_the_connection(how: str) -> None:
    async with serving() as server, asked_raw(server, "session/close") as (stream, events):
        await events.say(CREATE)
        assert b'"terminal/create"' in await stream.receive()
        await events.say(answer(1))
        assert b'"result"' in await stream.receive()

        async def forget(request: Request) -> bool:
            if request.session == "s1":
                await request.answer(404)
            return request.session == "s1"

        server.react = forget
        if how == "cut":
            await events.cut()
        elif how == "end":
            await events.end()
        await stream.send(CREATED)
        await server.until(lambda: any(map(is_response, server.posts)))
        await stream.send(b'{"jsonrpc":"2.0","id":2,"method":"_x","params":{"sessionId":"s1"}}\n')
        assert b"404" in await stream.receive()
        await stream.send(b'{"jsonrpc":"2.0","id":3,"method":"_x"}\n')
        await server.post("_x", 2)


async def test_only_so_many_streams_of_closed_sessions_are_read_on() -> None:
    async with serving() as server, connect_http(server.url) as agent:
        server.initialized = CLOSING
        await agent.initialize()
        streams: list[Events] = []
        for number in range(33):
            await opened(server, agent, f"s{number}")
            streams.append(await server.stream(f"s{number}"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.close_session, f"s{number}")
                closing = await server.post("session/close", number + 1)
                await streams[-1].say(answer(closing.message["id"]))
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await streams[0].request.stream.receive()
        await streams[1].say({"jsonrpc": "2.0", "id": "ping", "method": "_ping", "params": {"sessionId": "s1"}})
        await server.until(lambda: [each for each in server.posts if each.message.get("id") == "ping"])


@pytest.mark.parametrize("is_resumable", [True, False])
async def test_a_closed_session_that_is_loaded_is_read_by_a_new_get_where_streams_cannot_be_resumed(
    is_resumable: bool,
) -> None:
    async with serving() as server, connect_http(server.url) as agent:
        server.initialized = {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "sessionCapabilities": {"close": {}},
                "_meta": {"transport": {"resumable": {}} if is_resumable else {}},
            },
        }
        await agent.initialize()
        await opened(server, agent)
        events = await server.stream("s1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.close_session, "s1")
            closing = await server.post("session/close")
            await events.say(answer(closing.message["id"]))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.load_session, "s1", "/")
            loading = await server.post("session/load")
            await (await server.stream()).say(answer(loading.message["id"], {"sessionId": "s1"}))
        assert sum(get.session == "s1" for get in server.gets) == (1 if is_resumable else 2)

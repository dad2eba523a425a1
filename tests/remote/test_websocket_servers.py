"""Agents over WebSocket, by a real server to real clients."""

import asyncio
import json
from typing import Any

import acp
import anyio
import pytest
import websockets
from acp.ws.client import create_websocket_stream
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.asyncio.client import connect

from acp_server import Limits
from acp_server.remote import RemoteApp, RemoteLimits
from tests.interop.editor import Editor as OfficialEditor
from tests.interop.editor import text_block
from tests.session.agents import setup
from tests.session.editor import CANCELLED, END_TURN

from .serving import connected, reader, routed, serving

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
"""uvicorn and the clients are on asyncio."""


@pytest.mark.parametrize("mounted", [False, True])
async def test_a_prompt_is_answered_with_what_the_client_is_asked_for(mounted: bool) -> None:
    agent, _, _ = reader()
    app = Starlette(routes=[Mount("/acp", RemoteApp(agent))]) if mounted else routed(agent)
    async with serving(app) as url, connected(url + "/" * mounted) as (editor, connection):
        assert len(connection.response.headers["Acp-Connection-Id"]) == 32
        editor.client.answer("fs/read_text_file", {"content": "line\n" * 100_000})
        assert await editor.ask(await editor.open(), "/project/a.txt") == END_TURN
        assert "".join(editor.said()) == "begun " + "line\n" * 100_000


async def test_a_cancel_ends_the_turn_and_withdraws_what_was_asked() -> None:
    agent, _, cut = reader()
    async with serving(routed(agent)) as url, connected(url) as (editor, _):
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


@pytest.mark.parametrize("how", ["abort", "close"])
async def test_a_client_that_is_gone_ends_its_own_turns_alone(how: str) -> None:
    agent, turns, cut = reader()
    options = {"limits": Limits(drain=0.05), "remote": RemoteLimits(grace=0.05)}
    async with serving(routed(agent, **options)) as url, connected(url) as (other, _):
        session = await other.open()
        async with connect(url) as connection:
            for message in (
                {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
                {"id": 1, "method": "session/new", "params": setup()},
            ):
                await connection.send(json.dumps({"jsonrpc": "2.0", **message}))
                answer = json.loads(await connection.recv())
            prompt = {"sessionId": answer["result"]["sessionId"], "prompt": [{"type": "text", "text": "hang"}]}
            await connection.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt}))
            assert "begun" in str(await connection.recv())
            if how == "abort":
                connection.transport.abort()
            with anyio.fail_after(20):
                if how == "close":
                    await connection.close()
                await cut.wait()
                await turns[0].client.connection.wait_closed()
        other.client.answer("fs/read_text_file", {"content": "all is well"})
        assert await other.ask(session, "/project/a.txt") == END_TURN


async def test_two_hundred_clients_at_once_are_served_each_its_own() -> None:
    agent, turns, _ = reader()
    said: list[str] = []
    together = anyio.Event()
    waiting = 0

    async with serving(routed(agent)) as url:

        async def one(number: int) -> None:
            nonlocal waiting
            async with connected(url, open_timeout=30) as (editor, _):
                editor.client.answer("fs/read_text_file", {"content": str(number)})
                session = await editor.open()
                waiting += 1
                if waiting == 200:
                    together.set()
                await together.wait()
                assert await editor.ask(session, "/project/a.txt") == END_TURN
                assert "".join(editor.said()) == f"begun {number}"
                said.append(editor.said()[-1])

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(one, number)
    assert len({turn.client.connection for turn in turns}) == len(said) == 200


async def test_the_client_of_the_official_sdk_drives_it() -> None:
    agent, _, _ = reader()
    editor = OfficialEditor()
    async with serving(routed(agent)) as url:
        client = acp.connect_to_agent(editor, await create_websocket_stream(url))
        await client.initialize(protocol_version=1, client_capabilities=editor.capabilities)
        session = (await client.new_session(cwd="/project", mcp_servers=[])).session_id
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(client.prompt(session_id=session, prompt=[text_block("hang")]))
            await editor.reached("agent_message_chunk")
            await client.cancel(session_id=session)
        assert (turn.result().stop_reason, editor.said[session]) == ("cancelled", "begun ")
        await client.close()


@pytest.mark.parametrize(
    ("origins", "origin", "enters"),
    [
        ((), None, True),
        ((), "http://evil.example", False),
        (["https://app.example.org"], "https://app.example.org", True),
        ("https://app.example.org", "https://app.example.org", True),
        ("https://app.example.org", "https://app.example", False),
        ("*", "http://evil.example", True),
    ],
)
async def test_a_page_enters_if_its_origin_may(
    origins: Any, origin: Any, enters: bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent, _, _ = reader()
    async with serving(routed(agent, origins=origins)) as url:
        if enters:
            async with connected(url, origin=origin) as (editor, _):
                assert await editor.open()
        else:
            with pytest.raises(websockets.InvalidStatus) as refused:
                await connect(url, origin=origin)
            assert refused.value.response.status_code == 403
            assert f"refused a page of another origin: {origin!r}" in caplog.text
            caplog.clear()


async def test_a_message_that_is_too_long_is_refused_and_the_connection_lives() -> None:
    agent, _, _ = reader()
    async with serving(routed(agent, limits=Limits(line=1000))) as url, connected(url) as (editor, connection):
        await connection.send("x" * 2000)
        await editor.client.expect(lambda message: message.get("error", {}).get("code") in (-32700, -32600))
        assert await editor.open()

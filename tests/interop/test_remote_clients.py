"""Clients of the official SDKs drive our agents over HTTP and WebSocket."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import acp
import anyio
import httpx
import pytest
from acp.http.client import create_http_stream
from acp.ws.client import create_websocket_stream

from acp_server.remote import RemoteApp

from .editor import Editor, text_block
from .remote_agent import conversing, served
from .typescript import NODE

pytestmark = pytest.mark.anyio

COUNTED = "".join(f"{number} " for number in range(20))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("kind", ["http", "ws"])
async def test_the_clients_of_the_typescript_sdk_converse_in_every_way(kind: str) -> None:
    async with served(RemoteApp(conversing())) as port:
        words = [
            "node",
            "--experimental-websocket",
            "--no-warnings",
            "remote.js",
            kind,
            f"{kind}://127.0.0.1:{port}/acp",
        ]
        with anyio.fail_after(40):
            ended = await anyio.run_process(words, cwd=NODE, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    seen = json.loads(ended.stdout)
    assert seen["reasons"] == {
        **dict.fromkeys(("stream", "read", "permission", "beside", "loaded"), "end_turn"),
        "cancel": "cancelled",
        "cancelRequest": "cancelled",
    }
    assert seen["said"] == COUNTED + "300000 yes " + "begun " * 3
    assert seen["asked"] == [["read", "/project/a.txt"], ["permission", 4]]
    assert seen["replayed"].startswith("stream" + COUNTED + "read300000 permissionyes hangbegun ")


@asynccontextmanager
async def connected(kind: str, port: int, editor: Editor) -> AsyncGenerator[Any]:
    # Without a client of ours the SDK wants one for HTTP/2, which takes a further package.
    async with httpx.AsyncClient(timeout=None) as http:
        if kind == "ws":
            stream = await create_websocket_stream(f"ws://127.0.0.1:{port}/acp")
        else:
            stream = create_http_stream(f"http://127.0.0.1:{port}/acp", client=http)
        client = acp.connect_to_agent(editor, stream)
        await client.initialize(protocol_version=1, client_capabilities=editor.capabilities)
        yield client
        await client.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["http", "ws"])
async def test_the_clients_of_the_official_python_sdk_converse_in_every_way(kind: str) -> None:
    editor = Editor()
    async with served(RemoteApp(conversing())) as port:
        with anyio.fail_after(40):
            async with connected(kind, port, editor) as client:
                session = (await client.new_session(cwd="/project", mcp_servers=[])).session_id

                async def ask(text: str) -> str:
                    return (await client.prompt(session_id=session, prompt=[text_block(text)])).stop_reason

                assert await ask("stream") == "end_turn"
                assert await ask("permission") == "end_turn"
                async with asyncio.TaskGroup() as group:
                    turn = group.create_task(ask("hang"))
                    while "begun" not in editor.said[session]:
                        await editor.reached("agent_message_chunk")
                    await client.cancel(session_id=session)
                assert (turn.result(), editor.said[session]) == ("cancelled", COUNTED + "yes begun ")
            async with connected(kind, port, editor) as client:
                await client.load_session(session_id=session, cwd="/project", mcp_servers=[])
                assert await ask("stream") == "end_turn"

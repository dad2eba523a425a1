"""Clients of the official SDKs drive our agents over HTTP and WebSocket."""

import asyncio
import json
import shutil
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import acp
import anyio
import httpx
import pytest
import sniffio
from acp.http.client import create_http_stream
from acp.ws.client import create_websocket_stream

from acp_server.http.tls import server_context
from acp_server.remote import RemoteApp

from .editor import Editor, text_block
from .remote_agent import CERTIFICATES, conversing, served, served_by_hypercorn, served_by_uvicorn
from .typescript import NODE

pytestmark = pytest.mark.anyio

COUNTED = "".join(f"{number} " for number in range(20))


SERVERS = {"ours": served, "uvicorn": served_by_uvicorn, "hypercorn": served_by_hypercorn}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("kind", ["http", "ws"])
@pytest.mark.parametrize("server", SERVERS)
async def test_the_clients_of_the_typescript_sdk_converse_in_every_way(server: str, kind: str) -> None:
    if server == "uvicorn" and sniffio.current_async_library() == "trio":
        pytest.skip("uvicorn is for asyncio")
    async with SERVERS[server](RemoteApp(conversing())) as port:
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
async def connected(url: str, editor: Editor) -> AsyncGenerator[Any]:
    trusted = ssl.create_default_context(cafile=CERTIFICATES / "ca.pem")
    # Over TLS the server and the client agree on HTTP/2.
    async with httpx.AsyncClient(timeout=None, http2=True, verify=trusted) as http:
        if url.startswith("ws:"):
            stream = await create_websocket_stream(url)
        else:
            stream = create_http_stream(url, client=http)
        client = acp.connect_to_agent(editor, stream)
        await client.initialize(protocol_version=1, client_capabilities=editor.capabilities)
        yield client
        await client.close()


def with_tls(app: Any) -> Any:
    return served_by_hypercorn(app, tls=True)


def encrypted(app: Any) -> Any:
    return served(app, server_context(CERTIFICATES / "server.pem", None))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("serve", "scheme"),
    [(served, "http"), (served, "ws"), (encrypted, "https"), (served_by_uvicorn, "http"), (with_tls, "https")],
)
async def test_the_clients_of_the_official_python_sdk_converse_in_every_way(serve: Any, scheme: str) -> None:
    editor = Editor()
    versions: set[str] = set()
    app = RemoteApp(conversing())

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        versions.add(scope.get("http_version", ""))
        await app(scope, receive, send)

    async with serve(noting) as port:
        url = f"{scheme}://127.0.0.1:{port}/acp"
        with anyio.fail_after(40):
            async with connected(url, editor) as client:
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
            async with connected(url, editor) as client:
                await client.load_session(session_id=session, cwd="/project", mcp_servers=[])
                assert await ask("stream") == "end_turn"
    assert ("2" in versions) == (serve is with_tls)

"""Our clients drive agents behind the servers of the official SDKs, over HTTP and WebSocket."""

import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme

from acp_server.client import Handlers, LocalFiles, RemoteAgent, allow_once
from acp_server.errors import InternalError, RequestCancelled
from acp_server.remote import connect_http, connect_ws

from .editor import Editor, attached, text_block
from .subjects import HERE
from .typescript import NODE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("require_npm")]

PATIENCE = 30.0


class Reach:
    """How to reach a server by one transport."""

    def __init__(self, transport: str, port: int, verify: Any) -> None:
        self.transport = transport
        secure = "s" if verify else ""
        self.url = f"{transport}{secure}://{'localhost' if verify else '127.0.0.1'}:{port}/acp"
        self._verify = verify or True

    def __call__(self, handlers: Handlers) -> RemoteAgent:
        connect = connect_http if self.transport == "http" else connect_ws
        return connect(self.url, handlers, verify=self._verify)


class Served:
    """A server as a process, and how to reach it."""

    def __init__(self, name: str, port: int, verify: Any, *options: str) -> None:
        self.name = name
        self.options = options
        self.port = port
        self.verify = verify


@pytest.fixture(scope="module", params=["typescript", "uvicorn", "hypercorn"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The TypeScript SDK on node; the Python SDK on uvicorn, and on hypercorn with TLS and so HTTP/2."""
    options: list[str] = []
    command, verify = [sys.executable, str(HERE / "agents" / "remote_official.py"), request.param], None
    if request.param == "typescript":
        if shutil.which("node") is None:
            pytest.skip("npm is not here")
        command = ["node", str(NODE / "remote_server.js")]
    elif request.param == "hypercorn":
        folder = tmp_path_factory.mktemp("tls")
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
        certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
        command += [str(folder / "cert.pem"), str(folder / "key.pem")]
        verify = ssl.create_default_context()
        authority.configure_trust(verify)
        authority.cert_pem.write_to_path(str(folder / "authority.pem"))
        options = ["--cacert", str(folder / "authority.pem")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Served(request.param, int(process.stdout.readline()), verify, *options)
        process.communicate("")


@pytest.fixture(params=["http", "ws"])
def reach(server: Served, request: pytest.FixtureRequest) -> Reach:
    return Reach(request.param, server.port, server.verify)


async def test_a_session_streams_asks_reads_is_cancelled_and_is_loaded_by_a_new_connection(
    server: Served, reach: Reach, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("first line\n")
    handlers = Handlers(permission=allow_once, files=LocalFiles([tmp_path]))
    with anyio.fail_after(PATIENCE):
        async with reach(handlers) as agent:
            await agent.initialize()
            session = await agent.new_session(tmp_path)
            assert await session.ask("stream 3") == "0 1 2 "
            assert await session.ask("ask") == "yes"
            assert await session.ask(f"read {tmp_path / 'notes.txt'}") == "first line\n"
            async with session.prompt("hang") as turn:
                async for _ in turn:
                    turn.cancel()
            assert turn.stop_reason == "cancelled"
        async with reach(handlers) as agent:
            await agent.initialize()
            history = list[Any]()
            again = await agent.load_session(session.id, tmp_path, on_update=history.append)
            if server.name != "typescript" and reach.transport == "http":
                # This server never learns of a session that was loaded: it refuses what is said to it. The connection
                # goes on.
                with pytest.raises(InternalError, match="Unknown session"):
                    await again.ask("stream 2")
                again = await agent.new_session(tmp_path, on_update=history.append)
            # HTTP has a stream for the answer and another one for the history.
            assert await again.ask("stream 2") == "0 1 "
            assert len(history) >= 6


async def test_a_request_that_is_withdrawn_is_answered(server: Served, reach: Reach, tmp_path: Path) -> None:
    if server.name != "typescript":
        pytest.skip("the official Python SDK answers no request that is withdrawn")
    with anyio.fail_after(PATIENCE):
        async with reach(Handlers()) as agent:
            await agent.initialize()
            begun = anyio.Event()
            session = await agent.new_session(tmp_path, on_update=lambda _: begun.set())
            id = agent.link.connection.endpoint.ledger.next_id

            async def withdraw() -> None:
                await begun.wait()
                agent.notify("$/cancel_request", {"requestId": id})

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(withdraw)
                prompt = [{"type": "text", "text": "hang"}]
                with pytest.raises(RequestCancelled):
                    await agent.request("session/prompt", {"sessionId": session.id, "prompt": prompt})


async def test_http_2_is_spoken_where_the_server_offers_it(server: Served) -> None:
    if server.name != "hypercorn":
        pytest.skip("no HTTP/2 here")
    import httpx

    from acp_server.remote.address import address_of
    from acp_server.remote.exchange import Exchanges

    address = address_of(f"https://localhost:{server.port}/acp")
    exchanges = Exchanges(address, {}, verify=server.verify, cookies=None, http2=True)
    response, _ = await exchanges.ask("POST", {}, b"")
    await exchanges.aclose()
    assert (response.http_version, response.status_code) == ("HTTP/2", httpx.codes.UNSUPPORTED_MEDIA_TYPE)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_official_python_client_uses_a_remote_agent_by_our_bridge(
    server: Served, reach: Reach, tmp_path: Path, anyio_backend: str
) -> None:
    (tmp_path / "notes.txt").write_text("first line\n")
    editor = Editor()
    command = (sys.executable, "-m", "acp_server", "connect", *server.options, reach.url)
    async with attached(editor, command) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        for text, said in [("stream 3", "0 1 2 "), ("ask", "yes"), (f"read {tmp_path / 'notes.txt'}", "first line\n")]:
            answer = await connection.prompt(session_id=session, prompt=[text_block(text)])
            assert (answer.stop_reason, editor.said.pop(session)) == ("end_turn", said)
        await editor.reached("agent_message_chunk")
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await editor.reached("agent_message_chunk")
                await connection.cancel(session_id=session)

            tasks.start_soon(stop)
            answer = await connection.prompt(session_id=session, prompt=[text_block("hang")])
        assert (answer.stop_reason, editor.said[session]) == ("cancelled", "begun ")

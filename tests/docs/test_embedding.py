"""The guide to embedding: its examples run, and streams get what it says."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from starlette.routing import WebSocketRoute

from acp_server import Agent, Limits, ObservedStream, serve
from acp_server.remote import RemoteApp
from acp_server.testing import memory_pair
from tests.agent.processes.driver import started
from tests.remote.serving import connected, serving
from tests.session.editor import END_TURN

from .blocks import blocks, run

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_embedding_observe(tmp_path: Path) -> None:
    # `run("embedding.md", "observe")` is a program, which reads standard input.
    (tmp_path / "observed.py").write_text(blocks()["embedding.md", "observe"])
    with started([sys.executable, "observed.py"], cwd=tmp_path) as agent:
        agent.call(1, "initialize", protocolVersion=1)
        session = agent.call(2, "session/new", cwd=str(tmp_path), mcpServers=[])["sessionId"]
        agent.request(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        assert agent.next()["params"]["update"]["content"]["text"] == "3 messages came, 2 went."
        assert agent.next()["result"] == END_TURN
        assert agent.finish() == 0


async def test_embedding_messages(caplog: pytest.LogCaptureFixture) -> None:
    example = run("embedding.md", "messages")
    mine, its = memory_pair()
    observed = ObservedStream(its, example["observe"])
    with caplog.at_level(logging.INFO, "wire"):
        await mine.send(b'{"id":1}\n')
        await observed.receive()
    assert [record.getMessage() for record in caplog.records] == ['received {"id": 1}']


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_embedding_websocket() -> None:
    async with serving(run("embedding.md", "websocket")["app"]) as url, connected(url) as (editor, _):
        assert await editor.ask(await editor.open(), "hello") == END_TURN
        assert editor.said() == ["You said hello."]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_embedding_websocket_client() -> None:
    async with serving(run("embedding.md", "websocket")["app"]) as url:
        assert await run("embedding.md", "client")["ask"](url, "/project", "hello") == "You said hello."


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("mounted", [False, True])
async def test_fastapi_takes_it_in_one_line(mounted: bool) -> None:
    fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed: make test-integrations")
    agent = run("embedding.md", "websocket")["agent"]
    app: Any = fastapi.FastAPI()
    if mounted:
        app.mount("/acp/", RemoteApp(agent))
    else:
        app.router.routes.append(WebSocketRoute("/acp", RemoteApp(agent)))
    async with serving(app) as url, connected(url + "/" * mounted) as (editor, _):
        assert await editor.ask(await editor.open(), "hello") == END_TURN


class Stream:
    """A stream that does as the table says, and notes what it gets."""

    def __init__(self, *pieces: bytes, fails: str = "", error: type[Exception] = OSError) -> None:
        self._pieces = list(pieces)
        self._fails = fails
        self._error = error
        self.sent: list[bytes] = []
        self.closed = 0

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self._fails == "receive" and not self._pieces:
            raise self._error
        return self._pieces.pop(0) if self._pieces else b""

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self._fails == "send":
            raise self._error
        self.sent.append(data)

    async def aclose(self) -> None:
        self.closed += 1


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


@pytest.mark.parametrize("cut", [lambda data: [data], lambda data: [bytes([byte]) for byte in data]])
async def test_what_comes_may_come_in_any_pieces_and_whole_lines_go(cut: Callable[[bytes], list[bytes]]) -> None:
    stream = Stream(*cut(REQUEST + REQUEST.replace(b":1,", b":2,", 1)))
    await serve(Agent("here"), stream)
    assert all(data.endswith(b"\n") for data in stream.sent)
    assert sum(data.count(b"\n") for data in stream.sent) == 2
    assert stream.closed >= 1


ERRORS = pytest.mark.parametrize("error", [OSError, anyio.BrokenResourceError, anyio.ClosedResourceError])


@ERRORS
async def test_a_failure_of_receive_is_raised_behind_the_answers(error: type[Exception]) -> None:
    stream = Stream(REQUEST, fails="receive", error=error)
    with pytest.raises(error):
        await serve(Agent("here"), stream)
    assert stream.closed >= 1


@ERRORS
async def test_a_failure_of_send_is_the_end_of_the_connection_and_nothing_is_raised(error: type[Exception]) -> None:
    stream = Stream(REQUEST, fails="send", error=error)
    assert (await serve(Agent("here"), stream)).is_lost
    assert stream.closed >= 1


class Immediate(Stream):
    """One that takes some bytes at once."""

    def __init__(self, *pieces: bytes, at_once: int) -> None:
        super().__init__(*pieces)
        self._at_once = at_once
        self.now: list[bytes] = []

    def send_now(self, data: bytes) -> int:
        self.now.append(data[: self._at_once])
        return len(self.now[-1])


@pytest.mark.parametrize("at_once", [0, 10, 10_000])
async def test_the_rest_of_what_is_sent_at_once_is_the_next_that_send_gets(at_once: int) -> None:
    stream = Immediate(REQUEST, at_once=at_once)
    await serve(Agent("here"), stream, limits=Limits(drain=0.05))
    plain = Stream(REQUEST)
    await serve(Agent("here"), plain)
    assert b"".join(stream.now + stream.sent) == b"".join(plain.sent)


async def test_cancelling_serve_closes_the_connection_and_propagates() -> None:
    _, there = memory_pair()
    with anyio.move_on_after(0) as scope:
        await serve(Agent("here"), there)
    assert scope.cancelled_caught

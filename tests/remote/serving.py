"""An agent behind a real server, and real clients of it."""

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import uvicorn
import websockets
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from websockets.asyncio.client import connect

from acp_server import Agent, Turn
from acp_server.remote import RemoteApp
from acp_server.remote.cursors import without_cursor
from acp_server.testing import ScriptedClient
from tests.session.editor import EVERYTHING, Editor


def reader() -> tuple[Agent, list[Turn], anyio.Event]:
    """An agent that reads a file of the client's, or hangs if told so; its turns; set when one was cut."""
    agent = Agent("reader")
    turns: list[Turn] = []
    cut = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        if turn.text == "exit":
            raise SystemExit(3)
        await turn.say("begun ")
        if turn.text == "hang":
            try:
                await anyio.sleep_forever()
            finally:
                cut.set()
        await turn.say(await turn.client.read_text_file(turn.text))

    return agent, turns, cut


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncGenerator[str]:
    """The application behind a real server: where it is."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = _Server(uvicorn.Config(app, ws="websockets-sansio", log_config=None, lifespan="off", **options))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listening])
        try:
            yield f"ws://127.0.0.1:{listening.getsockname()[1]}/acp"
        finally:
            server.should_exit = True


def routed(agent: Agent, **options: Any) -> Starlette:
    app = RemoteApp(agent, **options)
    return Starlette(routes=[WebSocketRoute("/acp", app), Route("/acp", app)])


class _Wire:
    """A WebSocket as the stream of a scripted client."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def receive(self) -> bytes:
        try:
            text = await self._connection.recv()
        except websockets.ConnectionClosed:
            return b""
        assert isinstance(text, str)
        assert "\n" not in text
        return without_cursor(text.encode())[0] + b"\n"

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            await self._connection.send(line.decode())

    async def aclose(self) -> None:
        await self._connection.close()


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncGenerator[tuple[Editor, Any]]:
    """An editor that has said hello, and its WebSocket."""
    nothing: Any = None
    async with connect(url, **options) as connection, ScriptedClient(_Wire(connection), patience=20) as client:
        editor = Editor(client, nothing, nothing)
        await editor.initialize(EVERYTHING)
        yield editor, connection

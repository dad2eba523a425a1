"""An agent that does what clients over HTTP and WebSocket drive, and a server of it."""

import importlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import hypercorn
import sniffio
import uvicorn

from acp_server import Agent, MemoryStore, ToolContext, Turn
from acp_server.http.listener import Places
from acp_server.http.server import Server
from acp_server.http.websocket import WebSocketLimits

CERTIFICATES = Path(__file__).parents[1] / "http" / "certificates"


def conversing() -> Agent:
    """Its prompts: `stream`, `read`, `permission`, `hang`."""
    agent = Agent("conversing", store=MemoryStore())

    @agent.tool(approval=True)
    async def permitted(call: ToolContext) -> str:
        return "yes"

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "stream":
            for number in range(20):
                await turn.say(f"{number} ")
        elif turn.text == "read":
            await turn.say(f"{len(await turn.client.read_text_file('/project/a.txt'))} ")
        elif turn.text == "permission":
            await turn.say(f"{(await turn.run_tool('permitted')).value} ")
        else:
            await turn.say("begun ")
            await anyio.sleep_forever()

    return agent


@asynccontextmanager
async def served(app: Any, tls: Any = None) -> AsyncGenerator[int]:
    """The application behind our own server: its port."""
    server = Server(app, Places(200), websocket=WebSocketLimits(), tls=tls)
    listening = socket.create_server(("127.0.0.1", 0))
    with listening:
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, [listening])
            try:
                yield listening.getsockname()[1]
            finally:
                server.hurry()


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def served_by_uvicorn(app: Any) -> AsyncGenerator[int]:
    """The application behind uvicorn: its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = _Uvicorn(uvicorn.Config(app, ws="websockets-sansio", log_config=None, timeout_graceful_shutdown=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listening])
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True


@asynccontextmanager
async def served_by_hypercorn(app: Any, *, tls: bool = False) -> AsyncGenerator[int]:
    """The application behind hypercorn, with TLS over HTTP/2: its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    config = hypercorn.Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.errorlog = None
    config.graceful_timeout = 1
    if tls:
        config.certfile = config.keyfile = str(CERTIFICATES / "server.pem")
    serve: Any = importlib.import_module(f"hypercorn.{sniffio.current_async_library()}").serve
    ending = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve, app, config, shutdown_trigger=ending.wait))
        try:
            yield port
        finally:
            ending.set()

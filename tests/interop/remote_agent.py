"""An agent that does what clients over HTTP and WebSocket drive, and a server of it."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_server import Agent, MemoryStore, ToolContext, Turn
from acp_server.http.listener import Places
from acp_server.http.server import Server
from acp_server.http.websocket import WebSocketLimits


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

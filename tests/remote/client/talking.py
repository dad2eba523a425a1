"""Conversations with the server of the tests: what it says, and what a client hears of it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_server.client import RemoteAgent, RemoteSession, RemoteTurn
from acp_server.remote import ClientLimits
from acp_server.remote.client import RemoteStream, stream_to

from . import Events, Message, Server


def answer(id: Any, result: Any = None) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": {} if result is None else result}


def chunk(text: str, session: str = "s1") -> Message:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


async def over(turn: RemoteTurn) -> None:
    """Wait for the end of a turn."""
    async for _ in turn:
        pass


async def opened(server: Server, agent: RemoteAgent, id: str = "s1", stream: Events | None = None) -> RemoteSession:
    """A session, by its answer on the stream of the connection."""
    number = len(server.of("session/new")) + 1
    session: list[RemoteSession] = []

    async def ask() -> None:
        session.append(await agent.new_session("/"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        asked = await server.post("session/new", number)
        await (stream or await server.stream()).say(answer(asked.message["id"], {"sessionId": id}))
    return session[0]


async def texts(turn: RemoteTurn) -> list[str]:
    """All that the agent says in a turn."""
    return [update.to_wire()["content"]["text"] async for update in turn]


@asynccontextmanager
async def asked_raw(
    server: Server, method: str, bounds: ClientLimits | None = None
) -> AsyncGenerator[tuple[RemoteStream, Events]]:
    """A stream of single messages whose request about the session `s1` is not answered, and that session's events."""
    stream = stream_to(server.url, websocket=False, bounds=bounds)()
    await stream.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
    assert b'"protocolVersion"' in await stream.receive()
    await stream.send(b'{"jsonrpc":"2.0","id":1,"method":"%s","params":{"sessionId":"s1"}}\n' % method.encode())
    await server.post(method)
    yield stream, await server.stream("s1")
    await stream.aclose()

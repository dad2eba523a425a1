"""A client of ours that has agreed on version 2 with a scripted agent, in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acp_server.client import Handlers, RemoteAgent, RemoteSession, RemoteTurn
from tests.client.talking import Scripted, talking

Wire = dict[str, Any]

ANSWER: Wire = {
    "protocolVersion": 2,
    "info": {"name": "a", "version": "2"},
    "capabilities": {"session": {"mcp": {"stdio": {}}, "delete": {}}},
    "authMethods": [{"type": "agent", "methodId": "key", "name": "Key"}],
}


@asynccontextmanager
async def talking_2(handlers: Handlers | None = None) -> AsyncIterator[tuple[RemoteAgent, Scripted]]:
    async with talking(handlers, initialize=False) as (agent, peer):
        peer.answer("initialize", ANSWER)
        await agent.initialize(version=2)
        yield agent, peer


@asynccontextmanager
async def prompted_2(
    handlers: Handlers | None = None,
) -> AsyncIterator[tuple[RemoteSession, Scripted, RemoteTurn, Wire]]:
    """A turn whose prompt the agent has seen and not answered, with its request."""
    async with talking_2(handlers) as (agent, peer):
        session = await agent.new_session("/project")
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            yield session, peer, turn, prompt


def state(name: str, **more: Any) -> Wire:
    return {"sessionUpdate": "state_update", "state": name, **more}


def idle(reason: str = "end_turn", **more: Any) -> Wire:
    return state("idle", stopReason=reason, **more)


def said(words: str, message: str = "a1", by: str = "agent_message") -> Wire:
    return {"sessionUpdate": f"{by}_chunk", "messageId": message, "content": text(words)}


def whole(*words: str, message: str = "a1", by: str = "agent_message") -> Wire:
    return {"sessionUpdate": by, "messageId": message, "content": [text(word) for word in words]}


def text(words: str) -> Wire:
    return {"type": "text", "text": words}


def call(status: str | None = None, **more: Any) -> Wire:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c1", **({"status": status} if status else {}), **more}

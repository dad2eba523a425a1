"""A client of ours and a scripted agent, connected in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp_server.client import Handlers, RemoteAgent, RemoteSession, RemoteTurn, connect_agent
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.schema import SessionUpdate
from acp_server.testing import MemoryStream, ScriptedAgent, memory_pair

EVERYTHING = {
    "loadSession": True,
    "promptCapabilities": {"image": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}
"""Capabilities of an agent that has all methods."""

SESSION = "sess_1"


class Scripted(ScriptedAgent):
    """The agent's end, with words for what the tests say most."""

    def __init__(self, stream: MemoryStream) -> None:
        super().__init__(stream)
        self.stream = stream

    async def update(self, *updates: dict[str, Any], session: str = SESSION) -> None:
        await self.send(*(shown(update, session) for update in updates))

    async def finish(self, prompt: dict[str, Any], stop_reason: str = "end_turn") -> None:
        await self.respond(prompt, {"stopReason": stop_reason})


@asynccontextmanager
async def talking(
    handlers: Handlers | None = None,
    *,
    capabilities: dict[str, Any] | None = None,
    wrap: Callable[[Stream], Stream] | None = None,
    initialize: bool = True,
    limits: Limits | None = None,
) -> AsyncIterator[tuple[RemoteAgent, Scripted]]:
    """Both ends, after `initialize` and with one session `SESSION` for whoever asks for one."""
    here, there = memory_pair()
    async with (
        Scripted(there) as peer,
        connect_agent(here if wrap is None else wrap(here), handlers, limits=limits) as agent,
    ):
        peer.answer("initialize", {"protocolVersion": 1, "agentCapabilities": capabilities or {}})
        peer.answer("session/new", {"sessionId": SESSION})
        if initialize:
            await agent.initialize()
        yield agent, peer


@asynccontextmanager
async def prompted(
    handlers: Handlers | None = None, *, wrap: Callable[[Stream], Stream] | None = None
) -> AsyncIterator[tuple[RemoteSession, Scripted, RemoteTurn, dict[str, Any]]]:
    """A turn that the agent has seen and not answered, with its request."""
    async with talking(handlers, wrap=wrap) as (agent, peer):
        session = await agent.new_session("/project")
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            yield session, peer, turn, prompt


def shown(update: dict[str, Any], session: str = SESSION) -> dict[str, Any]:
    """A `session/update`."""
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def said(text: str) -> dict[str, Any]:
    """An update with a piece of the agent's message."""
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def text(update: SessionUpdate) -> str:
    """What such an update says."""
    data = update.to_wire()
    return data["content"]["text"]


def permission(session: str = SESSION) -> dict[str, Any]:
    """Parameters of a permission request."""
    return {
        "sessionId": session,
        "toolCall": {"toolCallId": "call_1", "title": "rm -r"},
        "options": [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ],
    }

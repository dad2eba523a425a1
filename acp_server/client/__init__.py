"""The client's side of the protocol: start an agent, or reach one over a stream, and drive it.

    async with spawn_agent(["acp-server"], Handlers(permission=ask)) as agent:
        await agent.initialize()
        session = await agent.new_session("/home/me/project")
        async with session.prompt("what is this?") as turn:
            async for update in turn:
                ...
        print(turn.stop_reason)

    connect        spawn_agent, connect_agent
    remote         RemoteAgent: what can be asked of an agent
    link           the connection under it
    session        RemoteSession: its state, prompts, settings
    turn           RemoteTurn: updates, cancel, result; Backlog, the updates that wait for the program
    handlers       Handlers: what the agent may ask of the program
    routes         which handler answers which request, and how many there may be at once
    local          LocalFiles, LocalTerminals: ready-made handlers for fs/* and terminal/*
    update_router  which session an id means, and what an update of it belongs to
    v2             the same with agents that speak version 2 of the protocol

It never imports the agent's side.
"""

from acp_server.client.connect import connect_agent, spawn_agent
from acp_server.client.handlers import Handlers, allow_once, reject_once
from acp_server.client.local import LocalFiles, LocalReader, LocalTerminals
from acp_server.client.remote import RemoteAgent
from acp_server.client.session import RemoteSession
from acp_server.client.turn import RemoteTurn
from acp_server.errors import AgentExited, CancelUnanswered, SessionTaken, UnsupportedVersion, UpdatesDropped
from acp_server.processes.child import Patience

__all__ = [
    "AgentExited",
    "CancelUnanswered",
    "Handlers",
    "LocalFiles",
    "LocalReader",
    "LocalTerminals",
    "Patience",
    "RemoteAgent",
    "RemoteSession",
    "RemoteTurn",
    "SessionTaken",
    "UnsupportedVersion",
    "UpdatesDropped",
    "allow_once",
    "connect_agent",
    "reject_once",
    "spawn_agent",
]

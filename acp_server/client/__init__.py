"""The client's side of the protocol: start an agent, or reach one over a stream, and drive it.

    async with spawn_agent(["acp-server"], Handlers(permission=ask)) as agent:
        await agent.initialize()
        session = await agent.new_session("/home/me/project")
        async with session.prompt("what is this?") as turn:
            async for update in turn:
                ...
        print(turn.stop_reason)

    remote         RemoteAgent: what can be asked of an agent
    source         where an agent is: a process of its own, or a stream
    streams        streams for programs that have one of asyncio already
    link           the connection under it
    session        RemoteSession: its state, prompts, settings
    turn           RemoteTurn: updates, cancel, result; Backlog, the updates that wait for the program
    subagents      RemoteSubagent: a child session that the agent has announced
    handlers       Handlers: what the agent may ask of the program
    routes         which handler answers which request, and how many there may be at once
    local          LocalFiles, LocalTerminals: ready-made handlers for fs/* and terminal/*
    update_router  which session an id means, and what an update of it belongs to
    dialect        what a connection has of a version beyond version 1
    versions       how a client asks for such a version
    v2             version 2 of the protocol

Here: the two ways to get an agent, a process of its own or a stream. The client never imports the agent's side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from acp_server.client import v2, versions
from acp_server.client.handlers import Handlers, allow_once, reject_once
from acp_server.client.local import LocalFiles, LocalReader, LocalTerminals
from acp_server.client.remote import RemoteAgent
from acp_server.client.session import OnUpdate, RemoteSession
from acp_server.client.source import Program, Reached
from acp_server.client.streams import AsyncioStream
from acp_server.client.subagents import RemoteSubagent
from acp_server.client.turn import CANCEL_SECONDS, RemoteTurn
from acp_server.errors import (
    AgentExited,
    CancelUnanswered,
    SessionTaken,
    UnsupportedVersion,
    UpdatesDropped,
)
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.processes.child import Command, Patience

__all__ = [
    "AgentExited",
    "AsyncioStream",
    "CancelUnanswered",
    "Handlers",
    "LocalFiles",
    "LocalReader",
    "LocalTerminals",
    "OnUpdate",
    "Patience",
    "RemoteAgent",
    "RemoteSession",
    "RemoteSubagent",
    "RemoteTurn",
    "SessionTaken",
    "UnsupportedVersion",
    "UpdatesDropped",
    "allow_once",
    "connect_agent",
    "reject_once",
    "spawn_agent",
]

versions.register(v2.VERSION)


def connect_agent(
    stream: Stream,
    handlers: Handlers | None = None,
    *,
    limits: Limits | None = None,
    cancel_timeout: float | None = CANCEL_SECONDS,
) -> RemoteAgent:
    """The agent at the other end of `stream`, in an `async with` block or from `start` to `aclose`; then connection and
    stream are closed. For `cancel_timeout` see `RemoteAgent`."""
    return RemoteAgent(Reached(stream), handlers or Handlers(), limits, cancel_timeout)


def spawn_agent(
    command: Command,
    handlers: Handlers | None = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    user: int | None = None,
    on_stderr: Callable[[str], object] | None = None,
    limits: Limits | None = None,
    patience: Patience | None = None,
    wrap: Callable[[Stream], Stream] | None = None,
    cancel_timeout: float | None = CANCEL_SECONDS,
) -> RemoteAgent:
    """An agent that is started and talked to over its standard streams, in an `async with` block or from `start` to
    `aclose` (ACP, Transports).

    Its end closes its standard input and gives it time to end; whatever is then left of its process group is
    terminated, and killed if that does not help (`patience`). A cancel does not interrupt that.

    `command` is a program, or a program with its arguments; it runs in the folder `cwd`, with `env` added to our own
    environment. With `user` it is that user's and that group's, by their id, which only root may do (POSIX).
    `on_stderr` gets each line that it writes to standard error; without it they go to the log, at level info. `wrap`
    may put a stream of its own around the one to the process, to look at what passes. For `cancel_timeout` see
    `RemoteAgent`. Starting it raises OSError if that cannot be done.
    """
    program = Program(command, cwd=cwd, env=env, user=user, on_stderr=on_stderr, patience=patience, wrap=wrap)
    return RemoteAgent(program, handlers or Handlers(), limits, cancel_timeout)

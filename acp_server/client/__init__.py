"""The client's side of the protocol. It starts an agent, or connects to an agent over a stream, and sends prompts.

    async with spawn_agent(["acp-server"], Handlers(permission=ask)) as agent:
        await agent.initialize()
        session = await agent.new_session("/home/me/project")
        async with session.prompt("what is this?") as turn:
            async for update in turn:
                ...
        print(turn.stop_reason)

    remote         RemoteAgent: the requests to an agent
    source         where an agent is: in a process that is started, or behind a stream
    streams        adapts the streams of programs that use asyncio
    link           the connection below it
    session        RemoteSession: its state, prompts, settings
    turn           RemoteTurn: updates, cancel, result; Backlog, the updates that the program has not read yet
    subagents      RemoteSubagent: a child session that the agent has announced
    handlers       Handlers: the answers to the agent's requests
    routes         which handler answers which request, and how many run at once
    local          LocalFiles, LocalTerminals: ready-made handlers for fs/* and terminal/*
    update_router  delivers updates to their sessions
    dialect        the interface of later versions on a connection
    versions       the later versions that a client can request
    v2             version 2 of the protocol

This module has the two functions that return an agent, in a new process or behind a stream. The client never imports
the agent's side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from acp_server.client import v2, versions
from acp_server.client.handlers import (
    AskPermission,
    Handlers,
    PermissionAnswer,
    ReadsFiles,
    Terminals,
    WritesFiles,
    allow_once,
    reject_once,
)
from acp_server.client.local import LocalFiles, LocalReader, LocalTerminals
from acp_server.client.remote import RemoteAgent
from acp_server.client.session import OnUpdate, Opening, Prompt, RemoteSession
from acp_server.client.source import Program, Reached
from acp_server.client.streams import AsyncioStream
from acp_server.client.subagents import OnChildUpdate, RemoteSubagent
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
from acp_server.processes.child import ChildProcess, Command, Patience

__all__ = [
    "AgentExited",
    "AskPermission",
    "AsyncioStream",
    "CancelUnanswered",
    "ChildProcess",
    "Command",
    "Handlers",
    "LocalFiles",
    "LocalReader",
    "LocalTerminals",
    "OnChildUpdate",
    "OnUpdate",
    "Opening",
    "Patience",
    "PermissionAnswer",
    "Prompt",
    "ReadsFiles",
    "RemoteAgent",
    "RemoteSession",
    "RemoteSubagent",
    "RemoteTurn",
    "SessionTaken",
    "Terminals",
    "UnsupportedVersion",
    "UpdatesDropped",
    "WritesFiles",
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
    """Return the agent at the other end of `stream`. Use it in an `async with` block, or call `start` and later
    `aclose`, which closes the connection and the stream. For `cancel_timeout` see `RemoteAgent`."""
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
    """Return an agent that runs in a new process and is connected by its standard streams (ACP, Transports). Use it in
    an `async with` block, or call `start` and later `aclose`.

    At the end the agent's standard input is closed, and the process has time to exit. Remaining processes of its
    process group are then terminated, and killed if they do not end (`patience`). A cancel does not interrupt this.

    `command` is a program, or a program with its arguments. It runs in the folder `cwd`, with `env` added to this
    process's environment. With `user` it runs with that user id and group id, which only root may request (POSIX).
    `on_stderr` gets each line of the process's standard error; by default the lines are logged at level info. `wrap`
    may wrap the stream to the process, to observe its bytes. For `cancel_timeout` see `RemoteAgent`. Entering the block
    raises OSError if the process cannot be started.
    """
    program = Program(command, cwd=cwd, env=env, user=user, on_stderr=on_stderr, patience=patience, wrap=wrap)
    return RemoteAgent(program, handlers or Handlers(), limits, cancel_timeout)

"""The client's side of the protocol: start an agent, or reach one over a stream, and drive it.

    async with spawn_agent(["acp-server"], Handlers(permission=ask)) as agent:
        await agent.initialize()
        session = await agent.new_session("/home/me/project")
        async with session.prompt("what is this?") as turn:
            async for update in turn:
                ...
        print(turn.stop_reason)

    remote         RemoteAgent: what can be asked of an agent
    link           the connection under it
    session        RemoteSession: its state, prompts, settings
    turn           RemoteTurn: updates, cancel, result; Backlog, the updates that wait for the program
    handlers       Handlers: what the agent may ask of the program
    routes         which handler answers which request, and how many there may be at once
    local          LocalFiles, LocalTerminals: ready-made handlers for fs/* and terminal/*
    update_router  which session an id means, and what an update of it belongs to
    v2             the same with agents that speak version 2 of the protocol

Here: the two ways to get an agent, a process of its own or a stream. The client never imports the agent's side.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from acp_server.client.handlers import Handlers, allow_once, reject_once
from acp_server.client.local import LocalFiles, LocalReader, LocalTerminals
from acp_server.client.remote import RemoteAgent
from acp_server.client.session import RemoteSession
from acp_server.client.turn import RemoteTurn
from acp_server.errors import (
    AgentExited,
    CancelUnanswered,
    ConnectionClosed,
    SessionTaken,
    UnsupportedVersion,
    UpdatesDropped,
)
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.processes.child import ChildProcess, Command, Patience

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

stderr_logger = logging.getLogger("acp_server.client.stderr")


@asynccontextmanager
async def connect_agent(
    stream: Stream, handlers: Handlers | None = None, *, limits: Limits | None = None
) -> AsyncGenerator[RemoteAgent]:
    """The agent at the other end of `stream`, until the block is left; then connection and stream are closed."""
    agent = RemoteAgent(stream, handlers or Handlers(), limits)
    agent.link.start()
    try:
        yield agent
    finally:
        await agent.link.aclose()


@asynccontextmanager
async def spawn_agent(
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
) -> AsyncGenerator[RemoteAgent]:
    """Start an agent and talk to it over its standard streams, until the block is left (ACP, Transports).

    Leaving closes its standard input and gives it time to end; whatever is then left of its process group is
    terminated, and killed if that does not help (`patience`). A cancel does not interrupt that.

    `command` is a program, or a program with its arguments; it runs in the folder `cwd`, with `env` added to our own
    environment. With `user` it is that user's and that group's, by their id, which only root may do (POSIX).
    `on_stderr` gets each line that it writes to standard error; without it they go to the log, at level info. `wrap`
    may put a stream of its own around the one to the process, to look at what passes. Raises OSError if it cannot be
    started.
    """
    whole = None if env is None else {**os.environ, **env}

    async def start() -> tuple[ChildProcess, Stream]:
        process = await ChildProcess.start(
            command, cwd=cwd, env=whole, user=user, on_stderr=on_stderr, stderr_log=stderr_logger
        )
        return process, process.stream if wrap is None else wrap(process.stream)

    process, stream = await start()
    waited = False

    async def explain(error: ConnectionClosed) -> ConnectionClosed:
        nonlocal waited
        if not waited:
            await process.last_words()
            waited = True
        return AgentExited(error.method, process.exit_code, process.stderr)

    async def renew() -> Stream:
        nonlocal process, waited
        await process.aclose(patience)
        process, stream = await start()
        waited = False
        agent.process = process
        return stream

    agent = RemoteAgent(stream, handlers or Handlers(), limits, explain)
    agent.process = process
    agent.renew = renew
    agent.link.start()
    try:
        yield agent
    finally:
        try:
            await agent.link.aclose()
        finally:
            await process.aclose(patience)

"""Starts an agent, initializes it, logs in, and opens a new or an earlier session.

This module does not see the messages of the session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from acp_server import __version__
from acp_server.agent.record import RecordedStream, Recorder
from acp_server.apps.cli.target import AgentCommand, not_started
from acp_server.client import Handlers, LocalFiles, Patience, RemoteAgent, RemoteSession, spawn_agent
from acp_server.client.handlers import AskPermission, Terminals
from acp_server.client.session import OnUpdate
from acp_server.errors import (
    AcpError,
    AgentExited,
    AuthRequired,
    CapabilityMissing,
    RpcError,
    UnsupportedProtocolVersion,
    UnsupportedVersion,
    UsageError,
)
from acp_server.safe_text import escape, meant
from acp_server.schema import (
    AuthMethodAgent,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    Implementation,
    SessionConfigBoolean,
    SessionConfigOptionsCapabilities,
    SessionInfo,
    SubagentCapabilities,
)
from acp_server.schema import UnknownSessionConfigOption as UnknownOption
from acp_server.schema.methods import METHODS
from acp_server.session.settings import choices

LAST: Final = "last"
"""The word for the session of this folder that was changed last."""

_WHO: Final = Implementation(name="acp-server", title="acp-server chat", version=__version__)
_CAN: Final = ClientCapabilities(
    session=ClientSessionCapabilities(
        config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
    )
)
SHOWS: Final = _CAN.model_copy(update={"subagents": SubagentCapabilities()})
"""The capabilities of a client that also shows child sessions."""
_PATIENCE: Final = Patience(closed=2, terminated=1)
"""These times are short, since a user who leaves the chat waits for the end of the agent."""
_PAGES: Final = 20
"""The most pages of the list of sessions that are searched."""

_US: Final = "acp-server: "
"""The prefix of an error on the standard error of `acp-server`."""
_WRONG_USAGE: Final = 2
"""The exit status of `acp-server` for a mistake on the command line."""

Answer = Literal["ask", "yes", "no"]


@dataclass(frozen=True, slots=True)
class Wishes:
    """The settings of the command line."""

    command: AgentCommand
    cwd: str
    resume: str | None = None
    """The id of a session, or the beginning of the id, or `LAST`."""
    record: Path | None = None
    answer: Answer = "ask"
    """Who answers questions of the agent: the user, or a fixed answer."""
    protocol: Literal[1, 2] | None = None
    """The version to speak; None for 1, or 2 if the agent does not have 1."""
    mode: str | None = None
    """The mode to enter."""
    options: Sequence[tuple[str, str]] = ()
    """Options to set: each id with the value, or with `on` or `off`."""


@asynccontextmanager
async def started(
    wishes: Wishes, permission: AskPermission, terminals: Terminals, on_stderr: Callable[[str], object]
) -> AsyncGenerator[RemoteAgent]:
    """Run the agent until the block is left. The agent may read and write files in the session's folder, and run
    commands. Raises UsageError if it cannot be started."""
    handlers = Handlers(permission=permission, files=LocalFiles([wishes.cwd]), terminals=terminals)
    words, env = wishes.command.words, wishes.command.env
    recorder = None if wishes.record is None else Recorder(wishes.record)
    wrap = None if recorder is None else partial(RecordedStream, recorder=recorder, received="out")
    agents = spawn_agent(words, handlers, cwd=wishes.cwd, env=env, on_stderr=on_stderr, patience=_PATIENCE, wrap=wrap)
    async with AsyncExitStack() as stack:
        if recorder is not None:
            stack.callback(recorder.close)
        try:
            agent = await stack.enter_async_context(agents)
        except OSError as error:
            raise not_started(wishes.command.name, error.strerror) from None
        yield agent


async def initialized(agent: RemoteAgent, wishes: Wishes, capabilities: ClientCapabilities = _CAN) -> str:
    """Negotiate the version; returns the name and version of the agent. Raises UnsupportedVersion if the agent does not
    speak the version in `wishes`, and UsageError if `acp-server serve` cannot serve the agent.

    Version 1 is tried first, because in version 2 an agent cannot use the files and terminals of the chat.
    """
    try:
        info = await agent.initialize(client_info=_WHO, capabilities=capabilities, version=wishes.protocol or 1)
    except UnsupportedProtocolVersion:
        if wishes.protocol is not None:
            raise
        info = await agent.initialize(client_info=_WHO, capabilities=capabilities, version=2)
    except AgentExited as error:
        if error.exit_code == _WRONG_USAGE and error.stderr and wishes.command.is_served_here:
            raise UsageError(error.stderr.rpartition("\n")[2].removeprefix(_US)) from None
        raise
    if wishes.protocol not in (None, info.protocol_version):
        raise UnsupportedVersion(info.protocol_version, wishes.protocol)
    who = info.agent_info
    return "an agent without a name" if who is None else f"{who.title or who.name} {who.version}"


def ways_to_log_in(agent: RemoteAgent) -> list[AuthMethodAgent]:
    """Return the methods by which the agent itself logs the user in."""
    methods = [] if agent.info is None else agent.info.auth_methods
    return [method for method in methods if isinstance(method, AuthMethodAgent)]


async def logged_in(
    agent: RemoteAgent, choose: Callable[[Sequence[str]], Awaitable[int | None]], error: AuthRequired
) -> None:
    """Let the user choose a method, and log in by it. Raises `error` if the user chooses none."""
    methods = ways_to_log_in(agent)
    chosen = await choose([method.name for method in methods]) if methods else None
    if chosen is None:
        raise error
    await agent.authenticate(methods[chosen].id)


async def open_session(agent: RemoteAgent, wishes: Wishes, on_update: OnUpdate) -> RemoteSession:
    """Open a new session or an earlier session, in the mode and with the options of `wishes`. Raises UsageError if
    there is no such session, mode, option or value."""
    if wishes.resume is None:
        session = await agent.new_session(wishes.cwd, on_update=on_update)
    else:
        session = await take_up(agent, await find_session(agent, wishes.resume, wishes.cwd), on_update)
    if wishes.mode is not None:
        offered = [] if session.modes is None else [mode.id for mode in session.modes.available_modes]
        await session.set_mode(_offered("mode", wishes.mode, offered))
    for id, value in wishes.options:
        known = {option.id: option for option in session.config_options if not isinstance(option, UnknownOption)}
        option = known[_offered("option", id, list(known))]
        if isinstance(option, SessionConfigBoolean):
            words = {"on": True, "true": True, "off": False, "false": False}
            await session.set_config_option(id, words[_offered(f"value of {id}", value, list(words))])
        else:
            values = [str(each) for each in choices(option)]
            await session.set_config_option(id, _offered(f"value of {id}", value, values))
    return session


def _offered(what: str, wanted: str, offered: Sequence[str]) -> str:
    if wanted in offered:
        return wanted
    raise UsageError(f"the agent has no {what} {wanted!r}; {escape(meant(wanted, offered))}")


async def take_up(agent: RemoteAgent, info: SessionInfo, on_update: OnUpdate) -> RemoteSession:
    """Open the session with its history if the agent can replay it, and otherwise without."""
    if agent.link.announced(METHODS["session/load"].capability):
        return await agent.load_session(info.session_id, info.cwd, on_update=on_update)
    return await agent.resume_session(info.session_id, info.cwd, on_update=on_update)


async def find_session(agent: RemoteAgent, which: str, cwd: str) -> SessionInfo:
    """Return the session that `which` means. If the agent cannot list sessions, `which` is used as the id. Raises
    UsageError."""
    try:
        known = await sessions(agent, cwd)
    except CapabilityMissing:
        if which == LAST:
            raise UsageError("the agent cannot list its sessions; pass the id of a session") from None
        return SessionInfo(session_id=which, cwd=cwd)
    if which == LAST:
        if not known:
            raise UsageError(f"the agent has no session whose working directory is {cwd}")
        return max(known, key=lambda info: info.updated_at or "")
    exact = [info for info in known if info.session_id == which]
    found = exact or [info for info in known if info.session_id.startswith(which)]
    if len(found) > 1:
        raise UsageError(f"the ids of {len(found)} sessions begin with {which!r}; pass more of the id")
    return found[0] if found else SessionInfo(session_id=which, cwd=cwd)


async def sessions(agent: RemoteAgent, cwd: str) -> list[SessionInfo]:
    """Return the agent's sessions of this folder, the latest first. Raises CapabilityMissing."""
    known: list[SessionInfo] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await agent.list_sessions(cwd, cursor)
        known += page.sessions
        cursor = page.next_cursor
        if cursor is None:
            break
    return sorted(known, key=lambda info: info.updated_at or "", reverse=True)


def without_last_words(error: AcpError) -> AcpError:
    """Return the error without the agent's last lines on standard error, because the user has seen them."""
    return AgentExited(error.method, error.exit_code, "") if isinstance(error, AgentExited) else error


def is_repeated(error: AcpError, line: str) -> bool:
    """Whether an error says the same as the agent's last line on standard error, which the user has seen. `acp-server
    serve` and `acp-server connect` write the reason of their end in both places."""
    return line == _US + (error.message if isinstance(error, RpcError) else str(error))

"""An agent's program: its folder, how it is started and served until it ends, and whether it can be trusted.

`acp_server.apps.gateway.pool` decides what follows from that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final, Literal, Protocol

import anyio
import anyio.to_thread

from acp_server import AcpError, ConnectionClosed, RequestTimeout
from acp_server.apps.gateway.errors import agent_of, outline
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.process import Process
from acp_server.client import Patience, RemoteAgent, RemoteTurn, spawn_agent
from acp_server.schema import METHODS, Implementation

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

PATIENCE: Final = Patience(closed=2, terminated=1)
_ME: Final = Implementation(name="acp-server gateway", version="1")
_THERE: Final = "_acp_server/there"
"""A method that no agent has. An agent that reads its input refuses it at once, even while it does other work."""
_SECOND_LOOK: Final = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """The working folder and the user of an agent."""

    cwd: str
    user: int | None = None
    """The id of the user and of the group; None for the user and the group of the gateway."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables in addition to the gateway's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program that every process of a bot's agent runs."""

    bot: str
    command: Sequence[str]
    place: Callable[[], Place]
    """Returns the folder and the user. May wait for a disk; raises OSError."""
    limits: GatewayLimits
    patience: Patience | None = None
    protocol: Literal[1, 2] = 2
    """The highest protocol version that is offered to the agent."""

    async def run(self, process: Process) -> None:
        """Run the agent until it has ended. Its errors are passed to the chats that wait for its sessions, and are
        logged."""
        try:
            place = await anyio.to_thread.run_sync(self.place)
            spawning = spawn_agent(
                self.command,
                process.handlers(),
                cwd=place.cwd,
                env=place.env,
                user=place.user,
                patience=self.patience,
                # Standard error may repeat messages of users.
                on_stderr=partial(logger.debug, "%s: standard error: %s", agent_of(self.bot)),
            )
            async with spawning as agent:
                process.spawned = agent
                try:
                    with process.scope:
                        await self._serve(process, agent, place)
                finally:
                    # Before the process is cleaned up, which may take a while.
                    process.leave()
            if process.why is None:
                logger.warning("%s has exited", agent_of(self.bot))
            else:
                logger.info("%s was stopped: %s", agent_of(self.bot), process.why)
        except (AcpError, OSError) as error:
            logger.warning("%s cannot be used: %s", agent_of(self.bot), outline(error))
            logger.debug("the error of %s: %s", agent_of(self.bot), error)
            process.error = process.error or error
        finally:
            process.error = process.error or ConnectionClosed()
            process.leave()
            process.ready.set()

    async def _serve(self, process: Process, agent: RemoteAgent, place: Place) -> None:
        await agent.initialize(client_info=_ME, timeout=self.limits.start_seconds, version=self.protocol)
        process.begin(agent, place.cwd)
        async with anyio.create_task_group() as group:
            group.start_soon(process.tend, self.limits)
            await agent.link.connection.wait_closed()
            group.cancel_scope.cancel()


class Distrust(Protocol):
    """Called with a process that must not be trusted."""

    def __call__(self, process: Process, why: str, *, at_once: bool = False) -> None:
        """Give the process no more chats. End the process when its chats have ended or a time limit has passed; with
        `at_once`, end it immediately."""
        ...


class _Probe(Enum):
    """The result of probing an agent."""

    ANSWER = auto()
    """The agent answers, or it has exited, which is noticed elsewhere."""
    BUSY = auto()
    """The agent sends something else: it works, but does not read its input."""
    SILENT = auto()
    """The agent sends nothing."""


async def _probe(agent: RemoteAgent, seconds: float) -> _Probe:
    """Probe an agent, and wait at most `seconds` for its answer."""
    before = agent.link.heard
    try:
        await agent.request(_THERE, {}, timeout=seconds)
    except RequestTimeout:
        # If the gateway itself was blocked, messages of the agent are about to be read.
        await anyio.sleep(_SECOND_LOOK)
        return _Probe.BUSY if agent.link.heard > before else _Probe.SILENT
    except AcpError:
        pass
    return _Probe.ANSWER


class Trust:
    """Probes whether the agents of a bot can be trusted."""

    def __init__(self, limits: GatewayLimits, distrust: Distrust) -> None:
        self._limits = limits
        self._distrust = distrust

    async def check_start(self, process: Process) -> None:
        """Probe a process that has not opened a session in time. An agent that does not answer may handle only one
        request at a time. So it keeps its chats for a while, and other chats get another process."""
        if process.agent is None:
            return
        with process.probing():
            if await _probe(process.agent, self._limits.start_seconds) is not _Probe.ANSWER:
                self._distrust(process, "does not answer")

    async def check(self, process: Process, seconds: float, cancelled: RemoteTurn | None = None) -> None:
        """Probe the agent, and end it if it does not respond. A chat that needs the agent waits for the result.

        `cancelled`: a turn that the agent has not answered in time. If the agent does not answer
        the turn soon, it is not trusted either.
        """
        if process.agent is None:
            return
        deadline = anyio.current_time() + seconds
        with process.probing():
            said = await _probe(process.agent, seconds)
            if said is _Probe.SILENT:
                self._distrust(process, "does not answer", at_once=True)
            elif said is _Probe.BUSY:
                self._distrust(process, "does not read its input")
        if said is _Probe.ANSWER and cancelled is not None:
            with anyio.CancelScope(deadline=deadline):
                await cancelled.over.wait()
            if not cancelled.over.is_set():
                self._distrust(process, "keeps working after a cancel")

    async def watch(self, process: Process) -> None:
        """Watch an agent that has chats and sends nothing. Runs until cancelled."""
        before = None
        while True:
            await anyio.sleep(self._limits.silence_seconds)
            if process.progress is not None and process.progress == before:
                await self.check(process, self._limits.start_seconds)
            before = process.progress


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check of one agent."""

    good: bool
    text: str


async def check_agent(command: Sequence[str], cwd: str, seconds: float, protocol: Literal[1, 2] = 2) -> Finding:
    """Start an agent in the folder `cwd`, open a session and end it, all within `seconds`."""
    began = anyio.current_time()
    try:
        with anyio.fail_after(seconds):
            async with spawn_agent(command, cwd=cwd, patience=PATIENCE, on_stderr=_unheard) as agent:
                who = await _try(agent, cwd, protocol)
                took = anyio.current_time() - began
    except TimeoutError:
        return Finding(False, f"it does not answer within {seconds:g} s")
    except (AcpError, OSError) as error:
        return Finding(False, str(error))
    return Finding(True, f"{who}, ready in {took:.1f} s")


async def _try(agent: RemoteAgent, cwd: str, protocol: Literal[1, 2]) -> str:
    answer = await agent.initialize(client_info=_ME, version=protocol)
    session = await agent.new_session(cwd)
    for method, end in (("session/close", session.close), ("session/delete", session.delete)):
        if agent.link.announced(METHODS[method].capability):
            await end()
    info = answer.agent_info
    return "an agent without a name" if info is None else f"{info.name} {info.version}"


def _unheard(_line: str) -> None:
    """Drop a line of standard error. If it is useful, the error contains it."""

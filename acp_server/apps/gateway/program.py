"""An agent's program: where it works, how it is started and served until it ends, and whether it does as it is told.

What follows from that is decided in `acp_server.apps.gateway.pool`.
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

from acp_server.apps.gateway.errors import agent_of, outline
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.process import Process
from acp_server.client import Patience, RemoteAgent, RemoteTurn, spawn_agent
from acp_server.errors import AcpError, ConnectionClosed, RequestTimeout
from acp_server.schema import Implementation
from acp_server.schema.methods import METHODS

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

PATIENCE: Final = Patience(closed=2, terminated=1)
_ME: Final = Implementation(name="acp-server gateway", version="1")
_THERE: Final = "_acp_server/there"
"""A method that no agent has. An agent that reads its input says so at once, whatever else it does."""
_SECOND_LOOK: Final = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works, and as who."""

    cwd: str
    user: int | None = None
    """The id of the user and of the group; None: those of the gateway."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables beside those of the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What each process of a bot's agent runs."""

    bot: str
    command: Sequence[str]
    place: Callable[[], Place]
    """Where it works. May wait for a disk; raises OSError."""
    limits: GatewayLimits
    patience: Patience | None = None
    protocol: Literal[1, 2] = 2
    """The highest version that the agent is asked for."""

    async def run(self, process: Process) -> None:
        """Until the agent has ended. What goes wrong is for the chats that want sessions of it, and for the log."""
        try:
            place = await anyio.to_thread.run_sync(self.place)
            spawning = spawn_agent(
                self.command,
                process.handlers(),
                cwd=place.cwd,
                env=place.env,
                user=place.user,
                patience=self.patience,
                # It may say there what users have said.
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
                logger.warning("%s has ended", agent_of(self.bot))
            else:
                logger.info("%s was ended: %s", agent_of(self.bot), process.why)
        except (AcpError, OSError) as error:
            logger.warning("%s cannot be used: %s", agent_of(self.bot), outline(error))
            logger.debug("%s: its error: %s", agent_of(self.bot), error)
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
    """Is told of a process that is not to be trusted."""

    def __call__(self, process: Process, why: str, *, at_once: bool = False) -> None:
        """Let it have no more chats, and end it when those that it has are through, or after a time; or `at_once`."""
        ...


class _Probe(Enum):
    """What came of asking an agent whether it is there."""

    ANSWER = auto()
    """It says so. Or it is gone altogether, which is for others to see."""
    BUSY = auto()
    """Something else: it works, and takes nothing in."""
    SILENT = auto()
    """Nothing at all."""


async def _probe(agent: RemoteAgent, seconds: float) -> _Probe:
    """Ask an agent whether it is there, and wait for so many seconds."""
    before = agent.link.heard
    try:
        await agent.request(_THERE, {}, timeout=seconds)
    except RequestTimeout:
        # If it was the gateway that stood still, what was said meanwhile is about to be heard.
        await anyio.sleep(_SECOND_LOOK)
        return _Probe.BUSY if agent.link.heard > before else _Probe.SILENT
    except AcpError:
        pass
    return _Probe.ANSWER


class Trust:
    """Looks whether the agents of a bot are to be trusted."""

    def __init__(self, limits: GatewayLimits, distrust: Distrust) -> None:
        self._limits = limits
        self._distrust = distrust

    async def check_start(self, process: Process) -> None:
        """It has not opened a session in time. If it does not answer, it may do one thing at a time: its
        chats are left to it for a while, and others get another."""
        if process.agent is None:
            return
        with process.probing():
            if await _probe(process.agent, self._limits.start_seconds) is not _Probe.ANSWER:
                self._distrust(process, "does not answer")

    async def check(self, process: Process, seconds: float, cancelled: RemoteTurn | None = None) -> None:
        """See whether the agent is there, and end it if not. A chat that wants to talk to it waits for the outcome.

        `cancelled`: a turn that it has not answered in time; if it does not do so soon, it is not to be trusted either.
        """
        if process.agent is None:
            return
        deadline = anyio.current_time() + seconds
        with process.probing():
            said = await _probe(process.agent, seconds)
            if said is _Probe.SILENT:
                self._distrust(process, "does not answer", at_once=True)
            elif said is _Probe.BUSY:
                self._distrust(process, "takes nothing in")
        if said is _Probe.ANSWER and cancelled is not None:
            with anyio.CancelScope(deadline=deadline):
                await cancelled.over.wait()
            if not cancelled.over.is_set():
                self._distrust(process, "works on after a cancel")

    async def watch(self, process: Process) -> None:
        """Look after an agent that has chats and says nothing. Until it is cancelled."""
        before = None
        while True:
            await anyio.sleep(self._limits.silence_seconds)
            if process.progress is not None and process.progress == before:
                await self.check(process, self._limits.start_seconds)
            before = process.progress


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one agent."""

    good: bool
    text: str


async def check_agent(command: Sequence[str], cwd: str, seconds: float, protocol: Literal[1, 2] = 2) -> Finding:
    """Start an agent in the folder `cwd`, open a session and end it, all within this time."""
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
    """The end of it is in the error, if it is of any use."""

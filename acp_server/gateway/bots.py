"""The agents of the bots: one process each, started when it is needed, and anew when it has died or cannot be trusted.

What is done with a process and its sessions is in `acp_server.gateway.process`; which chat has which session is in
`acp_server.gateway.conversations`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Literal

import anyio
from anyio.abc import TaskGroup

from acp_server.client import Patience, RemoteAgent, RemoteTurn, SessionTaken, spawn_agent
from acp_server.errors import AcpError, ConnectionClosed, RequestTimeout
from acp_server.gateway.errors import ApiError, Code, outline
from acp_server.gateway.ids import Ids
from acp_server.gateway.limits import Limits
from acp_server.gateway.process import OpenSession, Probe, Process
from acp_server.gateway.records import KnownSession
from acp_server.gateway.sessions import SessionKeys
from acp_server.schema import Implementation

logger = logging.getLogger("acp_server.gateway")

EVERY_OTHER: Final = "every other"
"""The name of the bot for all ids that have no bot of their own. No id has a space in it, so no id is that name."""


class Bot:
    """One agent, as the chats of one bot or of several share it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        cwd: str,
        ids: Ids,
        *,
        limits: Limits,
        patience: Patience | None = None,
        protocol: Literal[1, 2] = 2,
    ) -> None:
        """`protocol` is the highest version that the agent is asked for."""
        self.name = name
        self.command = command
        self._cwd = cwd
        self._ids = ids
        self._limits = limits
        self._patience = patience
        self._protocol: Literal[1, 2] = protocol
        self._process: Process | None = None
        """The process that new chats get."""
        self._group: TaskGroup | None = None
        self._is_retired = False
        self._waiting = 0
        self._running: list[RemoteAgent] = []
        """All agents that have not ended, also those that new chats do not get."""
        self._keys = SessionKeys()

    def use(self, group: TaskGroup) -> None:
        """Let its processes be watched by tasks of this group; when it is cancelled they are ended."""
        self._group = group

    def kill(self) -> None:
        """End its processes by force, now: those that run, and those that are being ended."""
        for agent in self._running:
            if agent.process is not None:
                agent.process.kill()

    @property
    def running(self) -> int:
        """How many processes it has that have not ended."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many chats wait for a session."""
        return self._waiting

    def retire(self) -> None:
        """No further chat gets this bot. Chats that have it keep it. When they are through, its agent is ended."""
        self._is_retired = True
        if self._process is not None:
            self._start_soon(self._drain, self._process, math.inf)

    async def open(self, known: KnownSession | None) -> OpenSession:
        """A session to prompt: the one that is known if the agent still has it, else a new one.

        Raises AcpError or OSError if no session can be opened.
        """
        self._waiting += 1
        try:
            return await self._open(known)
        finally:
            self._waiting -= 1

    async def _open(self, known: KnownSession | None) -> OpenSession:
        if known is not None and not self._keys.is_last(known):
            known = None
        process = await self._probed_process()
        limits = self._limits
        held: OpenSession | None = None
        began = anyio.current_time()
        try:
            with anyio.move_on_after(limits.start_seconds):
                try:
                    held = await process.open(known)
                except (ConnectionClosed, SessionTaken) as error:
                    # This chat has not said anything yet, so once more.
                    if isinstance(error, SessionTaken):
                        # From now on no process can tell which session the id means.
                        self._keys.add(error.session_id, "")
                        self._retire(process, "gives one session id twice")
                    else:
                        # It has died between two chats, or just now.
                        logger.info("bot %s: the agent is gone; it is started anew", self.name)
                        self._forget(process)
                    process = self._start()
                    held = await process.open(known)
        finally:
            # Also if the chat was cancelled: there are clients that wait for half a minute only, again and again.
            if held is None and anyio.current_time() - began >= min(limits.settle_seconds, limits.start_seconds):
                self._start_soon(self._check_start, process)
        if held is None:
            raise RequestTimeout("session/new", limits.start_seconds)
        self._keys.add(held.session.id, held.key)
        return held

    def discard(self, held: OpenSession) -> None:
        """No chat will prompt this session again."""
        self._keys.remove(held.session.id, held.key)
        held.process.release(held.key)
        self._start_soon(held.process.end, held.session, self._limits.start_seconds)
        if (turn := held.session.turn) is not None:
            self._start_soon(self._check, held.process, self._limits.settle_seconds, turn)

    def release(self, known: KnownSession, *, start: bool = True) -> None:
        """No chat will take up this session again. The agent is started for that if it has to be, and if `start`."""
        is_last = self._keys.is_last(known)
        self._keys.remove(known.id, known.key)
        self._forget_lost()
        session = None if self._process is None else self._process.release(known.key)
        if not self._is_running or (self._process is None and not start):
            return
        if session is not None and self._process is not None:
            self._start_soon(self._process.end, session, self._limits.start_seconds)
        elif is_last:
            self._start_soon(self._start().forget, known, self._limits.start_seconds)

    # -- whether the agent is to be trusted

    async def _probed_process(self) -> Process:
        """The process that new chats get, when no probe of it is under way."""
        while True:
            process = self._start()
            await process.when_probed()
            if process is self._process:
                return process

    async def _check_start(self, process: Process) -> None:
        """It has not opened a session in time. If it does not answer, it may be one that does one thing at a time: its
        chats are left to it for a while, and others get another."""
        if process.agent is None:
            return
        with process.probing():
            if await process.probe(self._limits.start_seconds) is not Probe.ANSWER:
                self._retire(process, "does not answer")

    async def _check(self, process: Process, seconds: float, cancelled: RemoteTurn | None = None) -> None:
        """See whether the agent is there, and end it if not. A chat that wants to talk to it waits for the outcome.

        `cancelled`: a turn that it has not answered in time; if it does not do so soon, it is not to be trusted either.
        """
        if process.agent is None:
            return
        deadline = anyio.current_time() + seconds
        with process.probing():
            said = await process.probe(seconds)
            if said is Probe.SILENT:
                logger.warning("bot %s: the agent does not answer; it is ended", self.name)
                self._end(process)
            elif said is Probe.BUSY:
                self._retire(process, "takes nothing in")
        if said is Probe.ANSWER and cancelled is not None:
            with anyio.CancelScope(deadline=deadline):
                await cancelled.over.wait()
            if not cancelled.over.is_set():
                self._retire(process, "works on after a cancel")

    def _retire(self, process: Process, why: str) -> None:
        """Let it have no more chats, and end it when those that it has are through, or after a time."""
        if process is self._process:
            logger.warning("bot %s: the agent %s; it is ended after its other chats", self.name, why)
            self._forget(process)
            self._start_soon(self._drain, process, self._limits.linger_seconds)

    async def _drain(self, process: Process, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await process.when_idle()
        self._end(process)

    async def _watch(self, process: Process) -> None:
        """Look after an agent that has chats and says nothing."""
        before = None
        while True:
            await anyio.sleep(self._limits.silence_seconds)
            if process.progress is not None and process.progress == before:
                await self._check(process, self._limits.start_seconds)
            before = process.progress

    def _end(self, process: Process) -> None:
        self._forget(process)
        process.scope.cancel()

    # -- the process

    def _start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
        """Start a task, unless the gateway does not run."""
        if self._group is not None and self._is_running:
            self._group.start_soon(function, *args)

    @property
    def _is_running(self) -> bool:
        """Whether the gateway has begun to run and is not ending."""
        return self._group is not None and not self._group.cancel_scope.cancel_called

    def _start(self) -> Process:
        """The process there is, or a new one."""
        self._forget_lost()
        if self._process is None:
            assert self._group is not None, "the gateway does not run"
            self._process = Process(self.name, self._ids, self._cwd)
            self._group.start_soon(self._run, self._process)
            if self._is_retired:
                # For a chat that had the bot already.
                self._group.start_soon(self._drain, self._process, math.inf)
        return self._process

    def _forget_lost(self) -> None:
        if self._process is not None and self._process.is_lost:
            # Its run may take a second to end. A session that is known would be handed out without asking the agent.
            self._forget(self._process)

    async def _run(self, process: Process) -> None:
        try:
            with ExitStack() as ended:
                spawning = spawn_agent(
                    self.command,
                    process.handlers(),
                    cwd=self._cwd,
                    patience=self._patience,
                    # It may say there what users have said.
                    on_stderr=partial(logger.debug, "bot %s: standard error: %s", self.name),
                )
                async with spawning as agent:
                    self._running.append(agent)
                    ended.callback(self._running.remove, agent)
                    try:
                        with process.scope:
                            await self._serve(process, agent)
                    finally:
                        # Before the process is cleaned up, which may take a while.
                        self._forget(process)
            logger.warning("bot %s: the agent is gone", self.name)
        except (AcpError, OSError) as error:
            logger.warning("bot %s: the agent cannot be used: %s", self.name, outline(error))
            logger.debug("bot %s: its error: %s", self.name, error)
            process.error = process.error or error
        finally:
            process.error = process.error or ConnectionClosed()
            self._forget(process)
            process.ready.set()

    async def _serve(self, process: Process, agent: RemoteAgent) -> None:
        me = Implementation(name="acp-server gateway", version="1")
        await agent.initialize(client_info=me, timeout=self._limits.start_seconds, version=self._protocol)
        process.begin(agent)
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, process)
            group.start_soon(process.tend, self._limits)
            await agent.link.connection.wait_closed()
            group.cancel_scope.cancel()

    def _forget(self, process: Process) -> None:
        if self._process is process:
            self._process = None


class Bots:
    """All bots, by the id that clients know them by, and those that are no longer but still have chats."""

    def __init__(self, make: Callable[[str, Sequence[str]], Bot]) -> None:
        """`make` makes a bot of its name and the command of its agent."""
        self._make = make
        self._bots: dict[str, Bot] = {}
        self._retired: list[Bot] = []
        self._group: TaskGroup | None = None

    def set(self, commands: Mapping[str, Sequence[str]], other: Sequence[str] | None) -> None:
        """Have these bots from now on, `other` for every other id. One whose command stays the same stays as it is."""
        wanted = dict(commands) if other is None else {**commands, EVERY_OTHER: other}
        for name, bot in list(self._bots.items()):
            if list(wanted.get(name, ())) != list(bot.command):
                bot.retire()
                self._retired.append(self._bots.pop(name))
        for name, command in wanted.items():
            if name not in self._bots:
                self._bots[name] = bot = self._make(name, command)
                if self._group is not None:
                    bot.use(self._group)

    def running(self) -> dict[str, tuple[int, int]]:
        """By name, how many processes there are that have not ended, and how many chats wait for a session."""
        self._retired = [bot for bot in self._retired if bot.running or bot.waiting]
        there: dict[str, tuple[int, int]] = {}
        for bot in (*self._bots.values(), *self._retired):
            running, waiting = there.get(bot.name, (0, 0))
            there[bot.name] = (running + bot.running, waiting + bot.waiting)
        return there

    def find(self, bot_id: str) -> Bot:
        """Raises ApiError 4200."""
        bot = self._bots.get(bot_id) or self._bots.get(EVERY_OTHER)
        if bot is None:
            raise ApiError(Code.NOT_FOUND, f"Requested resource bot_id={bot_id} does not exist")
        return bot

    def release(self, known: KnownSession) -> None:
        """See `Bot.release`. The session of a bot that there is no more stays as it is."""
        if (bot := self._bots.get(known.bot)) is not None:
            bot.release(known)

    def use(self, group: TaskGroup) -> None:
        """See `Bot.use`."""
        self._group = group
        for bot in self._bots.values():
            bot.use(group)

    def kill(self) -> None:
        """See `Bot.kill`."""
        for bot in (*self._bots.values(), *self._retired):
            bot.kill()

"""The agents of the bots: one process each, started when it is needed, and anew when it has died.

What is done with a process and its sessions is in `acp_server.gateway.process`; which chat has which session is in
`acp_server.gateway.conversations`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup

from acp_server.client import Patience, spawn_agent
from acp_server.errors import AcpError, ConnectionClosed, RequestTimeout
from acp_server.gateway.conversation import KnownSession
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.ids import Ids
from acp_server.gateway.process import Held, Process
from acp_server.schema import Implementation

logger = logging.getLogger("acp_server.gateway")

EVERY_OTHER: Final = "every other"
"""The name of the one that stands for all ids that have no bot of their own. No id has a space."""


class Bot:
    """One agent, as the chats of one bot or of several share it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        cwd: str,
        ids: Ids,
        *,
        start_seconds: float,
        patience: Patience | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._cwd = cwd
        self._ids = ids
        self._start_seconds = start_seconds
        self._patience = patience
        self._process: Process | None = None
        self._group: TaskGroup | None = None

    def use(self, group: TaskGroup) -> None:
        """Let its processes be watched by tasks of this group; when it is cancelled they are ended."""
        self._group = group

    async def open(self, known: KnownSession | None) -> Held:
        """A session to prompt: the one that is known if the agent still has it, else a new one.

        Raises AcpError or OSError if there is none to be had.
        """
        with anyio.move_on_after(self._start_seconds):
            process = self._start()
            try:
                return await process.open(known, self._cwd)
            except ConnectionClosed:
                # It has died between two chats, or just now. This chat has not said anything yet, so once more.
                logger.info("bot %s: the agent is gone; it is started anew", self.name)
                self._forget(process)
                return await self._start().open(known, self._cwd)
        raise RequestTimeout("session/new", self._start_seconds)

    def discard(self, held: Held) -> None:
        """Nobody will prompt this session again."""
        held.process.release(held.key)
        if (group := self._running()) is not None:
            group.start_soon(held.process.end, held.session.id, held.session, self._start_seconds)

    def let_go(self, known: KnownSession, *, start: bool = True) -> None:
        """Nobody will take up this session again. The agent is started for that if it has to be, and if `start`."""
        group, process = self._running(), self._process
        session = None if process is None else process.release(known.key)
        if group is not None and (process is not None or start):
            group.start_soon((process or self._start()).end, known.id, session, self._start_seconds)

    # -- the process

    def _running(self) -> TaskGroup | None:
        """The group, unless the gateway does not run yet or is ending."""
        return None if self._group is None or self._group.cancel_scope.cancel_called else self._group

    def _start(self) -> Process:
        """The process there is, or a new one."""
        if self._process is None:
            assert self._group is not None, "the gateway does not run"
            self._process = Process(self._ids)
            self._group.start_soon(self._run, self._process)
        return self._process

    async def _run(self, process: Process) -> None:
        try:
            async with spawn_agent(self._command, process.handlers(), cwd=self._cwd, patience=self._patience) as agent:
                try:
                    me = Implementation(name="acp-server gateway", version="1")
                    await agent.initialize(client_info=me, timeout=self._start_seconds)
                    process.agent = agent
                    process.ready.set()
                    await agent.link.connection.wait_closed()
                finally:
                    # Before the process is cleaned up, which may take a while.
                    self._forget(process)
            logger.warning("bot %s: the agent is gone", self.name)
        except (AcpError, OSError) as error:
            logger.warning("bot %s: the agent cannot be used: %s", self.name, error)
            process.error = process.error or error
        finally:
            process.error = process.error or ConnectionClosed()
            self._forget(process)
            process.ready.set()

    def _forget(self, process: Process) -> None:
        if self._process is process:
            self._process = None


class Bots:
    """All bots, by the id that clients know them by. `other`: the one that stands for every other id."""

    def __init__(self, bots: Mapping[str, Bot], other: Bot | None) -> None:
        self._bots = dict(bots)
        self._other = other
        self._all = [*bots.values(), *([] if other is None else [other])]

    def find(self, bot_id: str) -> Bot:
        """Raises ApiError 4200."""
        bot = self._bots.get(bot_id, self._other)
        if bot is None:
            raise ApiError(Code.NOT_FOUND, f"Requested resource bot_id={bot_id} does not exist")
        return bot

    def let_go(self, known: KnownSession) -> None:
        """See `Bot.let_go`. The session of a bot that there is no more stays as it is."""
        for bot in self._all:
            if bot.name == known.bot:
                bot.let_go(known)

    def use(self, group: TaskGroup) -> None:
        """See `Bot.use`."""
        for bot in self._all:
            bot.use(group)

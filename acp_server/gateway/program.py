"""An agent's program: how it is started, and served until it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread

from acp_server.client import Patience, RemoteAgent, spawn_agent
from acp_server.errors import AcpError, ConnectionClosed
from acp_server.gateway.errors import outline
from acp_server.gateway.isolation import Place
from acp_server.gateway.limits import Limits
from acp_server.gateway.process import Process
from acp_server.schema import Implementation

logger = logging.getLogger("acp_server.gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What each process of a bot's agent runs."""

    bot: str
    command: Sequence[str]
    place: Callable[[], Place]
    """Where it works. May wait for a disk; raises OSError."""
    limits: Limits
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
                on_stderr=partial(logger.debug, "bot %s: standard error: %s", self.bot),
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
                logger.warning("bot %s: the agent is gone", self.bot)
            else:
                logger.info("bot %s: an agent was ended: %s", self.bot, process.why)
        except (AcpError, OSError) as error:
            logger.warning("bot %s: the agent cannot be used: %s", self.bot, outline(error))
            logger.debug("bot %s: its error: %s", self.bot, error)
            process.error = process.error or error
        finally:
            process.error = process.error or ConnectionClosed()
            process.leave()
            process.ready.set()

    async def _serve(self, process: Process, agent: RemoteAgent, place: Place) -> None:
        me = Implementation(name="acp-server gateway", version="1")
        await agent.initialize(client_info=me, timeout=self.limits.start_seconds, version=self.protocol)
        process.begin(agent, place.cwd)
        async with anyio.create_task_group() as group:
            group.start_soon(process.tend, self.limits)
            await agent.link.connection.wait_closed()
            group.cancel_scope.cancel()

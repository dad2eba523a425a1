"""Whether an agent is there, and does as it is told. What follows from that is decided in `acp_server.gateway.pool`."""

from __future__ import annotations

from typing import Protocol

import anyio

from acp_server.client import RemoteTurn
from acp_server.gateway.limits import Limits
from acp_server.gateway.process import Probe, Process


class Distrust(Protocol):
    """Is told of a process that is not to be trusted."""

    def __call__(self, process: Process, why: str, *, at_once: bool = False) -> None:
        """Let it have no more chats, and end it when those that it has are through, or after a time; or `at_once`."""
        ...


class Trust:
    """Looks whether the agents of a bot are to be trusted."""

    def __init__(self, limits: Limits, distrust: Distrust) -> None:
        self._limits = limits
        self._distrust = distrust

    async def check_start(self, process: Process) -> None:
        """It has not opened a session in time. If it does not answer, it may be one that does one thing at a time: its
        chats are left to it for a while, and others get another."""
        if process.agent is None:
            return
        with process.probing():
            if await process.probe(self._limits.start_seconds) is not Probe.ANSWER:
                self._distrust(process, "does not answer")

    async def check(self, process: Process, seconds: float, cancelled: RemoteTurn | None = None) -> None:
        """See whether the agent is there, and end it if not. A chat that wants to talk to it waits for the outcome.

        `cancelled`: a turn that it has not answered in time; if it does not do so soon, it is not to be trusted either.
        """
        if process.agent is None:
            return
        deadline = anyio.current_time() + seconds
        with process.probing():
            said = await process.probe(seconds)
            if said is Probe.SILENT:
                self._distrust(process, "does not answer", at_once=True)
            elif said is Probe.BUSY:
                self._distrust(process, "takes nothing in")
        if said is Probe.ANSWER and cancelled is not None:
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

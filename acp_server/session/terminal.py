"""A terminal of the client's (ACP, Terminals), released whatever happens.

The command runs on the client's side; nothing is started here.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final

from acp_server.errors import AcpError
from acp_server.peer.connection import Connection
from acp_server.schema.terminal import (
    KillTerminalRequest,
    ReleaseTerminalRequest,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from acp_server.tasks.grace import grace

logger = logging.getLogger("acp_server.session")

PATIENCE: Final = 1.0
"""Seconds that a client gets to answer a kill, and again a release, when a terminal is left."""


class Terminal:
    """One terminal. Leave its `async with` block, in any way, and it is killed if it may still run, and released."""

    def __init__(self, connection: Connection, session_id: str, terminal_id: str) -> None:
        self._connection = connection
        self._session_id = session_id
        self.id: Final = terminal_id
        """The client's id for it, also for embedding it in a tool call's content."""
        self._exited = False
        self._released = False

    async def output(self) -> TerminalOutputResponse:
        """What it has printed so far, whether that was truncated, and its exit status if it has ended."""
        params = TerminalOutputRequest(session_id=self._session_id, terminal_id=self.id)
        response = TerminalOutputResponse.from_wire(await self._connection.request("terminal/output", params))
        self._exited = self._exited or response.exit_status is not None
        return response

    async def wait_for_exit(self) -> TerminalExitStatus:
        """Wait until its command ends. Being cancelled meanwhile withdraws the question, not the command."""
        params = WaitForTerminalExitRequest(session_id=self._session_id, terminal_id=self.id)
        result = await self._connection.request("terminal/wait_for_exit", params)
        response = WaitForTerminalExitResponse.from_wire(result)
        self._exited = True
        return TerminalExitStatus(exit_code=response.exit_code, signal=response.signal)

    async def kill(self) -> None:
        """End its command; the output stays readable until the release."""
        params = KillTerminalRequest(session_id=self._session_id, terminal_id=self.id)
        await self._connection.request("terminal/kill", params)

    async def release(self) -> None:
        """Let it go; the client ends the command if it still runs. Idempotent."""
        if not self._released:
            self._released = True
            params = ReleaseTerminalRequest(session_id=self._session_id, terminal_id=self.id)
            await self._connection.request("terminal/release", params)

    async def __aenter__(self) -> Terminal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._released:
            return
        if not self._exited:
            await self._quietly("kill")
        await self._quietly("release")

    async def _quietly(self, step: str) -> None:
        # A terminal that cannot be let go must not cost the turn its answer.
        with grace(PATIENCE) as scope:
            try:
                await (self.kill() if step == "kill" else self.release())
            except AcpError as error:
                logger.info("terminal/%s of %s: %s", step, self.id, error)
        if scope.cancelled_caught:
            logger.info("terminal/%s of %s was not answered in %g s", step, self.id, PATIENCE)

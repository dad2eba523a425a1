"""A terminal of the agent that the client shows (ACP v2, terminals). `Client.create_terminal` makes it."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio.lowlevel

from acp_server.errors import ConnectionClosed, InvalidParams, SessionClosed
from acp_server.processes.command import STARTING, Command, CommandOutput, open_command
from acp_server.session import terminal as v1
from acp_server.tasks.grace import grace
from acp_server.wire import codec

if TYPE_CHECKING:
    import anyio.abc

    from acp_server.peer.peer import Peer
    from acp_server.schema.client_methods import TerminalExitStatus, TerminalOutputResponse
    from acp_server.session.v2.updates import Updates
    from acp_server.store.records import TurnRecord

OUTPUT_BYTES: Final = 1024 * 1024
"""The most bytes of output that are kept of a command, by default."""


class _Shown(Command):
    """A command whose output is sent as it arrives, with backpressure from the client."""

    def __init__(self, process: anyio.abc.Process, terminal: Terminal, limit: int) -> None:
        self.output = CommandOutput(limit)
        self._terminal = terminal
        super().__init__(process)

    async def take(self, data: bytes) -> None:
        """See `Command`."""
        self.output.feed(data, final=not data)
        if data:
            await self._terminal.show(data)

    async def _wait(self) -> None:
        await super()._wait()
        self._terminal.end()


class Terminal(v1.Terminal):
    """One terminal, see `acp_server.session.terminal.Terminal`. `terminals`: the terminals of its session that were not
    released."""

    def __init__(
        self,
        connection: Peer,
        updates: Updates,
        terminals: dict[str, Terminal],
        session_id: str,
        turn: TurnRecord | None,
        about: dict[str, Any],
    ) -> None:
        super().__init__(connection, session_id, f"term_{os.urandom(12).hex()}", turn, about)
        self._updates = updates
        self._terminals = terminals
        self._command: _Shown

    async def start(self, words: Sequence[str], env: Mapping[str, str] | None, limit: int | None) -> None:
        """Start the command. Raises InvalidParams if that fails."""
        process = await _opened(words, self._about["cwd"], {**os.environ, **(env or {})})
        self._terminals[self.id] = self
        self._tell(**self._about, capabilities={"cancel": {}})
        self._command = _Shown(process, self, OUTPUT_BYTES if limit is None else limit)
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            await self.release()
            raise

    def cancel(self) -> bool:
        """Kill the command without waiting for its end. Returns False if it has ended."""
        if self._ended:
            return False
        self._connection.background(self._command.kill)
        return True

    async def output(self) -> TerminalOutputResponse:
        """See `acp_server.session.terminal.Terminal`."""
        status = self._status() if self._command.ended.is_set() else None
        return self._shown(status)

    def _shown(self, status: TerminalExitStatus | None) -> TerminalOutputResponse:
        from acp_server.schema.client_methods import TerminalOutputResponse

        output = self._command.output
        return TerminalOutputResponse(output=output.text, truncated=output.truncated, exit_status=status)

    async def wait_for_exit(self) -> TerminalExitStatus:
        """See `acp_server.session.terminal.Terminal`."""
        await self._command.ended.wait()
        return self._status()

    async def kill(self) -> None:
        """See `acp_server.session.terminal.Terminal`."""
        await self._command.kill()

    async def release(self) -> None:
        """See `acp_server.session.terminal.Terminal`."""
        if not self._released:
            self._released = True
            await self._command.end()
            self.end()
            self._terminals.pop(self.id, None)

    async def let_go(self) -> None:
        """See `acp_server.session.terminal.Terminal`. Ending a command has its own time limits."""
        try:
            await self.release()
        except BaseException:
            self._connection.background(self._command.end)
            raise

    async def show(self, data: bytes) -> None:
        """Send output of the command. This waits while the client has not read enough."""
        if not self._ended:
            self._say("terminal_output_chunk", data=b64encode(data).decode())
            if self._updates.crowded:
                with suppress(ConnectionClosed):
                    await self._updates.room()

    def end(self) -> None:
        """Send the exit status, once. The client can no longer cancel the command."""
        if not self._ended:
            self._ended = True
            status = self._status()
            self._seen = self._shown(status)
            self._keep(self._seen)
            self._tell(exitStatus=status.to_wire(), capabilities=None)

    def _status(self) -> TerminalExitStatus:
        from acp_server.schema.client_methods import TerminalExitStatus

        code, signal = self._command.exit
        return TerminalExitStatus(exit_code=code) if signal is None else TerminalExitStatus(signal=signal)

    def _tell(self, **changes: Any) -> None:
        self._say("terminal_update", **changes)

    def _say(self, kind: str, **more: Any) -> None:
        # A closed session sends no updates.
        with suppress(SessionClosed):
            update = {"sessionUpdate": kind, "terminalId": self.id, **more}
            self._updates.put(codec.encode(update)[:-1])


async def _opened(words: Sequence[str], cwd: str, env: Mapping[str, str]) -> anyio.abc.Process:
    try:
        with grace(STARTING):
            return await open_command(words, cwd, env)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "not a possible command"
        raise InvalidParams(f"The command cannot be started: {what}") from None
    raise TimeoutError("the command could not be started in time")

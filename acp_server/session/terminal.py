"""A terminal of the client (ACP, Terminals). It is released in every case.

The client runs the command. This module starts no process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from acp_server.errors import AcpError, RpcError, UsageError
from acp_server.peer.peer import Peer
from acp_server.schema.reading import read_result
from acp_server.store.history import note
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from acp_server.schema.client_methods import TerminalExitStatus, TerminalOutputResponse
    from acp_server.store.records import TurnRecord

logger: logging.Logger = logging.getLogger("acp_server.session")

PATIENCE: Final = 0.5
"""Seconds that a client has for its response to each request at the end of a terminal: kill, output, release. Without a
response to the kill, the output is not requested."""


def words_of(command: str, args: Sequence[str]) -> list[str]:
    """Return a command with its arguments. Raises UsageError for arguments in one string, and for arguments in the name
    of the program. A program whose name has a space needs its folder: `./my tool`."""
    if isinstance(args, str):
        raise UsageError(f"the arguments of a command must be a list, as in [{args!r}], not one string")
    program, *behind = command.split() or [""]
    if behind and "/" not in program and "\\" not in program:
        raise UsageError(f"pass a command as a program and a list of arguments: {program!r}, {behind}, not {command!r}")
    return [command, *args]


class Terminal:
    """One terminal. However its `async with` block ends, the command is killed if it may still run, and the terminal is
    released. Before the release, the output until the kill is requested and stored with the turn.

    The methods raise RpcError for the client's error responses, MalformedResponse and ConnectionClosed.
    """

    def __init__(
        self,
        connection: Peer,
        session_id: str,
        terminal_id: str,
        turn: TurnRecord | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self.id: Final = terminal_id
        """The id from the client, also for the content of a tool call."""
        self._ended = False
        self._released = self._left = False
        self._turn = turn
        """The record that stores the final state; None once it is stored."""
        self._about: Final = about or {}
        self._seen: TerminalOutputResponse | None = None
        self._unseen = False
        """Whether the command was killed after `_seen`."""

    @property
    def seen(self) -> TerminalOutputResponse | None:
        """Return the last response of `output`; None before the first. At the end of the block, after a kill, the
        output is requested once more."""
        return self._seen

    async def output(self) -> TerminalOutputResponse:
        """Return the output so far, whether it was truncated, and the exit status of an ended command."""
        from acp_server.schema.client_methods import TerminalOutputResponse

        response = read_result(TerminalOutputResponse, "terminal/output", await self._ask("terminal/output"))
        self._ended = self._ended or response.exit_status is not None
        self._seen = response
        self._unseen = False
        return response

    async def wait_for_exit(self) -> TerminalExitStatus:
        """Wait until the command ends. If the caller is cancelled, the request is withdrawn, and the command still
        runs."""
        from acp_server.schema.client_methods import TerminalExitStatus, WaitForTerminalExitResponse

        result = await self._ask("terminal/wait_for_exit")
        response = read_result(WaitForTerminalExitResponse, "terminal/wait_for_exit", result)
        self._ended = True
        return TerminalExitStatus(exit_code=response.exit_code, signal=response.signal)

    async def kill(self) -> None:
        """Kill the command. The output stays readable until the release."""
        await self._ask("terminal/kill")
        self._ended = self._unseen = True

    async def release(self) -> None:
        """Release the terminal. The client kills a command that still runs. Idempotent."""
        await self._release(None)

    async def _release(self, on_over: Callable[[], None] | None) -> None:
        self._left = True
        self._keep(self._seen)
        if not self._released:
            try:
                await self._ask("terminal/release", on_over)
            except RpcError:
                # The client does not know this id, so a retry would fail as well.
                self._released = True
                raise
            self._released = True

    def _keep(self, seen: TerminalOutputResponse | None) -> None:
        """Store the final state with the turn, once."""
        turn, self._turn = self._turn, None
        if turn is not None:
            output = None if seen is None else seen.output
            status = None if seen is None or seen.exit_status is None else seen.exit_status.to_wire()
            turn.add_terminal(note(self.id, self._about, output, status))

    async def __aenter__(self) -> Terminal:
        self._left = True  # it is left when the block ends
        return self

    def __del__(self) -> None:
        if not (self._left or self._released):
            instead = "async with await client.create_terminal(...) as terminal:"
            logger.warning("a terminal was not released, so its command may still run; write `%s`", instead)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.let_go()

    async def let_go(self) -> None:
        """Kill a command that may still run, request its output, and release the terminal. This is shielded, takes at
        most half a second for each step, and raises nothing."""
        try:
            if not self._released and not self._ended:
                await self._quietly("kill", self.kill)
            if not self._released and self._unseen and self._turn is not None:
                await self._quietly("output", self.output)
            if not self._released:
                await self.release_quietly()
        except BaseException:
            # A native cancel, which a shield does not hold off. The command must still end.
            self._connection.background(self.release_quietly)
            raise

    async def release_quietly(self) -> None:
        """Release the terminal. This is shielded, takes at most half a second, and raises nothing. If the client does
        not read meanwhile, the request is sent again once it reads."""
        waiting, unseen = True, False

        def over() -> None:
            nonlocal unseen
            # After the wait, `over` is about a late response.
            unseen = unseen or waiting

        await self._quietly("release", lambda: self._release(over))
        waiting = False
        if unseen:
            self._connection.background(self._release_when_read)

    async def _release_when_read(self) -> None:
        await self._connection.writer.below(0)
        await self.release_quietly()

    async def _quietly(self, step: str, ask: Callable[[], Awaitable[object]]) -> None:
        # A failed release must not lose the response of the turn.
        with grace(PATIENCE) as scope:
            try:
                await ask()
            except AcpError as error:
                logger.info("terminal/%s for terminal %s failed: %s", step, self.id, error)
        if scope.cancelled_caught:
            logger.info("the client did not answer terminal/%s for terminal %s within %g s", step, self.id, PATIENCE)

    async def _ask(self, method: str, on_over: Callable[[], None] | None = None) -> Any:
        params = {"sessionId": self._session_id, "terminalId": self.id}
        return await self._connection.request(method, params, on_over=on_over)

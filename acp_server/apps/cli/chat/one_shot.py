"""Sends one prompt for a script, or lists sessions for a script. `acp_server.apps.cli.chat.report` writes the output of
both."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from acp_server.apps.cli.chat import Exit, of_error, of_stop_reason, opening
from acp_server.apps.cli.chat.commands import show_sessions
from acp_server.apps.cli.chat.opening import Wishes
from acp_server.apps.cli.chat.report import JsonReport, TextReport
from acp_server.apps.cli.chat.user import Interrupts
from acp_server.apps.cli.screen import Screen
from acp_server.client import LocalTerminals, RemoteAgent, RemoteTurn, allow_once, reject_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, AuthRequired
from acp_server.schema import PermissionOption, RequestPermissionRequest


class OneShot:
    """Sends one prompt, until it is answered or stopped. Questions are answered as `wishes` specify, and otherwise
    rejected.

    The first Ctrl-C cancels the turn, whose later messages are still shown. The agent has the time that each cancelled
    turn has (`acp_server.client.turn.CANCEL_SECONDS`). The second Ctrl-C kills the agent.
    """

    def __init__(self, wishes: Wishes, text: str, *, as_json: bool) -> None:
        self._wishes = wishes
        self._text = text
        self._report = JsonReport() if as_json else TextReport(wishes.answer)
        self._agent: RemoteAgent | None = None
        self._turn: RemoteTurn | None = None
        self._whole = anyio.CancelScope()
        self._exit: Exit | None = None
        """None until the outcome of the prompt is known."""
        self._stops = 0
        """The number of interrupts by the user."""

    async def run(self) -> Exit:
        """Send the prompt and wait for its answer; returns the exit status. Raises CannotWrite, and cancels the turn,
        if nothing can be written any more."""
        signals = Interrupts()
        signals.take()
        try:
            with self._report.output.needed():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(signals.deliver, self._signalled)
                    with self._whole:
                        await self._answered()
                    if self._exit is None:
                        self._over(Exit.CANCELLED)
                        self._report.error(AcpError("interrupted"))
                    tasks.cancel_scope.cancel()
        finally:
            signals.release()
        assert self._exit is not None
        return self._exit

    async def _answered(self) -> None:
        try:
            async with _started(self._wishes, self._report) as agent:
                self._agent = agent
                name = await opening.initialized(agent, self._wishes)
                session = await opening.open_session(agent, self._wishes, lambda _: None)
                self._report.session(session.id, name)
                session.on_update = self._report.update
                async with session.prompt(self._text) as self._turn:
                    async for _ in self._turn:
                        pass  # it is written as it comes
                reason = self._turn.stop_reason
                self._over(of_stop_reason(reason))
                self._report.result(reason)
        except AcpError as error:
            self._over(of_error(error))
            self._report.error(opening.without_last_words(error))
            if isinstance(error, AuthRequired) and self._agent is not None and opening.ways_to_log_in(self._agent):
                self._report.complain("acp-server: start the chat without -p: it asks how to log in")

    def _over(self, status: Exit) -> None:
        self._exit = Exit.CANCELLED if self._stops else status

    def _signalled(self, number: int) -> None:
        self._stops += 1
        if self._stops > 1 and self._agent is not None and self._agent.process is not None:
            self._agent.process.kill()
        if self._stops == 1 and number == signal.SIGINT and self._turn is not None and not self._turn.over.is_set():
            self._turn.cancel()
        else:
            self._whole.cancel()


async def list_sessions(wishes: Wishes, *, as_json: bool) -> Exit:
    """Show the agent's sessions of the folder. Raises CannotWrite if nothing can be written any more."""
    report = JsonReport() if as_json else TextReport(wishes.answer)
    with report.output.needed():
        try:
            async with _started(wishes, report) as agent:
                await opening.initialized(agent, wishes)
                known = await opening.sessions(agent, wishes.cwd)
                if isinstance(report, JsonReport):
                    for info in known:
                        report.write({"type": "session", **info.to_wire()})
                else:
                    show_sessions(Screen(report.output), known)
                return Exit.DONE
        except AcpError as error:
            report.error(opening.without_last_words(error))
            return of_error(error)
    raise AssertionError("a block that was cancelled without a reason")


@asynccontextmanager
async def _started(wishes: Wishes, report: TextReport | JsonReport) -> AsyncGenerator[RemoteAgent]:
    async def permission(request: RequestPermissionRequest) -> PermissionAnswer:
        answer = await (allow_once if wishes.answer == "yes" else reject_once)(request)
        report.permission(request, answer if isinstance(answer, PermissionOption) else None)
        return answer

    async with opening.started(wishes, permission, LocalTerminals(), report.complain) as agent:
        yield agent

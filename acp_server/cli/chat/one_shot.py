"""One prompt for a script, and the list of sessions for one. What is written of them is `acp_server.cli.chat.report`'s
matter."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from acp_server.cli.chat import Exit, of_error, of_stop_reason, opening
from acp_server.cli.chat.commands import show_sessions
from acp_server.cli.chat.opening import Wishes
from acp_server.cli.chat.report import JsonReport, TextReport, complain
from acp_server.cli.screen import Screen
from acp_server.client import LocalTerminals, RemoteAgent, allow_once, reject_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError
from acp_server.schema import PermissionOption, RequestPermissionRequest


async def one_shot(wishes: Wishes, text: str, *, as_json: bool) -> Exit:
    """Have the prompt answered. Questions are answered as `wishes` say, and with no if they say nothing of it. Raises
    CannotWrite, and cancels the turn, when nothing can be written any more."""
    report = JsonReport() if as_json else TextReport()
    with report.output.needed():
        try:
            async with _agent(wishes, report) as agent:
                name = await opening.initialized(agent, wishes)
                session = await opening.open_session(agent, wishes, lambda _: None)
                report.session(session.id, name)
                session.on_update = report.update
                answer = await session.run(text)
                report.result(answer.stop_reason)
                return of_stop_reason(answer.stop_reason)
        except AcpError as error:
            report.error(opening.without_last_words(error))
            return of_error(error)
    raise AssertionError("a block that was cancelled without a reason")


async def list_sessions(wishes: Wishes, *, as_json: bool) -> Exit:
    """Show the agent's sessions of the folder. Raises CannotWrite when nothing can be written any more."""
    report = JsonReport() if as_json else TextReport()
    with report.output.needed():
        try:
            async with _agent(wishes, report) as agent:
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
async def _agent(wishes: Wishes, report: TextReport | JsonReport) -> AsyncGenerator[RemoteAgent]:
    async def permission(request: RequestPermissionRequest) -> PermissionAnswer:
        answer = await (allow_once if wishes.answer == "yes" else reject_once)(request)
        report.permission(request, answer if isinstance(answer, PermissionOption) else None)
        return answer

    async with opening.started(wishes, permission, LocalTerminals(), complain) as agent:
        yield agent

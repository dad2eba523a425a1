"""Agents that ask their client the wrong thing, or do not heed the answer."""

from __future__ import annotations

from collections.abc import Callable

from clean import Clean
from rpc import Call, Cancelled, Json, Request
from situations import Session


class CancelledQuestionEndsTheTurn(Clean):
    """Answers end_turn where the turn is cancelled while the user is asked."""

    async def do_permission(self, session: Session) -> str | None:
        try:
            return await super().do_permission(session)
        except Cancelled:
            return "end_turn"


class DoesWhatWasRejected(Clean):
    """Does what the user has rejected."""

    def allowed(self, answer: Json) -> bool:
        return isinstance(answer, dict) and answer.get("outcome", {}).get("outcome") == "selected"


class DoesWhatWasCancelled(Clean):
    """Takes the outcome cancelled for a permission."""

    def allowed(self, answer: Json) -> bool:
        return super().allowed(answer) or answer.get("outcome", {}).get("outcome") == "cancelled"


class CancelledToolGoesOn(Clean):
    """Says that a tool call is completed behind the answer that its turn was cancelled."""

    late: Session | None = None

    async def do_permission(self, session: Session) -> None:
        try:
            await super().do_permission(session)
        except Cancelled:
            self.late = session
            raise

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, message)
        if self.late is not None:
            session, self.late = self.late, None
            self.tool_update(session, f"call_{session.tools}", status="completed")


class KeepsAKilledTerminal(Clean):
    """Releases a terminal at the end of its command, and not when the turn is cancelled."""

    async def use_terminal(self, session: Session, tool: str, terminal: str) -> None:
        where = {"sessionId": session.id, "terminalId": terminal}
        try:
            await self.ask("terminal/wait_for_exit", where)
        except Cancelled:
            self.kill(where)
            raise
        self.release(session, where)
        self.tool_update(session, tool, status="completed")


class ReadsWhereItMayWrite(Clean):
    """Reads files of a client that has announced to write files only."""

    def announced(self, name: str) -> bool:
        return super().announced(name) or (name == "fs.readTextFile" and super().announced("fs.writeTextFile"))


class TerminalOfAnotherFolder(Clean):
    """Runs its commands in a folder that is relative."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        if method == "terminal/create":
            params = {**params, "cwd": "."}
        return super().ask(method, params, late)


class LineZero(Clean):
    """Reads from line 0, where the first one is 1."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        if method == "fs/read_text_file":
            params = {**params, "line": 0}
        return super().ask(method, params, late)


class SameOptionTwice(Clean):
    """Asks for permission with two options of one id."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        if method == "session/request_permission":
            params = {**params, "options": [{**each, "optionId": "yes"} for each in params["options"]]}
        return super().ask(method, params, late)

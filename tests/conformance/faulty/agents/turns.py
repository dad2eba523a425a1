"""Faults in a turn that nobody cancels."""

from __future__ import annotations

import sys
import traceback

from clean import Clean
from rpc import Json, Request, RpcError
from situations import Session


class UnknownStopReason(Clean):
    """Ends a turn for a reason that is not in the specification."""

    async def turn(self, session: Session, text: str) -> str:
        await super().turn(session, text)
        return "done"


class NoStopReason(Clean):
    """Does not say why a turn ended."""

    async def prompt(self, request: Request) -> Json:
        await super().prompt(request)
        return {}


class CancelledByItself(Clean):
    """Ends a turn as cancelled that nobody cancelled."""

    async def turn(self, session: Session, text: str) -> str:
        await super().turn(session, text)
        return "cancelled"


class LateChunk(Clean):
    """Says a last word after the answer of the turn."""

    def succeed(self, request: Request, result: Json) -> None:
        super().succeed(request, result)
        if request.method == "session/prompt":
            self.say(self.sessions[request.params["sessionId"]], "One more thing.")


class AnswersFirst(Clean):
    """Answers the prompt, and then streams."""

    answered_early = False

    async def do_stream(self, session: Session) -> None:
        assert session.turn
        self.succeed(session.turn, {"stopReason": "end_turn"})
        self.answered_early = True
        await super().do_stream(session)

    def answer(self, request: Request, message: Json) -> None:
        if not self.answered_early:
            super().answer(request, message)
        self.answered_early = False


class OnePromptOnly(Clean):
    """Refuses the second prompt of a session."""

    async def turn(self, session: Session, text: str) -> str:
        if sum(update["sessionUpdate"] == "user_message_chunk" for update in session.history) > 1:
            raise RpcError(-32600, "The session is over")
        return await super().turn(session, text)


class OneTurnAtATime(Clean):
    """Refuses a prompt while another session has a turn."""

    async def turn(self, session: Session, text: str) -> str:
        if any(other.turn for other in self.sessions.values() if other is not session):
            raise RpcError(-32600, "The agent is busy")
        return await super().turn(session, text)


class Deaf(Clean):
    """Reads nothing while a turn runs."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[bytes] = []

    def receive(self, line: bytes) -> None:
        if any(session.turn for session in self.sessions.values()):
            self.waiting.append(line)
        else:
            super().receive(line)


class WrongSession(Clean):
    """Sends what a turn says to the session that was made first."""

    def update(self, session: Session, update: Json) -> None:
        super().update(next(iter(self.sessions.values())), update)


class FailureUnanswered(Clean):
    """Never answers a prompt whose turn fails."""

    def fail(self, request: Request, error: RpcError) -> None:
        if request.method != "session/prompt" or error.code != -32603:
            super().fail(request, error)


class FailureEnds(Clean):
    """Ends when a turn fails."""

    async def turn(self, session: Session, text: str) -> str:
        try:
            return await super().turn(session, text)
        except ValueError:
            sys.exit(1)


class FailureSpoilsTheSession(Clean):
    """Refuses all prompts of a session after one that failed."""

    async def prompt(self, request: Request) -> Json:
        session = self.session(request)
        try:
            return await super().prompt(request)
        except ValueError:
            session.turn = request
            raise


class TellsTraceback(Clean):
    """Sends the client the traceback of a turn that fails."""

    def fail(self, request: Request, error: RpcError) -> None:
        text = traceback.format_exc()
        body = {"code": error.code, "message": error.message, "data": {"traceback": text}}
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "error": body})


class UpdatesUnknownTool(Clean):
    """Reports on a tool call that it never announced."""

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        super().tool_update(session, f"other_{tool}", **changes)


class OneToolId(Clean):
    """Gives every tool call of a session the same id."""

    def tool_call(self, session: Session, title: str, kind: str) -> str:
        session.tools = 0
        return super().tool_call(session, title, kind)


class ToolLeftOpen(Clean):
    """Ends a turn while its tool call is in progress."""

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        if changes.get("status") not in ("completed", "failed"):
            super().tool_update(session, tool, **changes)


class ToolRunsAgain(Clean):
    """Sets a tool call that has completed back to pending."""

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        super().tool_update(session, tool, **changes)
        if changes.get("status") == "completed":
            super().tool_update(session, tool, status="pending")


class EmptyPlanStep(Clean):
    """Sends a plan whose steps have no status."""

    def update(self, session: Session, update: Json) -> None:
        for entry in update.get("entries", []):
            entry.pop("status")
        super().update(session, update)

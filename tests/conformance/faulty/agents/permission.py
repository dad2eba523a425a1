"""Faults in asking for leave."""

from __future__ import annotations

import json

from clean import Clean
from rpc import Call, Cancelled, Json, RpcError
from situations import OPTIONS, Session


class LateLeave(Clean):
    """Runs the tool when leave comes after the cancel."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        super().answered(call, result, error)
        if call.abandoned and self.allowed(result):
            session = next(iter(self.sessions.values()))
            self.tool_update(session, "call_1", status="in_progress")
            self.tool_update(session, "call_1", status="completed")


class CancelIsLeave(Clean):
    """Runs the tool when its turn is cancelled while it asks."""

    async def do_permission(self, session: Session) -> None:
        try:
            await super().do_permission(session)
        except Cancelled:
            await self.run_tool(session, f"call_{session.tools}")
            raise


class RejectionIsLeave(Clean):
    """Runs the tool whatever the user chooses."""

    def allowed(self, answer: Json) -> bool:
        return answer.get("outcome", {}).get("outcome") == "selected"


class DismissalIsLeave(Clean):
    """Runs the tool when the question was dismissed."""

    def allowed(self, answer: Json) -> bool:
        return super().allowed(answer) or answer.get("outcome", {}).get("outcome") == "cancelled"


class ErrorIsLeave(Clean):
    """Runs the tool when the client could not ask."""

    def allowed(self, answer: Json) -> bool:
        return answer == {} or super().allowed(answer)


class UnknownOptionIsLeave(Clean):
    """Runs the tool when the answer names an option that was not offered."""

    def allowed(self, answer: Json) -> bool:
        outcome = answer.get("outcome", {})
        return outcome.get("outcome") == "selected" and outcome.get("optionId") != "no"


class LeaveIsRefusal(Clean):
    """Does not run the tool that was allowed."""

    def allowed(self, answer: Json) -> bool:
        return False


class RunsFirst(Clean):
    """Runs the tool before it asks."""

    async def do_permission(self, session: Session) -> None:
        self.tool_update(session, f"call_{session.tools + 1}", status="in_progress")
        await super().do_permission(session)

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        if int(tool.removeprefix("call_")) > session.tools:
            self.early = changes
        else:
            super().tool_update(session, tool, **changes)

    def tool_call(self, session: Session, title: str, kind: str) -> str:
        tool = super().tool_call(session, title, kind)
        self.tool_update(session, tool, **self.early)
        return tool


class OtherTool(Clean):
    """Asks for a tool call of another id than the one it announced."""

    def encode(self, message: Json) -> bytes:
        if message.get("method") == "session/request_permission":
            message["params"]["toolCall"] = {"toolCallId": "permission_1"}
        return super().encode(message)


class NoOptions(Clean):
    """Offers nothing to choose from."""

    def encode(self, message: Json) -> bytes:
        return super().encode(message).replace(json.dumps(OPTIONS).encode(), b"[]")


class SameOptions(Clean):
    """Gives leave and refusal the same id."""

    def encode(self, message: Json) -> bytes:
        return super().encode(message).replace(b'"optionId": "no"', b'"optionId": "yes"')


class UnknownKind(Clean):
    """Offers an option of a kind that is not in the specification."""

    def encode(self, message: Json) -> bytes:
        return super().encode(message).replace(b'"kind": "allow_once"', b'"kind": "allow_twice"')


class Dismissed(Clean):
    """Never ends a turn whose question was dismissed."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        outcome = result.get("outcome") if isinstance(result, dict) else None
        if not isinstance(outcome, dict) or outcome.get("outcome") != "cancelled":
            super().answered(call, result, error)


class LeaveForAll(Clean):
    """Takes the leave of one session for that of all."""

    async def do_permission(self, session: Session) -> None:
        await super().do_permission(session)
        for other in self.sessions.values():
            if other is not session and other.tools:
                self.tool_update(other, f"call_{other.tools}", status="in_progress")


class StaysForTheAnswer(Clean):
    """Does not stop while the user is asked."""

    def cancel_session(self, params: Json) -> None:
        if not self.calls:
            super().cancel_session(params)


class NeverAsksAgain(Clean):
    """Takes leave for this time for leave for good."""

    trusted = False

    async def do_permission(self, session: Session) -> None:
        if self.trusted:
            await self.run_tool(session, self.tool_call(session, "Change things", "edit"))
        else:
            await super().do_permission(session)

    def allowed(self, answer: Json) -> bool:
        self.trusted = super().allowed(answer)
        return self.trusted

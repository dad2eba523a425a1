"""Faults in the life of a prompt, and in what a session tells while it works."""

from __future__ import annotations

from typing import Any

from tests.conformance.v2.clean import Clean
from tests.conformance.v2.connection import Refusal, Session


class AnswersNothing(Clean):
    def accept(self, session: Session, id: Any, message: str, prompt: Any) -> None:
        self.tell(session, "user_message", messageId=message, content=prompt)
        self.write({"jsonrpc": "2.0", "id": id, "result": {}})


class HasOneMessage(Clean):
    def accept(self, session: Session, id: Any, message: str, prompt: Any) -> None:
        super().accept(session, id, "message", prompt)


class EchoesNothing(Clean):
    def accept(self, session: Session, id: Any, message: str, prompt: Any) -> None:
        super().accept(session, id, message, [])


class AnswersAtTheEnd(Clean):
    def accept(self, session: Session, id: Any, message: str, prompt: Any) -> None:
        if session.turn != "hang":
            super().accept(session, id, message, prompt)


class IsIdleTwice(Clean):
    def idle(self, session: Session, **members: Any) -> None:
        super().idle(session, **members)
        super().idle(session, **members)


class IsNeverIdle(Clean):
    def idle(self, session: Session, **members: Any) -> None:
        pass


class RunsOnlyOnce(Clean):
    ran = False

    def state(self, session: Session, state: str, **members: Any) -> None:
        if state != "running" or not self.ran:
            super().state(session, state, **members)
        self.ran = True


class SaysNoReason(Clean):
    def idle(self, session: Session, **members: Any) -> None:
        super().idle(session)


class SpeaksOn(Clean):
    def idle(self, session: Session, **members: Any) -> None:
        super().idle(session, **members)
        self.say(session, "One more thing.")


class FailsAsIfItWereDone(Clean):
    def do_fails(self, session: Session) -> None:
        self.finish(session)


class FailsWithText(Clean):
    def do_fails(self, session: Session) -> None:
        self.finish(session, "error", error="Internal error")


class DoesNotSayThatItIsMissing(Clean):
    def missing(self, id: Any) -> Refusal:
        return Refusal(-32602, {"sessionId": id})


class DoesNotSayWhichIsMissing(Clean):
    def missing(self, id: Any) -> Refusal:
        return Refusal(-32002)


class TakesAnyBlock(Clean):
    def check(self, prompt: Any) -> None:
        for block in prompt:
            block.setdefault("text", "quick")
        super().check(prompt)


class TakesTextAlone(Clean):
    def supports(self, block: Any) -> bool:
        return block["type"] == "text" and super().supports(block)


class TakesAnyKindOfBlock(Clean):
    def supports(self, block: Any) -> bool:
        return block["type"].startswith("_") or super().supports(block)


class TakesImagesUnannounced(Clean):
    def supports(self, block: Any) -> bool:
        return block["type"] == "image" or super().supports(block)


class RunsAtTheEnd(Clean):
    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        super().finish(session, reason, **members)
        self.state(session, "running")


class ServesOneSession(Clean):
    def known(self, params: Any) -> Session:
        session = super().known(params)
        if any(each.turn for each in self.sessions.values() if each is not session):
            raise Refusal(-32603)
        return session


class TellsToolCallsOfVersion1(Clean):
    def do_tool(self, session: Session) -> None:
        self.tell(session, "tool_call", toolCallId="c", title="Work", status="completed")
        self.finish(session)


class RepeatsItself(Clean):
    def do_stream(self, session: Session) -> None:
        message = self.new_id("a")
        for words in ("one ", "one two three"):
            self.tell(session, "agent_message_chunk", messageId=message, content={"type": "text", "text": words})
        self.finish(session)


class GoesOnWithItsMessage(Clean):
    def new_id(self, what: str) -> str:
        return "a" if what == "a" else super().new_id(what)


class GoesOnWithItsCall(Clean):
    def new_id(self, what: str) -> str:
        return "c" if what == "c" else super().new_id(what)


class HasNoTitle(Clean):
    def begin_call(self, session: Session, **members: Any) -> str:
        return super().begin_call(session, title=None, **members)


class LeavesItsCallOpen(Clean):
    def end_call(self, session: Session, status: str, **members: Any) -> None:
        session.call = ""


class EndsItsCallTwice(Clean):
    def end_call(self, session: Session, status: str, **members: Any) -> None:
        call = session.call
        super().end_call(session, status, **members)
        self.tell(session, "tool_call_update", toolCallId=call, status="failed")


class HasAPlanForEachStep(Clean):
    def tell(self, session: Session, kind: str, /, **members: Any) -> None:
        if kind == "plan_update":
            members["plan"]["planId"] = self.new_id("p")
        super().tell(session, kind, **members)


class HidesItsCommand(Clean):
    def tell(self, session: Session, kind: str, /, **members: Any) -> None:
        members.pop("command", None)
        super().tell(session, kind, **members)


class PlansNothing(Clean):
    def tell(self, session: Session, kind: str, /, **members: Any) -> None:
        if kind != "plan_update":
            super().tell(session, kind, **members)


CAUGHT_BY = {
    "v2-profile/situation": PlansNothing,
    "v2-prompts/message-id": AnswersNothing,
    "v2-prompts/own-id": HasOneMessage,
    "v2-prompts/echo": EchoesNothing,
    "v2-prompts/answered-at-insertion": AnswersAtTheEnd,
    "v2-prompts/states": IsNeverIdle,
    "v2-prompts/one-idle": IsIdleTwice,
    "v2-prompts/states-each": RunsOnlyOnce,
    "v2-prompts/stop-reason": SaysNoReason,
    "v2-prompts/stays-idle": RunsAtTheEnd,
    "v2-prompts/resource-link": TakesTextAlone,
    "v2-prompts/unknown-block": TakesAnyKindOfBlock,
    "v2-prompts/unannounced-block": TakesImagesUnannounced,
    "v2-prompts/silent-when-idle": SpeaksOn,
    "v2-prompts/failure": FailsAsIfItWereDone,
    "v2-prompts/failure-error": FailsWithText,
    "v2-prompts/unknown-session": DoesNotSayThatItIsMissing,
    "v2-prompts/unknown-session-data": DoesNotSayWhichIsMissing,
    "v2-prompts/malformed-block": TakesAnyBlock,
    "v2-prompts/beside-others": ServesOneSession,
    "v2-updates/kinds": TellsToolCallsOfVersion1,
    "v2-updates/text": RepeatsItself,
    "v2-updates/message-ids": GoesOnWithItsMessage,
    "v2-updates/tool-ids": GoesOnWithItsCall,
    "v2-updates/tool-title": HasNoTitle,
    "v2-updates/tool-final": LeavesItsCallOpen,
    "v2-updates/final-stays": EndsItsCallTwice,
    "v2-updates/plan-id": HasAPlanForEachStep,
    "v2-updates/terminal-command": HidesItsCommand,
}

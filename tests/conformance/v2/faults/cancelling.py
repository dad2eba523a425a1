"""Faults in cancelling and holding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.v2.clean import Clean
from tests.conformance.v2.connection import Session


class EndsAsIfItWereDone(Clean):
    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        super().finish(session, **members)


class StopsSlowlyAndSpeaks(Clean):
    def cancel(self, session: Session) -> None:
        stubborn = session.turn == "stubborn"
        super().cancel(session)
        if stubborn:
            self.say(session, "Stopped.")


class SpeaksAfterTheCancel(Clean):
    def cancel(self, session: Session) -> None:
        hangs = session.turn == "hang"
        super().cancel(session)
        if hangs:
            self.say(session, "Stopped.")


class ConfirmsEachCancel(Clean):
    def cancel(self, session: Session) -> None:
        super().cancel(session)
        if not session.turn:
            self.idle(session, stopReason="cancelled")


class AnswersTheCancel(Clean):
    def cancel(self, session: Session) -> None:
        super().cancel(session)
        self.write({"jsonrpc": "2.0", "id": None, "result": {}})


class StaysCancelled(Clean):
    was = False

    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        self.was = self.was or reason == "cancelled"
        super().finish(session, "cancelled" if self.was else reason, **members)


class RemembersTheCancel(Clean):
    heard = False

    def cancel(self, session: Session) -> None:
        self.heard = not session.turn
        super().cancel(session)

    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        super().finish(session, "cancelled" if self.heard else reason, **members)


class CancelsAll(Clean):
    def cancel(self, session: Session) -> None:
        for each in self.sessions.values():
            super().cancel(each)


class HearsNoQuickCancel(Clean):
    """A cancel right behind its prompt is lost."""

    fresh = False

    def request(self, id: Any, method: str, params: Any) -> None:
        self.fresh = method == "session/prompt"
        super().request(id, method, params)

    def cancel(self, session: Session) -> None:
        if not self.fresh:
            super().cancel(session)


class WithdrawsWhatIsInserted(Clean):
    def withdraw(self, id: Any) -> None:
        for session in self.sessions.values():
            self.cancel(session)


class EndsItsCallsLate(Clean):
    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        super().finish(session, reason, **members)
        super().end_call(session, "cancelled")

    def end_call(self, session: Session, status: str, **members: Any) -> None:
        pass


class AcceptsAndGoesOn(Clean):
    def stop_call(self, session: Session) -> None:
        pass


class ShowsItsOutputLate(Clean):
    def stop_call(self, session: Session) -> None:
        call = session.call
        super().stop_call(session)
        content = {"type": "content", "content": {"type": "text", "text": "late"}}
        self.tell(session, "tool_call_content_chunk", toolCallId=call, content=content)


class CancelsTheWorkForACall(Clean):
    def stop_call(self, session: Session) -> None:
        self.cancel(session)


class OffersOn(Clean):
    def end_call(self, session: Session, status: str, **members: Any) -> None:
        super().end_call(session, status)

    def tell(self, session: Session, kind: str, /, **members: Any) -> None:
        if kind == "terminal_update" and "exitStatus" in members:
            members.pop("capabilities")
        super().tell(session, kind, **members)


class CancelsAnything(Clean):
    def serve_tool_call_cancel(self, params: Any) -> Any:
        session = self.known(params)
        if session.call:
            self.stop_call(session)
        return {}

    def serve_terminal_cancel(self, params: Any) -> Any:
        session = self.known(params)
        if session.terminal:
            self.stop_terminal(session)
        return {}


class AcceptsAndRunsOn(Clean):
    def stop_terminal(self, session: Session) -> None:
        pass


class CancelsTheWorkForATerminal(Clean):
    def stop_terminal(self, session: Session) -> None:
        self.cancel(session)


class LeavesItsCommandRunning(Clean):
    def end_terminal(self, session: Session) -> None:
        session.terminal = ""


class ForgetsWhatItHolds(Clean):
    def drop_held(self, session: Session) -> None:
        session.held.clear()


class HoldsForGood(Clean):
    def withdraw(self, id: Any) -> None:
        pass


class DropsHeldPromptsBehindTheClose(Clean):
    def serve_session_close(self, params: Any) -> Any:
        session = self.sessions.get(params["sessionId"])
        self.kept, held = ([*session.held], session.held) if session else ([], [])
        held.clear()
        return super().serve_session_close(params)

    kept: Sequence[Any] = ()

    def reply(self, id: Any, serve: Any, params: Any) -> None:
        super().reply(id, serve, params)
        for each, _ in self.kept:
            self.refuse(each, -32800)
        self.kept = ()


class InsertsNothingThatItHeld(Clean):
    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        held, session.held = session.held, []
        super().finish(session, reason, **members)
        for id, _ in held:
            self.write({"jsonrpc": "2.0", "id": id, "result": {}})


CAUGHT_BY = {
    "v2-cancel/idle-cancelled": EndsAsIfItWereDone,
    "v2-cancel/silent-after": SpeaksAfterTheCancel,
    "v2-cancel/slow-stop": StopsSlowlyAndSpeaks,
    "v2-cancel/once": ConfirmsEachCancel,
    "v2-cancel/not-answered": AnswersTheCancel,
    "v2-cancel/session-lives": StaysCancelled,
    "v2-cancel/idle-session": RemembersTheCancel,
    "v2-cancel/other-session": CancelsAll,
    "v2-cancel/right-behind": HearsNoQuickCancel,
    "v2-cancel/inserted-stays": WithdrawsWhatIsInserted,
    "v2-cancel/tools-first": EndsItsCallsLate,
    "v2-tool-cancel/ends": AcceptsAndGoesOn,
    "v2-tool-cancel/content-first": ShowsItsOutputLate,
    "v2-tool-cancel/work-goes-on": CancelsTheWorkForACall,
    "v2-tool-cancel/offer-ends": OffersOn,
    "v2-tool-cancel/ended": CancelsAnything,
    "v2-tool-cancel/unknown": CancelsAnything,
    "v2-tool-cancel/other-session": CancelsAnything,
    "v2-terminal-cancel/ends": AcceptsAndRunsOn,
    "v2-terminal-cancel/work-goes-on": CancelsTheWorkForATerminal,
    "v2-terminal-cancel/offer-ends": OffersOn,
    "v2-terminal-cancel/ended": CancelsAnything,
    "v2-terminal-cancel/unknown": CancelsAnything,
    "v2-terminal-cancel/session-cancel": LeavesItsCommandRunning,
    "v2-held/cancel": ForgetsWhatItHolds,
    "v2-held/close": DropsHeldPromptsBehindTheClose,
    "v2-held/withdrawn": HoldsForGood,
    "v2-held/inserted": InsertsNothingThatItHeld,
}

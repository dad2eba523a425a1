"""Faults in closing, asking and resuming, and in the options of sessions."""

from __future__ import annotations

from typing import Any

from tests.conformance.v2.clean import OPTIONS, Clean
from tests.conformance.v2.connection import Refusal, Session


class ClosesBeforeItIsIdle(Clean):
    def end_of(self, session: Session) -> None:
        pass


class ClosesAsIfItWereDone(Clean):
    def end_of(self, session: Session) -> None:
        if session.turn:
            self.finish(session)


class ClosesNothing(Clean):
    def serve_session_close(self, params: Any) -> Any:
        if session := self.sessions.get(params["sessionId"]):
            self.end_of(session)
        return {}


class ClosesAll(Clean):
    def end_of(self, session: Session) -> None:
        for each in self.sessions.values():
            self.cancel(each)


class KnowsWhatItCloses(Clean):
    def serve_session_close(self, params: Any) -> Any:
        self.known(params)
        return super().serve_session_close(params)


class DeletesTheRecordAlone(Clean):
    def serve_session_delete(self, params: Any) -> Any:
        self.sessions.pop(params["sessionId"], None)
        return {}


class ListsWhatItDeleted(Clean):
    def serve_session_delete(self, params: Any) -> Any:
        return self.serve_session_close(params)


class AsksWithoutATitle(Clean):
    def ask(self, session: Session, params: Any) -> None:
        params.pop("title")
        super().ask(session, params)


class AsksAsInVersion1(Clean):
    def ask(self, session: Session, params: Any) -> None:
        super().ask(session, {**params, "toolCall": params.pop("subject")["toolCall"], "options": OPTIONS})


class DoesNotSayThatItWaits(Clean):
    def needs_user(self, session: Session) -> None:
        pass


class WaitsForTheAnswer(Clean):
    def cancel(self, session: Session) -> None:
        if session.question is None:
            super().cancel(session)


class LeavesItsQuestion(Clean):
    def withdraw_question(self, session: Session) -> None:
        session.question = None


class GoesOnWithALateAnswer(Clean):
    def withdraw_question(self, session: Session) -> None:
        pass


class TakesAnyAnswerAsLeave(Clean):
    def allows(self, outcome: Any) -> bool:
        return outcome.get("outcome") != "cancelled"


class ResumesWithoutAState(Clean):
    def serve_session_resume(self, params: Any) -> Any:
        self.resuming = True
        result = super().serve_session_resume(params)
        self.resuming = False
        return result

    resuming = False

    def state(self, session: Session, state: str, **members: Any) -> None:
        if not self.resuming:
            super().state(session, state, **members)


class ReplaysUnderOtherIds(Clean):
    def replay(self, session: Session, history: list[dict[str, Any]]) -> None:
        super().replay(session, [{**each, "messageId": self.new_id("m")} for each in history])


class ReplaysTheAgentAlone(Clean):
    def replay(self, session: Session, history: list[dict[str, Any]]) -> None:
        super().replay(session, [each for each in history if each["sessionUpdate"] != "user_message"])


class ReplaysTheLastPromptAlone(Clean):
    def replay(self, session: Session, history: list[dict[str, Any]]) -> None:
        starts = [n for n, each in enumerate(history) if each["sessionUpdate"] == "user_message"]
        super().replay(session, history[starts[-1] :])


class ListsAllFolders(Clean):
    def serve_session_list(self, params: Any) -> Any:
        return super().serve_session_list({})


class SetsForAll(Clean):
    def serve_session_set_config_option(self, params: Any) -> Any:
        result = super().serve_session_set_config_option(params)
        for session in (*self.sessions.values(), *self.closed.values()):
            session.pace = params["value"]
        return result


class RunsBeforeTheAnswer(Clean):
    def begin_call(self, session: Session, **members: Any) -> str:
        return super().begin_call(session, **{**members, "status": "in_progress"})


class TakesARejectionAsLeave(Clean):
    def allows(self, outcome: Any) -> bool:
        return outcome.get("outcome") == "selected" and outcome.get("optionId") in ("yes", "no")


class TakesSilenceAsLeave(Clean):
    def allows(self, outcome: Any) -> bool:
        return super().allows(outcome) or outcome.get("outcome") == "cancelled"


class ReplaysAlways(Clean):
    def serve_session_resume(self, params: Any) -> Any:
        return super().serve_session_resume({"replayFrom": {"type": "start"}, **params})


class ResumesARecord(Clean):
    def serve_session_resume(self, params: Any) -> Any:
        result = super().serve_session_resume(params)
        self.closed[params["sessionId"]] = self.sessions.pop(params["sessionId"])
        return result


class TakesAnyCursor(Clean):
    def serve_session_resume(self, params: Any) -> Any:
        return super().serve_session_resume({**params, "replayFrom": None})


class ResumesWhatNeverWas(Clean):
    def serve_session_resume(self, params: Any) -> Any:
        self.sessions.setdefault(params["sessionId"], Session(params["sessionId"], params["cwd"]))
        return super().serve_session_resume(params)


class TakesRelativeFolders(Clean):
    def serve_session_new(self, params: Any) -> Any:
        return super().serve_session_new({**params, "cwd": "/" + params["cwd"]})


class ListsIdsAlone(Clean):
    def serve_session_list(self, params: Any) -> Any:
        return {"sessions": [{"sessionId": each} for each in self.sessions]}


class SetsNothing(Clean):
    def serve_session_set_config_option(self, params: Any) -> Any:
        return super().serve_session_set_config_option(params) | {
            "configOptions": self.options(Session("", "", pace="fast"))
        }


class SetsAnyValue(Clean):
    def serve_session_set_config_option(self, params: Any) -> Any:
        session = self.known(params)
        if params["configId"] != "pace":
            raise Refusal(-32602)
        return {"configOptions": self.options(session)}


class SetsAnyOption(Clean):
    def serve_session_set_config_option(self, params: Any) -> Any:
        return super().serve_session_set_config_option({**params, "configId": "pace"})


class TakesRelativeDirectories(Clean):
    def folders(self, params: Any) -> list[str]:
        return [params["cwd"]]


class TakesAnyServer(Clean):
    def reaches(self, server: Any) -> bool:
        return True


class OverlapsItsPages(Clean):
    def cursor(self, begin: int) -> str:
        return str(begin - 1)


class TakesAnyPlace(Clean):
    def place(self, cursor: str) -> int:
        return int(cursor) if cursor.isdecimal() else 0


class ReplaysAllSessions(Clean):
    def replay(self, session: Session, history: list[dict[str, Any]]) -> None:
        for other in self.sessions.values():
            super().replay(session, list(other.history))
        super().replay(session, history)


class DeletesOnce(Clean):
    def serve_session_delete(self, params: Any) -> Any:
        if params["sessionId"] not in {**self.sessions, **self.closed}:
            raise self.missing(params["sessionId"])
        return super().serve_session_delete(params)


class _TwoOptions(Clean):
    def options(self, session: Session) -> Any:
        tone = {"type": "boolean", "configId": "tone", "name": "Tone", "currentValue": True}
        return [*super().options(session), tone]


class AnswersWithOneOption(_TwoOptions):
    def serve_session_set_config_option(self, params: Any) -> Any:
        found = super().serve_session_set_config_option(params)["configOptions"]
        return {"configOptions": [each for each in found if each["configId"] == params["configId"]]}


class TakesAnyTypeOfValue(Clean):
    def serve_session_set_config_option(self, params: Any) -> Any:
        return super().serve_session_set_config_option({**params, "type": "id"})


class ResetsWhatItRefuses(Clean):
    def serve_session_set_config_option(self, params: Any) -> Any:
        try:
            return super().serve_session_set_config_option(params)
        except Refusal:
            self.known(params).pace = "slow"
            raise


CAUGHT_BY = {
    "v2-closing/delete-again": DeletesOnce,
    "v2-sessions/relative-directories": TakesRelativeDirectories,
    "v2-sessions/unknown-transport": TakesAnyServer,
    "v2-sessions/pages": OverlapsItsPages,
    "v2-sessions/bad-cursor": TakesAnyPlace,
    "v2-sessions/replay-one-session": ReplaysAllSessions,
    "v2-options/complete": AnswersWithOneOption,
    "v2-options/unknown-type": TakesAnyTypeOfValue,
    "v2-options/unchanged": ResetsWhatItRefuses,
    "v2-closing/close": ClosesBeforeItIsIdle,
    "v2-closing/reason": ClosesAsIfItWereDone,
    "v2-closing/closed-is-gone": ClosesNothing,
    "v2-closing/other-session": ClosesAll,
    "v2-closing/unknown": KnowsWhatItCloses,
    "v2-closing/delete": DeletesTheRecordAlone,
    "v2-closing/deleted-is-gone": ListsWhatItDeleted,
    "v2-permission/title": AsksWithoutATitle,
    "v2-permission/subject": AsksAsInVersion1,
    "v2-permission/requires-action": DoesNotSayThatItWaits,
    "v2-permission/asks-first": RunsBeforeTheAnswer,
    "v2-permission/rejected": TakesARejectionAsLeave,
    "v2-permission/cancelled": TakesSilenceAsLeave,
    "v2-permission/withdrawn": WaitsForTheAnswer,
    "v2-permission/says-so": LeavesItsQuestion,
    "v2-permission/late": GoesOnWithALateAnswer,
    "v2-permission/not-offered": TakesAnyAnswerAsLeave,
    "v2-permission/unknown-outcome": TakesAnyAnswerAsLeave,
    "v2-sessions/resume-state": ResumesWithoutAState,
    "v2-sessions/replay": ReplaysUnderOtherIds,
    "v2-sessions/replay-user": ReplaysTheAgentAlone,
    "v2-sessions/replay-order": ReplaysTheLastPromptAlone,
    "v2-sessions/no-replay": ReplaysAlways,
    "v2-sessions/resumed-lives": ResumesARecord,
    "v2-sessions/unknown-cursor": TakesAnyCursor,
    "v2-sessions/resume-unknown": ResumesWhatNeverWas,
    "v2-sessions/relative-cwd": TakesRelativeFolders,
    "v2-sessions/list": ListsIdsAlone,
    "v2-sessions/list-by-cwd": ListsAllFolders,
    "v2-options/one-session": SetsForAll,
    "v2-options/set": SetsNothing,
    "v2-options/unknown-value": SetsAnyValue,
    "v2-options/unknown": SetsAnyOption,
}

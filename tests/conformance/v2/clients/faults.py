"""Clients of version 2 with one fault each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.v2.clients.clean import CANCELLED, Clean


class HasNoName(Clean):
    info = None


class DoesNotWait(Clean):
    def begin(self) -> None:
        super().begin()
        self.request("session/new", {"cwd": self.cwd})

    def failed(self, method: str, error: Any) -> None:
        """It goes on."""


class TakesAnyVersion(Clean):
    def after_initialize(self, result: Any) -> None:
        super().after_initialize({"protocolVersion": 2})


class StaysWithVersion2(Clean):
    """It speaks version 2 to an agent that answered 1."""

    def after_initialize(self, result: Any) -> None:
        self.version = 2
        self.request("session/new", {"cwd": self.cwd})


class AsksAgainForVersion2(Clean):
    def failed(self, method: str, error: Any) -> None:
        self.initialize(2)


class RelativeFolder(Clean):
    cwd = "."


class WritesTheIdInAscii(Clean):
    def after_session_new(self, result: Any) -> None:
        super().after_session_new({"sessionId": result["sessionId"].encode("ascii", "ignore").decode()})


class InventsACursor(Clean):
    replay = {"type": "end"}  # noqa: RUF012


class TakesTheAnswerForTheEnd(Clean):
    def after_session_prompt(self, result: Any) -> None:
        self.end_turn()


class WaitsForAStopReasonInTheAnswer(Clean):
    def state(self, update: Any) -> None:
        """States do not matter."""


class NeedsAStopReason(Clean):
    def state(self, update: Any) -> None:
        if "stopReason" in update:
            super().state(update)


class KnowsNoError(Clean):
    def state(self, update: Any) -> None:
        if update.get("stopReason") != "error":
            super().state(update)


class ForgetsWhatCameBefore(Clean):
    """The answer to the prompt undoes what the states said."""

    def after_session_prompt(self, result: Any) -> None:
        self.idle = False
        super().after_session_prompt(result)


class UnknownIsIdle(Clean):
    def state(self, update: Any) -> None:
        known = update["state"] in ("running", "requires_action")
        super().state(update if known else {**update, "state": "idle"})


class CountsStates(Clean):
    """The second time that it is told the session is running, it takes the first run as over."""

    runs = 0

    def state(self, update: Any) -> None:
        self.runs += update["state"] == "running"
        super().state(update if self.runs < 2 else {**update, "state": "idle"})


class AnswersUpdates(Clean):
    def updated(self, update: Any) -> None:
        super().updated(update)
        if update["sessionUpdate"] == "plan_update":
            self.send(id=None, error={"code": -32602, "message": "Invalid params"})


class _Dies(Clean):
    def survives(self, update: Any) -> bool:
        raise NotImplementedError

    def updated(self, update: Any) -> None:
        if self.survives(update):
            super().updated(update)
        else:
            self.lines.leave()


class DiesOfNull(_Dies):
    def survives(self, update: Any) -> bool:
        return update.get("status", "") is not None


class DiesOfUnknownKinds(_Dies):
    def survives(self, update: Any) -> bool:
        return "mood" not in update["sessionUpdate"]


class NeedsATitleFirst(_Dies):
    def survives(self, update: Any) -> bool:
        return update["sessionUpdate"] != "tool_call_update" or "title" in update


class CancelsByARequest(Clean):
    def cancel(self) -> None:
        self.request("session/cancel", {"sessionId": self.session})


class HangsWhenCancelled(Clean):
    """It reads nothing more once the agent has confirmed the cancel."""

    deaf = False

    def state(self, update: Any) -> None:
        self.deaf = update.get("stopReason") == "cancelled"

    def receive(self, message: Any) -> None:
        if not self.deaf:
            super().receive(message)


class ChoosesAtACancel(Clean):
    def dismiss(self, id: Any) -> None:
        self.decide(id, self.questions[id]["options"], 1)


class CancelsBehindTheAnswerOnly(Clean):
    def interrupted(self) -> None:
        if self.answered:
            super().interrupted()


class InventsAnOption(Clean):
    def decide(self, id: Any, options: Any, number: int) -> None:
        super().decide(id, [{"optionId": "of my own"}], 1)


class AlwaysAllows(Clean):
    def decide(self, id: Any, options: Any, number: int) -> None:
        super().decide(id, options, 1)


class UnknownIsInternal(Clean):
    def unknown(self, id: Any, method: str) -> None:
        self.send(id=id, error={"code": -32603, "message": "Internal error"})


class AnswersWithdrawnTwice(Clean):
    def dismiss(self, id: Any) -> None:
        super().dismiss(id)
        self.send(id=id, result=CANCELLED)


class ServesFiles(Clean):
    def unknown(self, id: Any, method: str) -> None:
        if method == "fs/read_text_file":
            self.send(id=id, result={"content": "here\n"})
        else:
            super().unknown(id, method)


class ServesBatches(Clean):
    def array(self, messages: list[Any]) -> None:
        for message in messages:
            self.receive(message)


class AcceptsWhatIsWithdrawn(Clean):
    def dismiss(self, id: Any) -> None:
        del self.questions[id]
        self.send(id=id, result={"action": "accept", "content": {}})


class SendsBatches(Clean):
    def cancel(self) -> None:
        message = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}}
        self.lines.write([message])


class SaysNoVersion(Clean):
    def send(self, **message: Any) -> None:
        self.lines.write(message)


class AsksUnderOneId(Clean):
    def prompt(self) -> None:
        super().prompt()
        self.send(id=self.ids, method="_mine/status", params={})

    def failed(self, method: str, error: Any) -> None:
        """It goes on."""


class SpellsItsErrors(Clean):
    def unknown(self, id: Any, method: str) -> None:
        self.send(id=id, error={"code": "-32601", "message": "Method not found"})


class AnswersWhatNobodyAsked(Clean):
    def cancel(self) -> None:
        self.send(id="never asked", result={})
        super().cancel()


class PromptsWithText(Clean):
    """A wrong type in params."""

    def request(self, method: str, params: Any) -> None:
        super().request(method, {**params, "prompt": "hello"} if method == "session/prompt" else params)


class ForgetsTheFolder(Clean):
    """A required member is missing."""

    def request(self, method: str, params: Any) -> None:
        super().request(method, {} if method == "session/new" else params)


class PromptsAsInVersion1(Clean):
    """A known tag with the content of another one."""

    def prompt(self) -> None:
        self.in_turn, self.turns = True, self.turns + 1
        block = {"type": "resource_link", "text": "hello"}
        self.request("session/prompt", {"sessionId": self.session, "prompt": [block]})


class AddsAMember(Clean):
    def request(self, method: str, params: Any) -> None:
        super().request(method, {**params, "trace": 1} if method == "session/prompt" else params)


class NamesItsOwnBlock(Clean):
    def request(self, method: str, params: Any) -> None:
        if method == "session/prompt":
            params = {**params, "prompt": [*params["prompt"], {"type": "mention", "name": "a"}]}
        super().request(method, params)


class AnswersAFlatOutcome(Clean):
    """A result of the wrong shape."""

    def dismiss(self, id: Any) -> None:
        del self.questions[id]
        self.send(id=id, result={"outcome": "cancelled"})


class SetsAMode(Clean):
    """A method that version 2 does not have."""

    def prompt(self) -> None:
        self.request("session/set_mode", {"sessionId": self.session, "modeId": "ask"})
        super().prompt()

    def failed(self, method: str, error: Any) -> None:
        """It goes on."""


class ShowsAPicture(Clean):
    """Content that the agent has not announced."""

    def request(self, method: str, params: Any) -> None:
        if method == "session/prompt":
            picture = {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}
            params = {**params, "prompt": [*params["prompt"], picture]}
        super().request(method, params)


CAUGHT_BY: Mapping[str, type[Clean]] = {
    "v2-negotiation/names-itself": HasNoName,
    "v2-negotiation/awaits-the-answer": DoesNotWait,
    "v2-negotiation/unsupported-version": TakesAnyVersion,
    "v2-negotiation/version-1": StaysWithVersion2,
    "v2-negotiation/refused": AsksAgainForVersion2,
    "v2-sessions/absolute-cwd": RelativeFolder,
    "v2-sessions/session-id": WritesTheIdInAscii,
    "v2-sessions/replay": InventsACursor,
    "v2-prompts/answer-is-not-the-end": TakesTheAnswerForTheEnd,
    "v2-prompts/idle-ends": WaitsForAStopReasonInTheAnswer,
    "v2-prompts/idle-without-reason": NeedsAStopReason,
    "v2-prompts/error": KnowsNoError,
    "v2-prompts/overtaken": ForgetsWhatCameBefore,
    "v2-prompts/unknown-state": UnknownIsIdle,
    "v2-prompts/repeated-state": CountsStates,
    "v2-updates/known-kinds": AnswersUpdates,
    "v2-updates/null-clears": DiesOfNull,
    "v2-updates/unknown-kinds": DiesOfUnknownKinds,
    "v2-updates/first-sight": NeedsATitleFirst,
    "v2-cancel/is-a-notification": CancelsByARequest,
    "v2-cancel/confirmed": HangsWhenCancelled,
    "v2-cancel/permission": ChoosesAtACancel,
    "v2-cancel/before-the-answer": CancelsBehindTheAnswerOnly,
    "v2-requests/offered-option": InventsAnOption,
    "v2-requests/rejection-rejects": AlwaysAllows,
    "v2-requests/unknown-method": UnknownIsInternal,
    "v2-requests/withdrawn": AnswersWithdrawnTwice,
    "v2-requests/gone": ServesFiles,
    "v2-requests/batch": ServesBatches,
    "v2-requests/elicitation": AcceptsWhatIsWithdrawn,
    "v2-envelope/objects": SendsBatches,
    "v2-envelope/kind": SaysNoVersion,
    "v2-envelope/own-ids": AsksUnderOneId,
    "v2-envelope/error": SpellsItsErrors,
    "v2-envelope/answers": AnswersWhatNobodyAsked,
    "v2-schema/params": PromptsWithText,
    "v2-schema/results": AnswersAFlatOutcome,
    "v2-schema/custom-members": AddsAMember,
    "v2-schema/custom-names": NamesItsOwnBlock,
    "v2-gating/methods": SetsAMode,
    "v2-gating/announced": ShowsAPicture,
}
"""From the case to the client that it has to catch."""

ALSO_CAUGHT: Mapping[str, tuple[type[Clean], ...]] = {"v2-schema/params": (ForgetsTheFolder, PromptsAsInVersion1)}
"""More of them, by the case that accuses them."""

"""Faults in agreeing on a version, and in what a connection refuses."""

from __future__ import annotations

from typing import Any

from tests.conformance.v2.clean import Clean
from tests.conformance.v2.connection import INFO, Refusal


class AnswersThree(Clean):
    def hello(self) -> Any:
        return {**super().hello(), "protocolVersion": 3}


class HasNoVersion(Clean):
    def hello(self) -> Any:
        return {**super().hello(), "info": {"name": "clean"}}


class SaysTheNumberBack(Clean):
    def initialize(self, params: Any) -> Any:
        return {**super().initialize(params), "protocolVersion": params["protocolVersion"]}


class WantsItsOwnFormOfLaterVersions(Clean):
    def initialize(self, params: Any) -> Any:
        if not isinstance(params["info"], dict):
            raise Refusal(-32602)
        return super().initialize(params)


class NeedsNoInfo(Clean):
    def initialize(self, params: Any) -> Any:
        return super().initialize({"info": INFO, **params})


class DoesNotSayWhatIsSupported(Clean):
    def unsupported(self, asked: Any) -> Refusal:
        return Refusal(-32022)


class GivesUpAtTheFirstRefusal(Clean):
    refused = False

    def initialize(self, params: Any) -> Any:
        if self.refused:
            raise Refusal(-32600)
        self.refused = params["protocolVersion"] < 1
        return super().initialize(params)


class AnswersTwoToOne(Clean):
    def initialize(self, params: Any) -> Any:
        return super().initialize({**params, "info": INFO, "protocolVersion": 2})


class ServesAtOnce(Clean):
    def early(self, id: Any, method: str) -> None:
        self.write({"jsonrpc": "2.0", "id": id, "result": {"sessionId": "early"}})


class AnswersEarlyNotifications(Clean):
    def notified(self, method: str, params: Any) -> None:
        if not self.version:
            self.refuse(None, -32600)
        super().notified(method, params)


class ChangesItsVersion(Clean):
    def initialize(self, params: Any) -> Any:
        self.settled = False
        return super().initialize(params)


class IgnoresArrays(Clean):
    def receive(self, message: Any) -> None:
        if message != []:
            super().receive(message)


class ServesArrays(Clean):
    def receive(self, message: Any) -> None:
        for each in message if isinstance(message, list) and message else [message]:
            super().receive(each)


class TakesTheIdNull(Clean):
    def receive(self, message: Any) -> None:
        if isinstance(message, dict) and "method" in message and message.get("id", 0) is None:
            self.write({"jsonrpc": "2.0", "id": None, "result": {"sessions": []}})
        else:
            super().receive(message)


class TakesFractions(Clean):
    def receive(self, message: Any) -> None:
        if isinstance(message, dict) and isinstance(message.get("id"), float):
            self.write({"jsonrpc": "2.0", "id": message["id"], "result": {"sessions": []}})
        else:
            super().receive(message)


class HasModes(Clean):
    def serve_session_set_mode(self, params: Any) -> Any:
        return {}


class FindsEveryMethod(Clean):
    def refuse(self, id: Any, code: int, data: Any = None) -> None:
        if code == -32601:
            self.write({"jsonrpc": "2.0", "id": id, "result": {}})
        else:
            super().refuse(id, code, data)


class AnswersNotifications(Clean):
    def notified(self, method: str, params: Any) -> None:
        if method.startswith("_"):
            self.refuse(None, -32601)
        super().notified(method, params)


class ReadsIdsAsNumbers(Clean):
    def request(self, id: Any, method: str, params: Any) -> None:
        super().request(int(id) if isinstance(id, str) and id.isdigit() else id, method, params)


class SilentAtNoJson(Clean):
    def unreadable(self) -> None:
        pass


class TakesNoLogin(Clean):
    def request(self, id: Any, method: str, params: Any) -> None:
        if method == "auth/login":
            self.refuse(id, -32601)
        else:
            super().request(id, method, params)


class LogsInAnyhow(Clean):
    def serve_auth_login(self, params: Any) -> Any:
        return {}


class AnswersUnderTextIds(Clean):
    """Every id becomes text on its way."""

    def receive(self, message: Any) -> None:
        super().receive({**message, "id": str(message["id"])} if "id" in message else message)


class GreetsOnce(Clean):
    def initialize(self, params: Any) -> Any:
        if self.version:
            raise Refusal(-32600)
        return super().initialize(params)


CAUGHT_BY = {
    "v2-negotiation/repeated": GreetsOnce,
    "v2-negotiation/answers": AnswersThree,
    "v2-negotiation/says-who": HasNoVersion,
    "v2-negotiation/highest": SaysTheNumberBack,
    "v2-negotiation/lenient-above": WantsItsOwnFormOfLaterVersions,
    "v2-negotiation/strict": NeedsNoInfo,
    "v2-negotiation/none-in-common": DoesNotSayWhatIsSupported,
    "v2-negotiation/another-try": GivesUpAtTheFirstRefusal,
    "v2-negotiation/no-higher": AnswersTwoToOne,
    "v2-negotiation/nothing-before": ServesAtOnce,
    "v2-negotiation/notifications-before": AnswersEarlyNotifications,
    "v2-negotiation/not-again": ChangesItsVersion,
    "v2-negotiation/batches": IgnoresArrays,
    "v2-negotiation/filled-batches": ServesArrays,
    "v2-negotiation/null-id": TakesTheIdNull,
    "v2-negotiation/fraction-id": TakesFractions,
    "v2-negotiation/gone-methods": HasModes,
    "v2-negotiation/unknown-method": FindsEveryMethod,
    "v2-negotiation/unknown-notification": AnswersNotifications,
    "v2-negotiation/text-id": ReadsIdsAsNumbers,
    "v2-negotiation/not-json": SilentAtNoJson,
    "v2-auth/login": TakesNoLogin,
    "v2-auth/unknown-way": LogsInAnyhow,
}

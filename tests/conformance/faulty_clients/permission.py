"""Faults of permission requests and of cancelling a turn."""

import asyncio
from typing import Any

from clean import Client

CANCELLED = {"outcome": {"outcome": "cancelled"}}


class InventsAnOption(Client):
    """Answers with the kind of an option instead of its id."""

    async def permission(self, params: Any) -> Any:
        option = await self.choose(params["options"])
        return {"outcome": {"outcome": "selected", "optionId": option["kind"]}}


class TakesTheFirst(Client):
    """Takes the first option for a yes, whatever it is."""

    async def choose(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        await super().choose(options)
        return options[0]


class NeverRejects(Client):
    """Takes whatever its user says for a yes."""

    async def choose(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        await super().choose(options)
        return next(option for option in options if option["kind"].startswith("allow"))


class MixesThemUp(Client):
    """Remembers only the options of the last request."""

    async def choose(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        self.options = options
        await super().choose(options)
        return self.options[1]


class LeavesThemOpen(Client):
    """Forgets its permission requests when the turn is cancelled."""

    def dismiss(self) -> None:
        pass


class AllowsAtTheEnd(Client):
    """Allows what is open when the turn is cancelled."""

    def cut(self, message: dict[str, Any]) -> None:
        chosen = {"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]}
        self.answer(message["id"], result={"outcome": chosen})


class AnswersWithAnError(Client):
    """Answers what is open when the turn is cancelled with an error."""

    def cut(self, message: dict[str, Any]) -> None:
        self.answer(message["id"], error={"code": -32800, "message": "Request cancelled"})


class CancelsOnlyOne(Client):
    """Knows of one permission request at a time."""

    def dismiss(self) -> None:
        for task in list(self.permissions)[:1]:
            task.cancel()


class AnswersTwice(Client):
    """Answers a permission request at the cancel, and again when it is withdrawn."""

    def notified(self, message: dict[str, Any]) -> None:
        if message["method"] == "$/cancel_request" and self.cancelling:
            self.answer(message["params"]["requestId"], error={"code": -32800, "message": "Request cancelled"})
        super().notified(message)


class LeavesTheDialogOpen(Client):
    """Answers at the cancel, and again when its user answers the question."""

    def cut(self, message: dict[str, Any]) -> None:
        super().cut(message)
        self.open = asyncio.create_task(self.decide(message))

    async def decide(self, message: dict[str, Any]) -> None:
        option = await self.choose(message["params"]["options"])
        self.answer(message["id"], result={"outcome": {"outcome": "selected", "optionId": option["optionId"]}})


class AsksTooLate(Client):
    """Asks its user what belongs to a turn that was cancelled."""

    async def permission(self, params: Any) -> Any:
        option = await self.choose(params["options"])
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


class CancelIsARequest(Client):
    """Wants an answer to session/cancel."""

    def notify(self, method: str, params: Any) -> None:
        self.write({"jsonrpc": "2.0", "id": 99, "method": method, "params": params})


class CancelsNoSession(Client):
    """Leaves the session out."""

    def notify(self, method: str, params: Any) -> None:
        super().notify(method, {})


class AnotherName(Client):
    """Withdraws its prompt as in the Language Server Protocol."""

    def interrupted(self) -> None:
        self.notify("$/cancelRequest", {"id": self.ids})
        super().interrupted()


class HangsUpAfterCancel(Client):
    """Breaks off when an update comes after a cancel."""

    def updated(self, params: Any) -> None:
        if self.cancelling:
            raise RuntimeError("the turn was cancelled")


class HangsAfterTheAnswer(Client):
    """Waits for ever once a turn was cancelled."""

    async def prompt(self) -> None:
        await super().prompt()

    def message(self, message: dict[str, Any]) -> None:
        if not (self.cancelling and "method" not in message):
            return super().message(message)
        self.line = self.deaf
        return None

    def deaf(self, line: bytes) -> None:
        """Hear nothing."""


class WithdrawalIsAnError(Client):
    """Answers a withdrawn request with another error."""

    def cut(self, message: dict[str, Any]) -> None:
        if self.cancelling:
            self.answer(message["id"], result=CANCELLED)
        else:
            self.answer(message["id"], error={"code": -32603, "message": "Internal error"})


class WithdrawalIsAnErrorForPermissions(WithdrawalIsAnError):
    """The same; only to have a second case that catches it."""


class AnswersWithdrawnTwice(Client):
    """Answers a withdrawn request at once, and again when it is done."""

    def withdrawn(self, task: asyncio.Task[None]) -> None:
        id = next(key[1] for key, value in self.serving.items() if value is task)
        self.answer(id, error={"code": -32800, "message": "Request cancelled"})


class AnswersUnknownWithdrawals(Client):
    """Confirms the withdrawal of what it does not know."""

    def notified(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "$/cancel_request" and (int, params.get("requestId")) not in self.serving:
            self.answer(params.get("requestId"), error={"code": -32800, "message": "Request cancelled"})
        super().notified(message)


class AnswersLateWithdrawals(AnswersUnknownWithdrawals):
    """The same; it shows for what has been answered as well."""


class AnswersBadWithdrawals(Client):
    """Complains about withdrawals that it cannot read."""

    def notified(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "$/cancel_request" and not (isinstance(params, dict) and "requestId" in params):
            self.answer(None, error={"code": -32602, "message": "Invalid params"})
        super().notified(message)


class WithdrawsByText(Client):
    """Compares ids as text."""

    def notified(self, message: dict[str, Any]) -> None:
        if message["method"] == "$/cancel_request":
            id = message["params"].get("requestId")
            message["params"]["requestId"] = int(id) if isinstance(id, str) and id.isdecimal() else id
        super().notified(message)


class WithdrawsNumbersAsText(Client):
    """Takes the number in a withdrawal for the text of an id."""

    def notified(self, message: dict[str, Any]) -> None:
        if message["method"] == "$/cancel_request":
            id = message["params"].get("requestId")
            if isinstance(id, int) and (int, id) not in self.serving:
                message["params"]["requestId"] = str(id)
        super().notified(message)

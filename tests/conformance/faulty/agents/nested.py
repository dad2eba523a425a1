"""Faults in the requests that the agent makes of its client."""

from __future__ import annotations

import sys
from collections.abc import Callable

from clean import Clean
from rpc import Call, Cancelled, Json, RpcError
from situations import Session


class NotWithdrawn(Clean):
    """Leaves its request standing when its turn is cancelled."""

    def withdraw(self, call: Call) -> None:
        call.abandoned = True


class WithdrawnTwice(Clean):
    """Withdraws its request twice."""

    def withdraw(self, call: Call) -> None:
        super().withdraw(call)
        super().withdraw(call)


class WithdrawnAsText(Clean):
    """Withdraws its request 1 as "1"."""

    def withdraw(self, call: Call) -> None:
        call.abandoned = True
        self.notify("$/cancel_request", {"requestId": str(call.id)})


class WithdrawsThePrompt(Clean):
    """Withdraws the client's request in the place of its own."""

    def withdraw(self, call: Call) -> None:
        call.abandoned = True
        request = next(request for request in self.running.values() if request.pause is call)
        self.notify("$/cancel_request", {"requestId": request.id})


class OtherSpelling(Clean):
    """Withdraws its request as language servers do."""

    def withdraw(self, call: Call) -> None:
        call.abandoned = True
        self.notify("$/cancelRequest", {"id": call.id})


class WithdrawnAsRequest(Clean):
    """Withdraws its request with a request."""

    def withdraw(self, call: Call) -> None:
        call.abandoned = True
        self.ask("$/cancel_request", {"requestId": call.id})


class WithdrawsTheAnswered(Clean):
    """Withdraws a request that the client has answered."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        super().answered(call, result, error)
        self.notify("$/cancel_request", {"requestId": call.id})


class LateAnswerEnds(Clean):
    """Ends when the client answers a request that was withdrawn."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if call.abandoned:
            sys.exit(1)
        super().answered(call, result, error)


class LateAnswerAnswered(Clean):
    """Answers the client's answer to a request that was withdrawn."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if call.abandoned:
            self.refuse(call.id, -32600, "Too late", None)
        super().answered(call, result, error)


class ErrorUnheard(Clean):
    """Waits for ever when the client answers with an error."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if error is None:
            super().answered(call, result, error)


class ErrorEnds(Clean):
    """Ends when the client answers with an error."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if error:
            sys.exit(1)
        super().answered(call, result, error)


class TheirCancelIsMine(Clean):
    """Takes the client's -32800 for the end of its own turn."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        cut = error is not None and error.code == -32800
        request = next((request for request in self.running.values() if request.pause is call), None)
        if cut and request:
            self.step(request, error=Cancelled())
        else:
            super().answered(call, result, error)


class NullIsNothing(Clean):
    """Waits on when the result of its request is null."""

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        if result is not None or error is not None:
            super().answered(call, result, error)


class AnswersOfOthers(Clean):
    """Takes the answers of its client in the order of its requests."""

    def take_response(self, value: dict[str, Json]) -> None:
        if self.calls:
            super().take_response({**value, "id": next(iter(self.calls))})


class AsksWithoutEnd(Clean):
    """Asks once more after its turn was cancelled."""

    async def do_nested(self, session: Session) -> None:
        try:
            await super().do_nested(session)
        except Cancelled:
            await self.do_read(session)


class NoSession(Clean):
    """Does not say for which session it asks."""

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        params = {name: value for name, value in params.items() if name != "sessionId"}
        return super().ask(method, params, late)

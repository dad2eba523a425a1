"""Faults in what `$/cancel_request` does."""

from __future__ import annotations

import sys

from clean import Clean
from rpc import Json, Request, RpcError, key, valid_id


class Unanswered(Clean):
    """Never answers a request that was cancelled by its id."""

    by_id: Request | None = None

    def cancel_asked(self, params: Json) -> None:
        self.by_id = self.named(params)
        super().cancel_asked(params)

    def answer(self, request: Request, message: Json) -> None:
        if request is self.by_id:
            self.running.pop(self.key(request.id))
        else:
            super().answer(request, message)


class TwoAnswers(Clean):
    """Answers a cancelled request with the error, and with its result when the work has ended."""

    def cancel_asked(self, params: Json) -> None:
        request = self.named(params)
        if request:
            error = {"code": -32800, "message": "Request cancelled"}
            self.write({"jsonrpc": "2.0", "id": request.id, "error": error})
        super().cancel_asked(params)


class AnswersTheNotification(Clean):
    """Answers `$/cancel_request` as if it were a request."""

    def cancel_asked(self, params: Json) -> None:
        self.write({"jsonrpc": "2.0", "id": None, "result": None})
        super().cancel_asked(params)


class MethodNotFound(Clean):
    """Answers `$/cancel_request` with "Method not found"."""

    def cancel_asked(self, params: Json) -> None:
        self.refuse(None, -32601, "Method not found", None)


class UnknownIdAnswered(Clean):
    """Answers an error to a cancel for a request that it does not know."""

    def cancel_asked(self, params: Json) -> None:
        id = params["requestId"]
        if self.named(params):
            super().cancel_asked(params)
        elif valid_id(id):
            self.refuse(id, -32600, "There is no such request", None)


class UnknownIdEnds(Clean):
    """Ends at a cancel for a request that it does not know."""

    def cancel_asked(self, params: Json) -> None:
        if valid_id(params["requestId"]) and not self.named(params):
            sys.exit(1)
        super().cancel_asked(params)


class UnknownIdKept(Clean):
    """Keeps a cancel for an id until a request of that id comes."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Json] = []

    def cancel_asked(self, params: Json) -> None:
        if not self.named(params):
            self.kept.append(params["requestId"])
        super().cancel_asked(params)

    def take_request(self, request: Request) -> None:
        super().take_request(request)
        if request.id in self.kept and not request.cancelled:
            self.cancel(request)


class BadParamsEnd(Clean):
    """Ends at a cancel that does not say of what."""

    def cancel_asked(self, params: Json) -> None:
        if not isinstance(params, dict) or "requestId" not in params:
            sys.exit(1)
        super().cancel_asked(params)


class BadParamsAnswered(Clean):
    """Answers an error to a cancel that does not say of what."""

    def cancel_asked(self, params: Json) -> None:
        if not isinstance(params, dict) or "requestId" not in params:
            self.refuse(None, -32602, "requestId is missing", None)
        else:
            super().cancel_asked(params)


class OwnCode(Clean):
    """Answers a cancelled request with an error code of its own."""

    def fail(self, request: Request, error: RpcError) -> None:
        super().fail(request, RpcError(-32000, "Aborted") if request.cancelled else error)

    def cancelled(self, request: Request) -> str:
        raise RpcError(-32000, "Aborted")


class Everything(Clean):
    """Cancels everything that runs."""

    def cancel_asked(self, params: Json) -> None:
        for request in list(self.running.values()):
            self.cancel(request)


class TypesFolded(Clean):
    """Takes the cancel of "7" for the cancel of 7."""

    def cancel_asked(self, params: Json) -> None:
        id = params["requestId"]
        super().cancel_asked({"requestId": int(id)} if isinstance(id, str) and id.isdigit() else params)


class OneTable(Clean):
    """Looks for the id among its own requests first."""

    def cancel_asked(self, params: Json) -> None:
        id = params["requestId"]
        if not isinstance(id, int) or id not in self.calls:
            super().cancel_asked(params)


class AnswersAgain(Clean):
    """Answers a cancel that comes after the answer with one more answer."""

    def __init__(self) -> None:
        super().__init__()
        self.done: set[tuple[str, Json]] = set()

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, message)
        self.done.add(key(request.id))

    def cancel_asked(self, params: Json) -> None:
        id = params["requestId"]
        if valid_id(id) and key(id) in self.done:
            error = {"code": -32800, "message": "Request cancelled"}
            self.write({"jsonrpc": "2.0", "id": id, "error": error})
        super().cancel_asked(params)


class TurnRunsOn(Clean):
    """Answers a cancelled prompt and lets its turn run on."""

    def cancel_asked(self, params: Json) -> None:
        request = self.named(params)
        if request:
            self.running.pop(self.key(request.id))
            self.write({"jsonrpc": "2.0", "id": request.id, "result": {"stopReason": "cancelled"}})


class MetaNotUnderstood(Clean):
    """Ignores a cancel that has `_meta`."""

    def cancel_asked(self, params: Json) -> None:
        if "_meta" not in params:
            super().cancel_asked(params)

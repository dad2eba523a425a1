"""One JSON-RPC connection over stdio, driven by hand: all that follows from a line happens before the next is read.

There is no thread and no event loop, so what an agent does depends on its input alone and every run is the same.
A request is a coroutine that stops where it awaits an answer of the client. Knows nothing of ACP.
"""

from __future__ import annotations

import json
import os
import sys

# The module `typing` would be a quarter of what the start of an agent takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from typing import Any as Json
    from typing import NoReturn
else:
    Json = object

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800


class RpcError(Exception):
    """An error to answer a request with, or the one that the client answered."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Cancelled(Exception):
    """Thrown into a request that is not wanted any more."""


class Pause:
    """Awaited, it stops a request until somebody steps it."""

    def __await__(self) -> Generator[Pause, Json, Json]:
        return (yield self)


class Call(Pause):
    """A request of ours. `late` gets the result that comes after we stopped waiting."""

    def __init__(self, id: int, late: Callable[[Json], None] | None) -> None:
        self.id = id
        self.late = late
        self.abandoned = False


class Batch:
    """The answers of one incoming array; they leave together."""

    def __init__(self) -> None:
        self.owed = 0
        self.answers: list[Json] = []


class Request:
    """An incoming request that is owed an answer."""

    def __init__(self, id: Json, method: str, params: Json, batch: Batch | None) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.batch = batch
        self.work: Coroutine[Pause, Json, Json] | None = None
        self.pause: Pause | None = None
        self.cancelled = False


def key(id: Json) -> tuple[str, Json]:
    """What tells two ids apart: 7 is not "7"."""
    return type(id).__name__, id


def valid_id(id: Json) -> bool:
    return id is None or isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))


class Peer:
    """The connection. Subclasses give `handler` and `notification`; every step can be overridden."""

    def __init__(self) -> None:
        self.running: dict[tuple[str, Json], Request] = {}
        self.calls: dict[int, Call] = {}
        self.last_id = 0

    def handler(self, request: Request) -> Coroutine[Pause, Json, Json] | None:
        raise NotImplementedError

    def notification(self, method: str, params: Json) -> None:
        raise NotImplementedError

    # Coming in

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            self.receive(line)
        self.ended()

    def ended(self) -> None:
        """The client has closed our input: what still runs is cut, and answered."""
        for request in list(self.running.values()):
            self.cancel(request)

    def receive(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            value = self.decode(line)
        except (ValueError, RecursionError):
            self.unreadable(line)
        else:
            self.read(value)

    def decode(self, line: bytes) -> Json:
        return json.loads(line.decode("utf-8"), parse_constant=self.no_constant)

    def no_constant(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    def unreadable(self, line: bytes) -> None:
        self.refuse(None, PARSE_ERROR, "Parse error", None)

    def read(self, value: Json) -> None:
        if not isinstance(value, list):
            self.take(value, None)
        elif not value:
            self.refuse(None, INVALID_REQUEST, "Invalid Request", None)
        else:
            self.take_batch(value)

    def take_batch(self, values: list[Json]) -> None:
        batch = Batch()
        batch.owed = 1
        for value in values:
            self.take(value, batch)
        self.settle(batch)

    def take(self, value: Json, batch: Batch | None) -> None:
        if not isinstance(value, dict):
            self.refuse(None, INVALID_REQUEST, "Invalid Request", batch)
        elif "method" not in value and value.keys() & {"id", "result", "error"}:
            self.take_response(value)
        elif not self.is_message(value):
            id = value.get("id")
            self.refuse(id if valid_id(id) else None, INVALID_REQUEST, "Invalid Request", batch)
        elif "id" in value:
            self.take_request(Request(value["id"], value["method"], value.get("params", {}), batch))
        else:
            self.take_notification(value["method"], value.get("params", {}))

    def is_message(self, value: dict[str, Json]) -> bool:
        return (
            value.get("jsonrpc") == "2.0"
            and isinstance(value.get("method"), str)
            and isinstance(value.get("params", {}), dict | list)
            and valid_id(value.get("id"))
        )

    def take_request(self, request: Request) -> None:
        if self.key(request.id) in self.running:
            self.refuse(None, INVALID_REQUEST, "This id is in use", request.batch)
            return
        self.running[self.key(request.id)] = request
        if request.batch:
            request.batch.owed += 1
        request.work = self.handler(request)
        if request.work is None:
            self.fail(request, RpcError(METHOD_NOT_FOUND, "Method not found"))
        else:
            self.step(request)

    def take_notification(self, method: str, params: Json) -> None:
        try:
            if method == "$/cancel_request":
                self.cancel_asked(params)
            else:
                self.notification(method, params)
        except (KeyError, TypeError, RpcError) as error:
            sys.excepthook(type(error), error, error.__traceback__)

    def key(self, id: Json) -> tuple[str, Json]:
        return key(id)

    # Working

    def step(self, request: Request, value: Json = None, error: Exception | None = None) -> None:
        """Let a request run until it waits again or ends."""
        assert request.work
        request.pause = None
        try:
            request.pause = request.work.throw(error) if error else request.work.send(value)
        except StopIteration as end:
            self.succeed(request, end.value)
        except Cancelled:
            self.fail(request, RpcError(REQUEST_CANCELLED, "Request cancelled"))
        except RpcError as wrong:
            self.fail(request, wrong)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            self.fail(request, RpcError(INTERNAL_ERROR, "Internal error"))

    def cancel_asked(self, params: Json) -> None:
        request = self.named(params)
        if request:
            self.cancel(request)

    def named(self, params: Json) -> Request | None:
        """The running request that a `$/cancel_request` names."""
        id = params.get("requestId", ...) if isinstance(params, dict) else ...
        return self.running.get(self.key(id)) if valid_id(id) else None

    def cancel(self, request: Request) -> None:
        """Cut a request once, where it waits, and withdraw what it waits for."""
        if request.cancelled:
            return
        request.cancelled = True
        if isinstance(request.pause, Call):
            self.withdraw(request.pause)
        if request.pause:
            self.step(request, error=Cancelled())

    # Asking

    def ask(self, method: str, params: Json, late: Callable[[Json], None] | None = None) -> Call:
        """Send a request; await what is returned to get the result."""
        call = Call(self.new_id(), late)
        self.calls[call.id] = call
        self.write({"jsonrpc": "2.0", "id": call.id, "method": method, "params": params})
        return call

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def withdraw(self, call: Call) -> None:
        call.abandoned = True
        self.notify("$/cancel_request", {"requestId": call.id})

    def take_response(self, value: dict[str, Json]) -> None:
        id = value.get("id")
        call = self.calls.pop(id, None) if isinstance(id, int) and not isinstance(id, bool) else None
        if call is None:
            return
        error = value.get("error")
        if "result" in value and "error" not in value:
            self.answered(call, value["result"], None)
        elif isinstance(error, dict) and "result" not in value:
            self.answered(call, None, RpcError(error.get("code", INTERNAL_ERROR), error.get("message", ""), error))
        else:
            self.answered(call, None, RpcError(INTERNAL_ERROR, "The client's answer makes no sense"))

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        request = next((r for r in self.running.values() if r.pause is call), None)
        if request:
            self.step(request, result, error)
        elif call.abandoned and call.late and error is None:
            call.late(result)

    # Going out

    def succeed(self, request: Request, result: Json) -> None:
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "result": result})

    def fail(self, request: Request, error: RpcError) -> None:
        body = {"code": error.code, "message": error.message}
        self.answer(request, {"jsonrpc": "2.0", "id": request.id, "error": body})

    def answer(self, request: Request, message: Json) -> None:
        self.running.pop(self.key(request.id), None)
        if request.batch:
            request.batch.answers.append(message)
            self.settle(request.batch)
        else:
            self.write(message)

    def refuse(self, id: Json, code: int, message: str, batch: Batch | None) -> None:
        """An error for what is no request that could be run."""
        answer = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
        if batch:
            batch.answers.append(answer)
        else:
            self.write(answer)

    def settle(self, batch: Batch) -> None:
        batch.owed -= 1
        if not batch.owed and batch.answers:
            self.write(batch.answers)

    def notify(self, method: str, params: Json) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def write(self, message: Json) -> None:
        self.put(self.encode(message))

    def encode(self, message: Json) -> bytes:
        return json.dumps(message, allow_nan=False).encode() + b"\n"

    def put(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(1, data) :]
        except BrokenPipeError:
            sys.exit(0)

"""One side of a JSON-RPC connection as a state machine: bytes in, events and bytes out.

It joins framing, codec, ledger and batches. It performs no I/O and runs no handlers: `acp_server.peer` does. The
`Ledger` has the in-flight requests of this side, by id.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeGuard, cast

from acp_server.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, EncodeError, RpcError
from acp_server.wire import codec
from acp_server.wire.batch import BATCH_BYTES, BATCH_LIMIT, Batches, Slot
from acp_server.wire.framing import DEFAULT_LINE_LIMIT, HEAD, Block, Line, LineFramer, TooLong
from acp_server.wire.messages import (
    Ignored,
    Invalid,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    classify,
    classify_head,
)


class RequestState(StrEnum):
    """The state of an outgoing request. WITHDRAWN: a `$/cancel_request` was sent; LOST: the connection ended."""

    NEW = "new"
    WAITING = "waiting"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    LOST = "lost"


_MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.NEW: frozenset(),
    RequestState.WAITING: frozenset({RequestState.ANSWERED, RequestState.WITHDRAWN, RequestState.LOST}),
    RequestState.WITHDRAWN: frozenset({RequestState.ANSWERED, RequestState.LOST}),
    RequestState.ANSWERED: frozenset(),
    RequestState.LOST: frozenset(),
}


class OutgoingRequest:
    """An outgoing request. `wants_late_answer`: a late response, after the withdrawal, is still of use."""

    __slots__ = ("id", "method", "state", "wants_late_answer")

    def __init__(self, method: str, wants_late_answer: bool = False) -> None:
        self.method: str = method
        self.wants_late_answer: bool = wants_late_answer
        self.id: int = -1
        self.state: RequestState = RequestState.NEW


class Ledger:
    """The in-flight requests of one connection.

    `late_limit`: how many withdrawn requests are remembered for a late response. Beyond it the oldest is forgotten, so
    that a peer that never responds cannot grow the table without bound.
    """

    __slots__ = ("_late_limit", "_outgoing", "_withdrawn", "next_id")

    def __init__(self, late_limit: int = 1000) -> None:
        self._outgoing: dict[int, OutgoingRequest] = {}
        self._withdrawn: dict[int, OutgoingRequest] = {}
        self._late_limit = late_limit
        self.next_id: int = 0
        """The id of the next request. An id is never used twice on a connection."""

    def expect(self, request: OutgoingRequest) -> None:
        """Register a request under `next_id`. Each `request` is sent once."""
        if request.state is not RequestState.NEW:
            raise AssertionError(f"an outgoing request cannot go from {request.state.value} to waiting")
        request.state = RequestState.WAITING
        request.id = self.next_id
        self.next_id += 1
        self._outgoing[request.id] = request

    def answered(self, id: object) -> tuple[OutgoingRequest, bool] | None:
        """Take the request that a response with this id belongs to, and whether the response is late.

        None for an unknown or forgotten id.
        """
        if type(id) is not int:
            return None
        late = False
        request = self._outgoing.get(id)
        if request is None:
            late = True
            request = self._withdrawn.get(id)
            if request is None:
                return None
        self._move(request, RequestState.ANSWERED)
        return request, late

    def withdraw(self, request: OutgoingRequest) -> bool:
        """Stop waiting for a response. False if the response or the end of the connection came first."""
        if request.state is not RequestState.WAITING:
            return False
        self._move(request, RequestState.WITHDRAWN)
        return True

    def lose_all(self) -> list[OutgoingRequest]:
        """The connection ended: the requests that were in flight, in the order of sending."""
        waiting = list(self._outgoing.values())
        for request in [*waiting, *self._withdrawn.values()]:
            self._move(request, RequestState.LOST)
        return waiting

    @property
    def outgoing(self) -> int:
        """The number of in-flight requests."""
        return len(self._outgoing)

    @property
    def withdrawn(self) -> int:
        """The number of withdrawn requests whose late response would still be used."""
        return len(self._withdrawn)

    def _move(self, request: OutgoingRequest, state: RequestState) -> None:
        if state not in _MOVES[request.state]:
            raise AssertionError(f"an outgoing request cannot go from {request.state.value} to {state.value}")
        request.state = state
        self._outgoing.pop(request.id, None)
        self._withdrawn.pop(request.id, None)
        if state is RequestState.WITHDRAWN and request.wants_late_answer:
            self._withdrawn[request.id] = request
            if len(self._withdrawn) > self._late_limit:
                self._withdrawn.pop(next(iter(self._withdrawn)))


CANCEL_METHOD: Final = "$/cancel_request"

_LONGEST_CANCEL: Final = 128 * 1024
"""Bytes of a `$/cancel_request` that may overtake other lines. A cancel with the longest id is shorter."""

MOST_NESTED: Final = 100_000
"""Objects and arrays in one line. Validating them against a schema takes some 3 us each."""

_NO_BATCHES: Final = "Invalid request: batches are not supported"
_NO_NULL: Final = "Invalid request: id must be a 64-bit integer or a string"
_BATCHES_FULL: Final = "Internal error: the answers of unfinished batches take too much memory"
_FULL: Final = {"limit": "batches"}


@dataclass(slots=True, eq=False)
class Answered:
    """The response to an outgoing request. `late`: the request was withdrawn, and no caller waits for it."""

    request: OutgoingRequest
    response: Response
    late: bool


@dataclass(slots=True, eq=False)
class Outgoing:
    """Bytes to write now: the error for an invalid message, or the array of a batch with such errors.

    `reason`: the cause, for the log only, since it may quote the peer's input. `names`: whether the error has an id by
    which the peer knows its message.
    """

    frame: bytes
    reason: Exception | None = None
    names: bool = True


@dataclass(slots=True, eq=False)
class Dropped:
    """A message that was dropped, for the log. `notification`: the notification that it was, if its line had too much
    in it or could not be read."""

    reason: str
    notification: Notification | None = None


Event: TypeAlias = Request | Notification | Answered | Outgoing | Dropped


class Endpoint:
    """The protocol state of one connection (JSON-RPC 2.0, and `$/cancel_request` of ACP).

    `line_limit`: the longest accepted line in bytes. `batch_bytes`: the bound for the responses of all unfinished
    batches. At the bound the requests of a new batch are refused with -32603, which also replaces a response that does
    not fit.
    """

    __slots__ = ("_batches", "_framer", "_line_limit", "blocks", "incoming", "ledger", "strict")

    def __init__(self, line_limit: int = DEFAULT_LINE_LIMIT, batch_bytes: int = BATCH_BYTES) -> None:
        self._framer = LineFramer(line_limit)
        self._batches = Batches(batch_bytes)
        self._line_limit = line_limit
        self.ledger: Ledger = Ledger()
        self.incoming: Final[dict[RequestId, Request]] = {}
        """The in-flight requests of the peer, by id. The ids 7 and "7" differ."""
        self.blocks: Final = self._framer.blocks
        """Splits received bytes into blocks of lines (see `acp_server.wire.framing.lines_in`), for a caller that
        processes one line at a time with `events`."""
        self.strict: bool = False
        """Whether batches and the id null are refused, as in ACP version 2."""

    # -- receiving

    def receive(self, data: bytes) -> Iterator[Event]:
        """The events in `data`. Each request is registered before it is yielded, so that a cancel right behind it finds
        it."""
        for line in self._framer.feed(data):
            yield from self.events(line)

    def receive_eof(self) -> Iterator[Event]:
        """The events in the last line at the end of input, if it has no newline."""
        if line := self._framer.finish():
            yield from self.events(line)

    def cancels_in(self, lines: Iterable[Line]) -> Iterator[Notification]:
        """The notifications with "cancel" among lines that are still queued. Batches and lines over 128 KiB are left
        out."""
        # Thousands of lines may be queued: each is decoded at most once here.
        for line in [line for line in lines if may_cancel(line) and len(line) <= _LONGEST_CANCEL]:
            try:
                message = classify(codec.decode(line))
            except codec.DecodeError:
                continue
            if isinstance(message, Notification):
                yield message

    def events(self, line: Line) -> Iterable[Event]:
        """The events in one line, see `receive`."""
        if isinstance(line, TooLong):
            return (self._event(classify_head(line.head, f"longer than {self._line_limit} bytes")),)
        try:
            value = codec.decode(line)
        except codec.DecodeError as error:
            message = classify_head(line[:HEAD], "not JSON")
            if isinstance(message, Response):
                return (self._response(message),)
            refusal = Outgoing(_plain_error_frame(PARSE_ERROR, "Parse error"), error, names=False)
            lost = message.notification
            return (refusal,) if lost is None else (refusal, Dropped("bytes that are not JSON", lost))
        read = classify
        if len(line) > 2 * MOST_NESTED and codec.nests_more(MOST_NESTED, line, value):
            read = _too_much
        if type(value) is list and value:
            if self.strict:
                return (self._event(Invalid(INVALID_REQUEST, _NO_BATCHES)),)
            return self._batch(cast("list[Any]", value), len(line), read)
        message = read(value)
        # The three common kinds, without a further call.
        if type(message) is Notification or (
            type(message) is Request
            and message.id is not None
            and self.incoming.setdefault(message.id, message) is message
        ):
            message.size = len(line)
            return (message,)
        if type(message) is Response:
            return (self._response(message),)
        return (self._event(message, len(line)),)

    def _batch(self, values: list[Any], size: int, read: Callable[[Any], Message]) -> Iterator[Event]:
        if len(values) > BATCH_LIMIT:
            message = f"Invalid request: more than {BATCH_LIMIT} messages in one batch"
            yield self._event(Invalid(INVALID_REQUEST, message))
            return
        full = self._batches.full
        batch = self._batches.begin()
        for value in values:
            message = read(value)
            if full and isinstance(message, Request):
                message = Invalid(INTERNAL_ERROR, _BATCHES_FULL, message.id, _FULL)
            event = self._event(message, size // len(values))
            if isinstance(event, Outgoing):
                batch.add(event.frame)
                continue
            if isinstance(event, Request):
                event.slot = batch.open()
            yield event
        if array := batch.seal():
            yield Outgoing(array)

    def _event(self, message: Message, size: int = 0) -> Event:
        if isinstance(message, Request):
            if self.strict and message.id is None:
                return self._event(Invalid(INVALID_REQUEST, _NO_NULL))
            if self.incoming.setdefault(message.id, message) is message:
                message.size = size
                return message
            message = Invalid(
                INVALID_REQUEST,
                "Invalid request: a request with this id is still unanswered",
                data={"duplicateId": message.id},
            )
        if isinstance(message, Notification):
            message.size = size
            return message
        if isinstance(message, Response):
            return self._response(message)
        if isinstance(message, Ignored):
            return Dropped(message.reason, message.notification)
        if message.id is None and message.data is None:
            return Outgoing(_plain_error_frame(message.code, message.message), names=False)
        error: dict[str, Any] = {"code": message.code, "message": message.message}
        if message.data is not None:
            error["data"] = message.data
        # The response to the in-flight request will have this id. Echoing it here would resolve the wrong call.
        id = None if message.id in self.incoming else message.id
        return Outgoing(_error_frame(id, error))

    def _response(self, response: Response) -> Event:
        found = self.ledger.answered(response.id)
        if found is None:
            return Dropped(f"a response without a request, id {reprlib.repr(response.id)}")
        request, late = found
        return Answered(request, response, late)

    # -- sending

    def answer(self, request: Request, result: Any) -> bytes | None:
        """The frame of a result, see `_complete`. Raises EncodeError if JSON cannot express the response. The request
        then stays in flight."""
        frame = codec.encode({"jsonrpc": "2.0", "id": request.id, "result": result})
        if request.slot is None and self.incoming.get(request.id) is request:
            # The common case, without a further call.
            del self.incoming[request.id]
            return frame
        return self._complete(request, frame)

    def refuse(self, request: Request, error: RpcError) -> bytes | None:
        """The frame of an error, see `_complete`. Error data that JSON cannot express is left out."""
        return self._complete(request, _error_frame(request.id, error.to_wire()))

    def request(self, request: OutgoingRequest, params: Any) -> bytes:
        """The frame of an outgoing request, which is in flight from now on. Raises EncodeError and changes nothing
        then."""
        # Encoded before it is registered: a request that cannot be encoded must not be waited for.
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.ledger.next_id, "method": request.method}
        if params is not None:
            message["params"] = params
        frame = codec.encode(message)
        self.ledger.expect(request)
        return frame

    def withdraw(self, request: OutgoingRequest) -> bytes | None:
        """The `$/cancel_request` for an outgoing request; None if the request is not in flight any more."""
        if not self.ledger.withdraw(request):
            return None
        return self.notify(CANCEL_METHOD, {"requestId": request.id})

    def notify(self, method: str, params: Any) -> bytes:
        """The frame of a notification. Raises EncodeError."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return codec.encode(message)

    def _complete(self, request: Request, frame: bytes) -> bytes | None:
        """Take the request out of flight and return the bytes to write. None if it was answered before, or if its batch
        still waits for other responses."""
        if self.incoming.get(request.id) is not request:
            return None
        del self.incoming[request.id]
        slot: Slot | None = request.slot
        if slot is None:
            return frame
        if not slot.has_room(frame):
            frame = _error_frame(request.id, {"code": INTERNAL_ERROR, "message": _BATCHES_FULL, "data": _FULL})
        return slot.fill(frame)


def _too_much(value: Any) -> Message:
    """Classify a value of a line with too many objects, by its kind and id alone."""
    problem = f"more than {MOST_NESTED} objects and arrays"
    message = classify(value)
    if isinstance(message, Notification):
        return Ignored(problem, message)
    if isinstance(message, Response):
        return Response(message.id, malformed=problem)
    if isinstance(message, Ignored):
        return message
    return Invalid(INVALID_REQUEST, f"Invalid request: {problem}", message.id)


def may_count(block: Block) -> bool:
    """Whether a line or block may contain a request, notification or response. Each of these has one of the searched
    texts, unless it is written with escapes. Other lines give only errors without an id."""
    return isinstance(block, TooLong) or b'"jsonrpc"' in block or b'"id"' in block or b"\\" in block


def refused_in_a_row(count: int) -> Outgoing:
    """One error for many lines in a row without a message."""
    message = f"Invalid request: {count} lines in a row hold nothing that can be acted on"
    return Outgoing(_error_frame(None, {"code": INVALID_REQUEST, "message": message, "data": {"lines": count}}))


def may_cancel(block: Block) -> TypeGuard[bytes | bytearray]:
    """Whether a line or block may contain a cancel."""
    return not isinstance(block, TooLong) and b"cancel" in block


def only_cancels(block: Block) -> bool:
    """Whether every line looks like a cancel. Then a cancel that is applied early overtakes no other message."""
    return may_cancel(block) and block.count(b"cancel") >= block.count(b"\n")


@lru_cache(maxsize=32)
def _plain_error_frame(code: int, message: str) -> bytes:
    # The messages are a few constants, so one frame serves any number of bad lines.
    return _error_frame(None, {"code": code, "message": message})


def _error_frame(id: RequestId, error: dict[str, Any]) -> bytes:
    try:
        return codec.encode({"jsonrpc": "2.0", "id": id, "error": error})
    except EncodeError:
        code = error.get("code")
        error = {"code": code if isinstance(code, int) else INTERNAL_ERROR, "message": str(error.get("message", ""))}
        return codec.encode({"jsonrpc": "2.0", "id": id, "error": error})

"""The four things a JSON value on the wire can be: request, notification, response, or none of them.

`classify` decides by JSON-RPC 2.0 (sections 4 to 6). It does not know which ids are in flight (`ledger`), and nothing
of ACP's methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from acp_server.errors import INVALID_REQUEST

if TYPE_CHECKING:
    from acp_server.wire.batch import Slot

RequestId: TypeAlias = int | str | None
"""An id as ACP v1 has it: a 64-bit integer, a string, or null."""

Params: TypeAlias = dict[str, Any] | list[Any]

_INT64 = range(-(2**63), 2**63)


@dataclass(slots=True, eq=False)
class Request:
    """A call that is owed exactly one answer. Its identity, not its id, stands for the debt: ids come round again."""

    id: RequestId
    method: str
    params: Params | None
    slot: Slot | None = None
    """The place in a batch that the answer fills, or None for a message of its own."""


@dataclass(slots=True, eq=False)
class Notification:
    """A call that is never answered, whatever becomes of it."""

    method: str
    params: Params | None


@dataclass(slots=True, eq=False)
class Response:
    """An answer to one of our requests. `error` is the error object; `malformed` says why it is neither."""

    id: Any
    result: Any = None
    error: dict[str, Any] | None = None
    malformed: str | None = None


@dataclass(slots=True, eq=False)
class Invalid:
    """A message that cannot be acted on, but must be answered with an error."""

    code: int
    message: str
    id: RequestId = None
    data: Any = None


@dataclass(slots=True, eq=False)
class Ignored:
    """A message that cannot be acted on and must not be answered either."""

    reason: str


Message: TypeAlias = Request | Notification | Response | Invalid | Ignored


def is_request_id(value: Any) -> bool:
    """Whether a decoded value may be an id. `type` and not `isinstance`: True is an int to Python, but not to JSON."""
    kind = type(value)
    return kind is str or (kind is int and value in _INT64) or value is None


def classify(value: Any) -> Message:
    """Which message a decoded JSON value is. Arrays are batches and are taken apart before they come here."""
    if type(value) is not dict:
        return Invalid(INVALID_REQUEST, "Invalid request: expected an object")
    return _classify(cast("dict[str, Any]", value))


def _classify(value: dict[str, Any]) -> Message:
    if "method" not in value:
        if "id" in value or "result" in value or "error" in value:
            return _response(value)
        return Invalid(INVALID_REQUEST, "Invalid request: no method")
    has_id = "id" in value
    id = value.get("id")
    if has_id and not is_request_id(id):
        return Invalid(INVALID_REQUEST, "Invalid request: id must be a 64-bit integer, a string or null")
    if value.get("jsonrpc") != "2.0":
        return Invalid(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', id)
    method = value["method"]
    if type(method) is not str:
        return Invalid(INVALID_REQUEST, "Invalid request: method must be a string", id)
    params = value.get("params")
    if not (params is None or type(params) is dict or type(params) is list):
        if has_id:
            return Invalid(INVALID_REQUEST, "Invalid request: params must be an object or an array", id)
        return Ignored(f"notification {method!r} with params that are neither object nor array")
    return Request(id, method, params) if has_id else Notification(method, params)


def _response(value: dict[str, Any]) -> Response:
    # A member that is null next to its real counterpart is JSON-RPC 1.0 speaking, and its meaning is clear.
    id = value.get("id")
    error = value.get("error")
    result = value.get("result")
    if error is None:
        if "result" not in value:
            return Response(id, malformed="neither result nor error")
        return Response(id, result=result)
    if result is not None:
        return Response(id, malformed="both result and error")
    if type(error) is not dict or type(error.get("code")) is not int:
        return Response(id, malformed="error is not an error object")
    if type(error.get("message")) is not str:
        error = {**error, "message": ""}
    return Response(id, error=error)

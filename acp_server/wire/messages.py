"""The kinds of message that a JSON value can be: request, notification, response, or invalid.

`classify` follows JSON-RPC 2.0, sections 4 to 6. It knows neither the in-flight ids (`state_machine`) nor the methods
of ACP.
"""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from acp_server.errors import INVALID_REQUEST
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.wire.batch import Slot

RequestId: TypeAlias = int | str | None
"""An id of ACP version 1: a 64-bit integer, a string, or null."""

Params: TypeAlias = dict[str, Any] | list[Any]

ID_LIMIT: Final = 16 * 1024
"""The most characters of a string id. The id is kept while its request is in flight, and repeated in its response."""

_BAD_ID: Final = "Invalid request: id must be a 64-bit integer, a string or null"
_LONG_ID: Final = f"Invalid request: id is longer than {ID_LIMIT} characters"

_PARAMS: Final = frozenset[object]({dict, list, type(None)})


@dataclass(slots=True, eq=False)
class Request:
    """A call that gets exactly one response. Requests compare by identity, since a peer may reuse an id."""

    id: RequestId
    method: str
    params: Params | None
    slot: Slot | None = None
    """The position in a batch that the response fills; None for a request outside of a batch."""
    size: int = 0
    """The bytes of the request's line; for a member of a batch its share of the line."""
    call: Any = None
    """The object that answers the request while it is in flight. The owner of the object sets and clears this."""


@dataclass(slots=True, eq=False)
class Notification:
    """A call without a response."""

    method: str
    params: Params | None
    size: int = 0
    """See `Request.size`."""


@dataclass(slots=True, eq=False)
class Response:
    """A response to an outgoing request. `error` is the error object; `malformed` says why it is not valid."""

    id: Any
    result: Any = None
    error: dict[str, Any] | None = None
    malformed: str | None = None


@dataclass(slots=True, eq=False)
class Invalid:
    """An invalid message that must be answered with an error."""

    code: int
    message: str
    id: RequestId = None
    data: Any = None
    notification: Notification | None = None
    """The notification that the message seems to be by its first members, without parameters."""


@dataclass(slots=True, eq=False)
class Ignored:
    """An invalid message that must not be answered. `notification`: the notification that the message seems to be."""

    reason: str
    notification: Notification | None = None


Message: TypeAlias = Request | Notification | Response | Invalid | Ignored


def is_request_id(value: Any) -> bool:
    """Whether a decoded value is a valid id. `type` and not `isinstance`, since bool is a subclass of int."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or (type(value) is str and len(value) <= ID_LIMIT)


def classify(value: Any) -> Message:
    """Classify a decoded JSON value. The caller splits batches into their members first."""
    message: dict[str, Any] = value
    if type(message) is not dict:
        return Invalid(INVALID_REQUEST, "Invalid request: expected an object")
    method = message.get("method")
    if type(method) is str and message.get("jsonrpc") == "2.0" and type(params := message.get("params")) in _PARAMS:
        # The common cases. What is wrong with any other value is found out in `_invalid`.
        if "id" not in message:
            return Notification(method, params)
        id = message["id"]
        if (type(id) is int and -(2**63) <= id < 2**63) or is_request_id(id):
            return Request(id, method, params)
    elif method is None and "method" not in message and "id" in message:
        return _response(message)
    return _invalid(message)


def _invalid(message: dict[str, Any]) -> Message:
    """Classify a value that is not a valid request or notification."""
    if "method" not in message:
        if "id" in message or "result" in message or "error" in message:
            return _response(message)
        return Invalid(INVALID_REQUEST, "Invalid request: no method")
    id = message.get("id")
    if not is_request_id(id):
        return Invalid(INVALID_REQUEST, _LONG_ID if type(id) is str else _BAD_ID)
    if message.get("jsonrpc") != "2.0":
        return Invalid(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', id)
    if type(message["method"]) is not str:
        return Invalid(INVALID_REQUEST, "Invalid request: method must be a string", id)
    if "id" in message:
        return Invalid(INVALID_REQUEST, "Invalid request: params must be an object or an array", id)
    return Ignored(f"notification {reprlib.repr(message['method'])} with params that are neither object nor array")


def _response(message: dict[str, Any]) -> Response:
    # JSON-RPC 1.0 sends both members, one of them null. The meaning is clear, so it is accepted.
    id = message.get("id")
    error = message.get("error")
    result = message.get("result")
    if error is None:
        if "result" not in message:
            return Response(id, malformed="neither result nor error")
        return Response(id, result=result)
    if result is not None:
        return Response(id, malformed="both result and error")
    if type(error) is not dict:
        return Response(id, malformed="error is not an object")
    error = cast("dict[str, Any]", error)
    if type(error.get("code")) is not int:
        return Response(id, malformed="error without a code")
    if type(error.get("message")) is not str:
        error["message"] = ""
    return Response(id, error=error)


_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_KEY = rb'\s*"(\w+)"\s*:'
_NEXT = re.compile(_KEY)
_MEMBER = re.compile(_KEY + rb'\s*("[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,18}|null)\s*,')


def classify_head(head: bytes | bytearray, problem: str) -> Response | Invalid:
    """Classify an unreadable line by its first bytes: a malformed response, or an invalid message, with the id if the
    id is among these bytes."""
    members, following = _members(head)
    id = members.get("id")
    if "method" not in members and following in (b"result", b"error"):
        return Response(id, malformed=problem)
    method = members.get("method")
    lost = (
        Notification(method, None) if isinstance(method, str) and "id" not in members and following != b"id" else None
    )
    return Invalid(INVALID_REQUEST, f"Invalid request: {problem}", id if is_request_id(id) else None, notification=lost)


def _members(line: bytes | bytearray) -> tuple[dict[str, Any], bytes | None]:
    """The leading members of an object with plain ASCII strings, integers or null, and the key of the next member."""
    members: dict[str, Any] = {}
    opening = _OPENING.match(line)
    if opening is None:
        return members, None
    position = opening.end()
    while member := _MEMBER.match(line, position):
        members[member[1].decode()] = codec.decode(member[2])
        position = member.end()
    following = _NEXT.match(line, position)
    return members, following and following[1]

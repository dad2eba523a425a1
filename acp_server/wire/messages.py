"""The four things a JSON value on the wire can be: request, notification, response, or none of them.

`classify` decides by JSON-RPC 2.0 (sections 4 to 6). It does not know which ids are in flight
(`state_machine`), and nothing of ACP's methods.
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
"""An id as ACP v1 has it: a 64-bit integer, a string, or null."""

Params: TypeAlias = dict[str, Any] | list[Any]

ID_LIMIT: Final = 16 * 1024
"""The most characters of an id that is a string: it is kept, and repeated, for as long as its request lasts."""

_BAD_ID: Final = "Invalid request: id must be a 64-bit integer, a string or null"
_LONG_ID: Final = f"Invalid request: id is longer than {ID_LIMIT} characters"

_PARAMS: Final = frozenset[object]({dict, list, type(None)})


@dataclass(slots=True, eq=False)
class Request:
    """A call that gets exactly one answer. It is told from others by its identity: ids come round again."""

    id: RequestId
    method: str
    params: Params | None
    slot: Slot | None = None
    """The place in a batch that the answer fills, or None for a message of its own."""
    size: int = 0
    """Bytes that it took on the wire; a member of a batch has its share."""
    call: Any = None
    """What answers it, until it is answered. Its owner sets it and takes it back."""


@dataclass(slots=True, eq=False)
class Notification:
    """A call that is never answered, whatever becomes of it."""

    method: str
    params: Params | None
    size: int = 0
    """See `Request.size`."""


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
    notification: Notification | None = None
    """What it was to be, if its beginning tells that; without parameters."""


@dataclass(slots=True, eq=False)
class Ignored:
    """A message that cannot be acted on and must not be answered either. `notification`: if it would have been one."""

    reason: str
    notification: Notification | None = None


Message: TypeAlias = Request | Notification | Response | Invalid | Ignored


def is_request_id(value: Any) -> bool:
    """Whether a decoded value may be an id. `type` and not `isinstance`: True is an int to Python, but not to JSON."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or (type(value) is str and len(value) <= ID_LIMIT)


def classify(value: Any) -> Message:
    """Which message a decoded JSON value is. Arrays are batches and are taken apart before they come here."""
    message: dict[str, Any] = value
    if type(message) is not dict:
        return Invalid(INVALID_REQUEST, "Invalid request: expected an object")
    method = message.get("method")
    if type(method) is str and message.get("jsonrpc") == "2.0" and type(params := message.get("params")) in _PARAMS:
        # Nearly all that comes is this; what is wrong with anything else is found out below.
        if "id" not in message:
            return Notification(method, params)
        id = message["id"]
        if (type(id) is int and -(2**63) <= id < 2**63) or is_request_id(id):
            return Request(id, method, params)
    return _invalid(message)


def _invalid(message: dict[str, Any]) -> Message:
    """What is neither a request nor a notification."""
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
    # A member that is null next to its real counterpart is JSON-RPC 1.0 speaking, and its meaning is clear.
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
    """From the beginning of a line: a malformed response; or an invalid message, with its id if that is early enough to
    be seen."""
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
    """The leading members of an object that are plain ASCII strings, integers or null; the key of the one behind."""
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

"""Decides which stream carries a message of the agent, and which headers a client's message needs.

This module has no streams and no event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, cast

from acp_server.remote.limits import RemoteLimits
from acp_server.wire import codec
from acp_server.wire.messages import Notification, Request, Response
from acp_server.wire.state_machine import CANCEL_METHOD

Session: TypeAlias = str | None
"""The id of a session, or None for the connection as a whole."""

Posted: TypeAlias = Request | Notification | Response
"""A message that a client may send."""

_Key: TypeAlias = "tuple[type, Any]"

_NEED_HEADER: Final = frozenset(
    {
        "session/prompt",
        "session/cancel",
        "session/close",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
    }
)
"""Methods of an open session, which need `Acp-Session-Id`. A method that opens a session does not need it, because the
client has no stream of the session yet, and the official Python SDK omits the header."""

_ON_CONNECTION: Final = frozenset({"session/new", "session/load"})
_RENEWING: Final = frozenset({"session/load", "session/resume"})
BEHIND: Final = "acp_server/behind"
"""The key in `_meta` of a result that has the cursor of the message which the result follows, as TAG-NUMBER. This is an
extension that is not in the draft."""
_USUAL: Final = 1024
"""Bytes of a typical message. The draft announces how many messages are kept, but the ring limits their bytes."""
_STATE: Final = b'"state_update"'
_MOST_ASKED: Final = 10_000
"""The most requests to a client that are remembered. A request that is never answered is forgotten after so many
others."""


class Mismatch(ValueError):
    """Raised if a header is missing, or names another session than the message."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An in-flight request of the client."""

    method: str
    stream: Session
    """The stream of its response."""
    session: Session
    text: int
    """The hash of the line, by which a retry differs from another request with the same id."""
    last: str | None = field(compare=False)
    """The cursor of the last message on the session's stream when the request arrived."""


class Router:
    """The in-flight requests of one connection, by their ids. The ids 1 and "1" are different."""

    def __init__(self) -> None:
        self._pending: dict[_Key, _Asked] = {}
        self._asked: dict[_Key, Session] = {}
        """The sessions of in-flight requests to the client."""

    def incoming(
        self, message: Posted, header: Session, line: bytes, *, is_numbered: bool = False, last: str | None = None
    ) -> bool:
        """Record a message of the client. Returns False for a retry, which is a copy of an in-flight request without a
        number.

        A client retries a request if it does not learn that the request arrived. A message with a number
        (`is_numbered`) is not a retry, because `HttpConnection.is_new` has dropped its copies. `last` is the cursor of
        the last message on the stream of the session that the message names. Raises Mismatch.
        """
        if isinstance(message, Response):
            self._answered(message.id, header)
            return True
        named = session_in(message.params)
        if header is None and message.method in _NEED_HEADER:
            raise Mismatch("Missing Acp-Session-Id")
        if header is not None and named is not None and header != named:
            raise Mismatch("Mismatched Acp-Session-Id")
        if isinstance(message, Request):
            stream = None if message.method in _ON_CONNECTION else header
            asked = _Asked(message.method, stream, named or header, hash(line), last)
            # The agent refuses another request with the same id, and its error response names no id.
            first = self._pending.setdefault(_key(message.id), asked)
            if first is not asked and first == asked and not is_numbered:
                return False
        return True

    def withdraw(self, message: Posted, line: bytes) -> None:
        """Forget a message that does not reach the agent, so that a retry of it is not taken for a copy."""
        if isinstance(message, Request):
            key = _key(message.id)
            if (asked := self._pending.get(key)) is not None and asked.text == hash(line):
                del self._pending[key]

    def _answered(self, id: Any, header: Session) -> None:
        key = _key(id)
        session = self._asked.get(key)
        # The official Python SDK sends responses without the header. Request ids are unique in the connection.
        if header is not None and key in self._asked and header != session:
            raise Mismatch("Mismatched Acp-Session-Id")
        self._asked.pop(key, None)

    def outgoing(self, line: bytes) -> Outgoing:
        """Return the stream of a message of the agent."""
        message: dict[str, Any] = codec.decode(line)
        method, id = message.get("method"), message.get("id")
        if method is None:
            return self._answer(line, message, id)
        session = session_in(message.get("params"))
        if method == CANCEL_METHOD:
            # A cancel follows the request that it withdraws, on the same stream.
            session = self._asked.get(_key(_member(message.get("params"), "requestId")), session)
        if "id" in message:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.pop(next(iter(self._asked)))
            self._asked[_key(id)] = session
        return Outgoing(line, session, is_state=is_state(line, message))

    def _answer(self, line: bytes, message: dict[str, Any], id: Any) -> Outgoing:
        key = _key(id)
        asked = self._pending.pop(key, None)
        if asked is None:
            return Outgoing(line, None)
        result = message.get("result")
        is_opened = asked.stream is None and asked.method in _RENEWING and isinstance(result, dict)
        if is_opened and session_in(result) is None:
            # The draft wants the session's id in the result: it names the stream that the client opens.
            cast("dict[str, Any]", result)["sessionId"] = asked.session
            line = codec.encode(message).rstrip(b"\n")
            return Outgoing(line, None, asked.method, renews=asked.session, last=asked.last)
        return Outgoing(line, asked.stream, asked.method)


class Outgoing(NamedTuple):
    """A message of the agent."""

    line: bytes
    session: Session
    """The session whose stream carries the message; None for the connection's stream."""
    method: str | None = None
    """For a response, the method of its request."""
    is_state: bool = False
    """Whether the message is a `state_update` (version 2)."""
    renews: Session = None
    """For a response to `session/load` or `session/resume` on the connection's stream, the session that was opened."""
    last: str | None = None
    """The cursor of the last message on that session's stream when the request arrived."""


def has_reached(behind: str, cursor: str | None) -> bool:
    """Whether a reader at `cursor` need not wait for the message with the cursor `behind`.

    The reader has read that message, or reads another stream, where the message never arrives. A reader without a
    cursor has read nothing yet.
    """
    if not cursor:
        return False
    (tag, _, number), (wanted_tag, _, wanted) = cursor.rpartition("-"), behind.rpartition("-")
    return tag != wanted_tag or not (_is_number(number) and _is_number(wanted)) or int(number) >= int(wanted)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def behind(line: bytes, cursor: str) -> bytes:
    """Return the response to `session/load` or `session/resume` with the cursor of the last message on the session's
    stream.

    The session's stream carries the replay, the connection's stream carries the response, and messages of two streams
    have no order.
    """
    message: dict[str, Any] = codec.decode(line)
    meta = message["result"].get("_meta")
    message["result"]["_meta"] = {**(cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}), BEHIND: cursor}
    return codec.encode(message).rstrip(b"\n")


def session_in(params: Any) -> Session:
    """Return the `sessionId` in params or a result."""
    session = _member(params, "sessionId")
    return session if isinstance(session, str) else None


def advertising(greeting: bytes, limits: RemoteLimits) -> bytes:
    """Return the response to `initialize` with the capability of resumable streams (the draft of durable transports).

    The capability is added to `capabilities` of version 2. In version 1 it is added to `_meta` of `agentCapabilities`,
    because there is no other member for it.
    """
    message: dict[str, Any] = codec.decode(greeting)
    result = message.get("result")
    place = _member(result, "capabilities")
    if place is None and isinstance(capabilities := _member(result, "agentCapabilities"), dict):
        place = cast("dict[str, Any]", capabilities).setdefault("_meta", {})
    if not isinstance(place, dict):
        return greeting
    kept = {"retentionMessages": limits.kept // _USUAL, "retentionSeconds": int(limits.grace)}
    place["transport"] = {"resumable": kept}
    return codec.encode(message).rstrip(b"\n")


def is_greeting(message: Any) -> bool:
    """Whether the message is a response to `initialize`, which has a `protocolVersion` in its result."""
    return _member(_member(message, "result"), "protocolVersion") is not None


def is_state(line: bytes, message: Any) -> bool:
    """Whether the message is a `state_update` of a session (version 2)."""
    return _STATE in line and _member(_member(_member(message, "params"), "update"), "sessionUpdate") == "state_update"


def renews(message: Posted) -> TypeGuard[Request]:
    """Whether the message opens a stored session anew, as a client does whose stream was given up."""
    return isinstance(message, Request) and message.method in _RENEWING


def is_cancel(message: object) -> TypeGuard[Notification]:
    """Whether the message is a cancel. A cancel overtakes messages that wait for room."""
    return isinstance(message, Notification) and message.method in (CANCEL_METHOD, "session/cancel")


def is_cancelled_by(message: object, cancel: Notification) -> bool:
    """Whether `cancel` cancels this request. `session/cancel` cancels each request of its session."""
    if not isinstance(message, Request):
        return False
    if cancel.method == CANCEL_METHOD:
        return _key(message.id) == _key(_member(cancel.params, "requestId"))
    return session_in(message.params) == session_in(cancel.params)


def _member(params: Any, name: str) -> Any:
    return cast("dict[str, Any]", params).get(name) if isinstance(params, dict) else None


def _key(id: Any) -> _Key:
    return (int, id) if type(id) is int else (str, id) if type(id) is str else (type(None), None)

"""Which stream a message of the agent's belongs to, and what the headers of a message to it must say.

Pure: no streams, no event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, cast

from acp_server.remote.limits import RemoteLimits
from acp_server.wire import codec
from acp_server.wire.messages import Notification, Request, Response
from acp_server.wire.state_machine import CANCEL_METHOD

Session: TypeAlias = str | None
"""A session's id; None stands for the connection as a whole."""

Posted: TypeAlias = Request | Notification | Response
"""What a client may send."""

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
"""Methods of a session that is open. Those that open one are also sent without the header (by the official Python
SDK), since the client has no stream of it yet."""

_ON_CONNECTION: Final = frozenset({"session/new", "session/load"})
_RENEWING: Final = frozenset({"session/load", "session/resume"})
BEHIND: Final = "acp_server/behind"
"""In `_meta` of a result: the cursor of the message that it follows, of the form TAG-NUMBER. The draft has nothing of
the kind."""
_USUAL: Final = 1024
"""Bytes of a message, for what is said of how many are kept."""
_STATE: Final = b'"state_update"'
_MOST_ASKED: Final = 10_000
"""Requests to a client that are remembered. A request that is never answered stays until so many others were sent."""


class Mismatch(ValueError):
    """A header is missing, or says something else than the message."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An in-flight request of the client."""

    method: str
    stream: Session
    """The stream of its response."""
    session: Session
    text: int
    """The hash of the message."""
    last: str | None = field(compare=False)
    """The cursor of the last message on the session's stream when it arrived."""


class Router:
    """The requests of one connection that are under way, by their ids: 1 and "1" are two."""

    def __init__(self) -> None:
        self._pending: dict[_Key, _Asked] = {}
        self._asked: dict[_Key, Session] = {}
        """What the client was asked, and in which session."""

    def incoming(
        self, message: Posted, header: Session, line: bytes, *, is_numbered: bool = False, last: str | None = None
    ) -> bool:
        """Note a message of the client. Returns False for a copy of an in-flight request, which a client retries if it
        does not learn that the request arrived. A message with a number (`is_numbered`) is not a retry. `last` is the
        cursor of the last message on the stream of the session that it names. Raises Mismatch."""
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

    def _answered(self, id: Any, header: Session) -> None:
        key = _key(id)
        session = self._asked.get(key)
        # The official Python SDK sends answers without the header; their ids are unique in the connection.
        if header is not None and key in self._asked and header != session:
            raise Mismatch("Mismatched Acp-Session-Id")
        self._asked.pop(key, None)

    def outgoing(self, line: bytes) -> Outgoing:
        """Where a message of the agent's goes."""
        message: dict[str, Any] = codec.decode(line)
        method, id = message.get("method"), message.get("id")
        if method is None:
            return self._answer(line, message, id)
        session = session_in(message.get("params"))
        if method == CANCEL_METHOD:
            # Behind what it withdraws, on the same stream.
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
            # As the draft has it: a client learns from it which stream to open.
            cast("dict[str, Any]", result)["sessionId"] = asked.session
            line = codec.encode(message).rstrip(b"\n")
            return Outgoing(line, None, asked.method, renews=asked.session, last=asked.last)
        return Outgoing(line, asked.stream, asked.method)


class Outgoing(NamedTuple):
    """A message of the agent's."""

    line: bytes
    session: Session
    """Its stream."""
    method: str | None = None
    """What it answers."""
    is_state: bool = False
    """Whether it says in which state its session is (version 2)."""
    renews: Session = None
    """The session that was opened anew, for an answer on the stream of the connection."""
    last: str | None = None
    """The cursor of the last message on that session's stream when the request arrived."""


def has_reached(behind: str, cursor: str | None) -> bool:
    """Whether a reader whose last message had `cursor` needs not wait for the one with the cursor `behind`: it has
    read that, or is on another stream, where that never comes. Without a cursor it has read nothing yet."""
    if not cursor:
        return False
    (tag, _, number), (wanted_tag, _, wanted) = cursor.rpartition("-"), behind.rpartition("-")
    return tag != wanted_tag or not (_is_number(number) and _is_number(wanted)) or int(number) >= int(wanted)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def behind(line: bytes, cursor: str) -> bytes:
    """The answer to `session/load`, which says behind which message of the session's own stream it comes: that carries
    the history, and two streams have no order."""
    message: dict[str, Any] = codec.decode(line)
    meta = message["result"].get("_meta")
    message["result"]["_meta"] = {**(cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}), BEHIND: cursor}
    return codec.encode(message).rstrip(b"\n")


def session_in(params: Any) -> Session:
    """The `sessionId` in parameters or a result."""
    session = _member(params, "sessionId")
    return session if isinstance(session, str) else None


def advertising(greeting: bytes, limits: RemoteLimits) -> bytes:
    """The answer to `initialize`, which says that streams can be resumed: among the capabilities of version 2, as the
    draft has it, and in their `_meta` of version 1, which has no room for it."""
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
    """Whether it is the answer to `initialize`, by what it says."""
    return _member(_member(message, "result"), "protocolVersion") is not None


def is_state(line: bytes, message: Any) -> bool:
    """Whether it says in which state its session is (version 2)."""
    return _STATE in line and _member(_member(_member(message, "params"), "update"), "sessionUpdate") == "state_update"


def renews(message: Posted) -> TypeGuard[Request]:
    """Whether it has a session opened that the client may have lost."""
    return isinstance(message, Request) and message.method in _RENEWING


def is_cancel(message: Posted) -> TypeGuard[Notification]:
    """Whether it overtakes what waits for room."""
    return isinstance(message, Notification) and message.method in (CANCEL_METHOD, "session/cancel")


def is_cancelled_by(message: Posted, cancel: Notification) -> bool:
    """Whether a cancel means this message."""
    if not isinstance(message, Request):
        return False
    if cancel.method == CANCEL_METHOD:
        return _key(message.id) == _key(_member(cancel.params, "requestId"))
    return session_in(message.params) == session_in(cancel.params)


def _member(params: Any, name: str) -> Any:
    return cast("dict[str, Any]", params).get(name) if isinstance(params, dict) else None


def _key(id: Any) -> _Key:
    return (int, id) if type(id) is int else (str, id) if type(id) is str else (type(None), None)

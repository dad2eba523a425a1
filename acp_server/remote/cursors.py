"""Cursors over WebSocket (`_meta["acp/cursor"]`, as the draft of durable transports defines it), and the messages that
resume a stream.

The draft leaves open the form of these messages, and how a client learns which of its messages have arrived.
`docs/remote.md` describes the choice made here. This module has no streams and no event loop.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from acp_server.wire import codec

RESUME: Final = "stream/resume"
RESUMED: Final = "stream/resumed"
FAILED: Final = "stream/resume_failed"

_META: Final = "_meta"
_CURSOR: Final = "acp/cursor"
_RECEIVED: Final = "acp_server/received"
"""In `_meta` of `stream/resumed`: the number of client messages that have arrived on this connection."""
_HEAD: Final = b'"_meta":{"acp/cursor":"'
_ENDS: Final = frozenset({b"}}", b"}}}", b"}}]"})
"""The possible ends of a line after the quotation mark of a cursor that `with_cursor` has added."""
_LONGEST: Final = 1024
"""The most characters of a cursor that `with_cursor` has not added."""


def with_cursor(line: bytes, value: Any, cursor: str) -> bytes:
    """Add a cursor to `line`, the JSON text of `value`. It is added to the params or the result if that is the last
    member, and otherwise to the message itself.

    In a batch the last message gets the cursor. The cursor is appended to the text, so that `without_cursor` restores
    the same line. A message that has a `_meta` there is encoded anew. If the line has no position for a cursor, it is
    returned unchanged.
    """
    last = _last(value)
    if not isinstance(last, dict) or not last:
        return line
    message = cast("dict[str, Any]", last)
    depth = 1 + isinstance(value, list)
    name = next(reversed(message))
    body = message[name] if name in ("params", "result") and not isinstance(value, list) else None
    if isinstance(body, dict):
        if _META in body:
            return _among_others(message, cast("dict[str, Any]", body), cursor, line)
        depth += 1
        comma = b"," if body else b""
    else:
        comma = b","
    return b'%s%s%s%s"}%s' % (line[:-depth], comma, _HEAD, cursor.encode(), line[-depth:])


def _last(value: Any) -> Any:
    """Return the last message of a batch, or `value` itself."""
    batch = cast("list[Any]", value) if isinstance(value, list) else None
    return batch[-1] if batch else cast("Any", value)


def _among_others(message: dict[str, Any], body: dict[str, Any], cursor: str, line: bytes) -> bytes:
    meta = body[_META]
    if meta is not None and not isinstance(meta, dict):
        return line
    body[_META] = {**cast("dict[str, Any]", meta or {}), _CURSOR: cursor}
    return codec.encode(message).rstrip(b"\n")


def without_cursor(line: bytes) -> tuple[bytes, str | None]:
    """Return the line without its cursor, and the cursor or None. A cursor in another position is read, and the line
    keeps it."""
    at = line.rfind(_HEAD)
    if at >= 0:
        cursor, _, end = line[at + len(_HEAD) :].partition(b'"')
        if end in _ENDS:
            return line[:at].removesuffix(b",") + end[1:], cursor.decode()
    if b"acp/cursor" not in line:
        return line, None
    try:
        message: Any = codec.decode(line)
    except codec.DecodeError:
        return line, None
    for place in (_member(message, "params"), _member(message, "result"), message):
        cursor = _member(_member(place, _META), _CURSOR)
        if isinstance(cursor, str) and len(cursor) <= _LONGEST:
            return line, cursor
    return line, None


class Resume(NamedTuple):
    """The first message of a client that resumes a stream: `stream/resume`."""

    connection: str
    cursor: str
    """The cursor after which the client wants the messages; empty for all messages."""


def resume(connection: str, cursor: str) -> bytes:
    """Return `stream/resume`, the first message on a further WebSocket of a connection. All sessions of the connection
    share one stream."""
    return _message(RESUME, {"connectionId": connection, "cursors": [{"cursor": cursor}]})


def read_resume(line: bytes) -> Resume | None:
    """Read a `stream/resume`; None for another message. A malformed member gives an id or a cursor that is unknown."""
    if b'"stream/resume"' not in line:
        return None
    try:
        message: Any = codec.decode(line)
    except codec.DecodeError:
        return None
    if _member(message, "method") != RESUME:
        return None
    params = _member(message, "params")
    connection, cursors = _member(params, "connectionId"), _member(params, "cursors")
    first = cast("list[Any]", cursors)[0] if isinstance(cursors, list) and cursors else None
    cursor = _member(first, "cursor")
    return Resume(connection if isinstance(connection, str) else "", cursor if isinstance(cursor, str) else "?")


def resumed(connection: str, received: int) -> bytes:
    """Return `stream/resumed`, which says that the connection continues. `received`: the number of the client's
    messages that have arrived."""
    return _message(RESUMED, {"connectionId": connection, _META: {_RECEIVED: received}})


def resume_failed(reason: str) -> bytes:
    """Return `stream/resume_failed`, which says that the connection does not continue, so the client must begin a new
    one."""
    return _message(FAILED, {"reason": reason})


def read_answer(line: bytes) -> int | str | None:
    """Read the answer to `stream/resume`. Return the number of messages that have arrived, or the reason of the
    failure.

    Return None for another message.
    """
    try:
        message: Any = codec.decode(line)
    except codec.DecodeError:
        return None
    method, params = _member(message, "method"), _member(message, "params")
    if method == FAILED:
        return str(_member(params, "reason"))
    received = _member(_member(params, _META), _RECEIVED)
    return received if method == RESUMED and type(received) is int and received >= 0 else None


def _message(method: str, params: dict[str, Any]) -> bytes:
    return codec.encode({"jsonrpc": "2.0", "method": method, "params": params}).rstrip(b"\n")


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None

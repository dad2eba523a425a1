"""Cursors of messages over WebSocket: `_meta["acp/cursor"]`, as the draft of durable transports has it; and the words
by which a client comes back.

The draft leaves open what these look like, and how a client learns what has arrived of its own messages. What is chosen
here is in `docs/remote.md`. Pure: no streams, no event loop.
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
"""In `_meta` of the acknowledgment: how many messages of the client have arrived on this connection."""
_HEAD: Final = b'"_meta":{"acp/cursor":"'
_ENDS: Final = frozenset({b"}}", b"}}}", b"}}]"})
"""What may stand behind it, where `with_cursor` has put it."""
_LONGEST: Final = 1024


def with_cursor(line: bytes, value: Any, cursor: str) -> bytes:
    """`line`, which means `value`, with a cursor: in its parameters or its result, and in the message itself where
    those cannot have one. It is put at the end, so that `without_cursor` gives the same line."""
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
    """The last message of a batch, or the message that there is."""
    batch = cast("list[Any]", value) if isinstance(value, list) else None
    return batch[-1] if batch else cast("Any", value)


def _among_others(message: dict[str, Any], body: dict[str, Any], cursor: str, line: bytes) -> bytes:
    meta = body[_META]
    if meta is not None and not isinstance(meta, dict):
        return line
    body[_META] = {**cast("dict[str, Any]", meta or {}), _CURSOR: cursor}
    return codec.encode(message).rstrip(b"\n")


def without_cursor(line: bytes) -> tuple[bytes, str | None]:
    """The line as it was, and its cursor. Where a server has put it elsewhere, the line stays as it is."""
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
    """What a client that comes back says first."""

    connection: str
    cursor: str
    """Behind which it wants to go on; empty for the beginning."""


def resume(connection: str, cursor: str) -> bytes:
    """The first message on a new WebSocket of a connection. All sessions share one stream there."""
    return _message(RESUME, {"connectionId": connection, "cursors": [{"cursor": cursor}]})


def read_resume(line: bytes) -> Resume | None:
    """What a first message says; None for any other."""
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
    """It goes on."""
    return _message(RESUMED, {"connectionId": connection, _META: {_RECEIVED: received}})


def resume_failed(reason: str) -> bytes:
    """It does not: the client begins a new connection."""
    return _message(FAILED, {"reason": reason})


def read_answer(line: bytes) -> int | str | None:
    """How many messages have arrived, why it does not go on, or None if it does not answer `resume`."""
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

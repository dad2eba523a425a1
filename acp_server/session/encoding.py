"""Sessions as bytes and back, for stores that keep them outside of the program.

The bytes are JSON, with a version in it: what is written today is read by every later version of this package. Nothing
is kept anywhere by this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from acp_server.session.history import SessionRecord, TurnError, TurnRecord, Usage
from acp_server.wire import codec

VERSION: Final = 1
"""What this version of the package writes, and the newest that it reads."""

T = TypeVar("T")


def encode_session(record: SessionRecord) -> bytes:
    """A session with all its turns, as it is now. What JSON cannot express of what was said is left out."""
    turns = [{**turn_head(turn), "contents": codec.decode(turn.contents)} for turn in record.turns]
    return codec.encode({**session_head(record), "turns": turns})


def decode_session(data: bytes) -> SessionRecord:
    """The session that `encode_session` wrote. Raises ValueError for anything else, and for what a newer version of
    this package wrote."""
    fields = _object(codec.decode(data))
    record = session_of(fields)
    for item in _list(fields.get("turns", [])):
        turn = _object(item)
        record.turns.append(turn_of(turn, codec.encode(_contents(turn.get("contents")))))
    return record


def session_head(record: SessionRecord) -> dict[str, Any]:
    """All of a session but its turns."""
    return {
        "version": VERSION,
        "id": record.id,
        "cwd": record.cwd,
        "additionalDirectories": record.additional_directories,
        "title": record.title,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
        "mode": record.mode,
        "config": record.config,
    }


def session_of(fields: dict[str, Any]) -> SessionRecord:
    """The session, without turns, of a `session_head`. Raises ValueError."""
    _check_version(fields)
    title, mode = fields.get("title"), fields.get("mode")
    return SessionRecord(
        id=_of(str, fields, "id"),
        cwd=_of(str, fields, "cwd"),
        additional_directories=[_is(str, path) for path in _list(fields.get("additionalDirectories", []))],
        title=None if title is None else _is(str, title),
        created_at=_number(fields, "createdAt"),
        updated_at=_number(fields, "updatedAt"),
        mode=None if mode is None else _is(str, mode),
        config={
            key: value if isinstance(value, bool) else _is(str, value)
            for key, value in _object(fields.get("config", {})).items()
        },
    )


def turn_head(turn: TurnRecord) -> dict[str, Any]:
    """All of a turn but its contents."""
    head: dict[str, Any] = {
        "version": VERSION,
        "id": turn.id,
        "status": turn.status,
        "stopReason": turn.stop_reason,
        "createdAt": turn.created_at,
        "endedAt": turn.ended_at,
    }
    if turn.last_error is not None:
        head["lastError"] = turn.last_error._asdict()
    if turn.usage is not None:
        head["usage"] = turn.usage._asdict()
    if turn.meta_data:
        head["metaData"] = turn.meta_data
    return head


def turn_of(fields: dict[str, Any], contents: bytes | Callable[[], bytes]) -> TurnRecord:
    """The turn of a `turn_head` and its `TurnRecord.contents`, or what reads them; they are not looked at. Raises
    ValueError."""
    _check_version(fields)
    turn = TurnRecord.restored(_of(str, fields, "id"), contents)
    turn.status = _of(str, fields, "status")
    reason, error, usage = fields.get("stopReason"), fields.get("lastError"), fields.get("usage")
    turn.stop_reason = None if reason is None else _is(str, reason)
    turn.created_at = _number(fields, "createdAt")
    turn.ended_at = None if fields.get("endedAt") is None else _number(fields, "endedAt")
    if error is not None:
        error = _object(error)
        turn.last_error = TurnError(_of(int, error, "code"), _of(str, error, "message"))
    if usage is not None:
        usage = _object(usage)
        turn.usage = Usage(_of(int, usage, "input"), _of(int, usage, "output"), _of(int, usage, "total"))
    if "metaData" in fields:
        turn.meta_data = {key: _is(str, value) for key, value in _object(fields["metaData"]).items()} or None
    return turn


def _check_version(fields: dict[str, Any]) -> None:
    version = _of(int, fields, "version")
    if version > VERSION:
        raise ValueError(f"written by a newer version of this package (format {version}, this one reads {VERSION})")


def _contents(value: Any) -> list[list[dict[str, Any]]]:
    parts = _list(value)
    if len(parts) != 2:
        raise ValueError("the contents of a turn are its prompt and its events")
    return [[_object(item) for item in _list(part)] for part in parts]


def _of(kind: type[T], fields: dict[str, Any], name: str) -> T:
    return _is(kind, fields.get(name), name)


def _is(kind: type[T], value: Any, name: str = "a value") -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} is no {kind.__name__}")
    return value


def _number(fields: dict[str, Any], name: str) -> float:
    value = fields.get(name)
    return float(value) if type(value) is int else _of(float, fields, name)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", _is(dict, value, "a part"))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", _is(list, value, "a part"))

"""Encodes and decodes sessions: as one JSON text, and as rows for the tables of a file.

The encoded form has a version, and every later version of this package can read it. This module executes no SQL and
opens no file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import time
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from acp_server.errors import INTERNAL_ERROR
from acp_server.store.records import SessionRecord, TurnError, TurnRecord, Usage
from acp_server.wire import codec

VERSION: Final = 1
"""The version that is written, which is also the newest version that can be read."""

_FLAGS: Final = ("unused", "named", "archived")
"""Members that are written only if they are true."""

T = TypeVar("T")


def encode_session(record: SessionRecord) -> bytes:
    """Encode a session with all its turns, in its present state. Values that JSON cannot express are omitted."""
    turns = [{**turn_head(turn), "contents": codec.decode(turn.contents)} for turn in record.turns]
    return codec.encode({**session_head(record), "turns": turns})


def decode_session(data: bytes) -> SessionRecord:
    """Decode a session that `encode_session` wrote. Raises ValueError for any other data, and for a newer version."""
    fields = _object(codec.decode(data))
    record = session_of(fields)
    for item in _list(fields.get("turns", [])):
        turn = _object(item)
        record.turns.append(turn_of(turn, codec.encode(_contents(turn.get("contents")))))
    return record


def session_head(record: SessionRecord) -> dict[str, Any]:
    """Return a session without its turns, as a JSON object."""
    flags = {name: getattr(record, name) or None for name in _FLAGS}
    cost = None if record.cost is None else [*record.cost]
    more = {"spelled": record.spelled, **flags, "begins": record.begins, "cost": cost}
    return {
        "version": VERSION,
        "id": record.id,
        "cwd": record.cwd,
        **{name: value for name, value in more.items() if value is not None},
        "additionalDirectories": record.additional_directories,
        "title": record.title,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
        "mode": record.mode,
        "config": record.config,
    }


def session_of(fields: dict[str, Any]) -> SessionRecord:
    """Return the session of a `session_head`, without turns. Raises ValueError."""
    _check_version(fields)
    title, mode = fields.get("title"), fields.get("mode")
    spelled, begins = fields.get("spelled"), fields.get("begins")
    return SessionRecord(
        id=_of(str, fields, "id"),
        cwd=_of(str, fields, "cwd"),
        spelled=None if spelled is None else _is(str, spelled),
        unused=_is(bool, fields.get("unused", False)),
        named=_is(bool, fields.get("named", False)),
        archived=_is(bool, fields.get("archived", False)),
        cost=None if fields.get("cost") is None else _cost(_list(fields["cost"])),
        begins=None if begins is None else _is(str, begins),
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


def _cost(parts: list[Any]) -> tuple[float, str]:
    if len(parts) != 2:
        raise ValueError("a cost must be an amount and a currency")
    return _number({"amount": parts[0]}, "amount"), _is(str, parts[1], "currency")


def turn_head(turn: TurnRecord) -> dict[str, Any]:
    """Return a turn without its contents, as a JSON object."""
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
        head["usage"] = {name: count for name, count in turn.usage._asdict().items() if count is not None}
    if turn.meta_data:
        head["metaData"] = turn.meta_data
    return head


def turn_of(fields: dict[str, Any], contents: bytes | Callable[[], bytes]) -> TurnRecord:
    """Return the turn of a `turn_head`. `contents`: `TurnRecord.contents`, or a function that reads them. They are not
    checked. Raises ValueError."""
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
        more = {name: _of(int, usage, name) for name in ("thought", "cached_read", "cached_write") if name in usage}
        turn.usage = Usage(_of(int, usage, "input"), _of(int, usage, "output"), _of(int, usage, "total"), **more)
    if "metaData" in fields:
        turn.meta_data = {key: _is(str, value) for key, value in _object(fields["metaData"]).items()} or None
    return turn


def _check_version(fields: dict[str, Any]) -> None:
    version = _of(int, fields, "version")
    if version > VERSION:
        raise ValueError(
            f"written by a newer version of this package (its format is {version}, this version reads {VERSION})"
        )


def _contents(value: Any) -> list[Any]:
    parts = _list(value)
    if len(parts) not in (2, 3):
        raise ValueError("the contents of a turn must be a list of its prompt, its events and its kept values")
    said = [[_object(item) for item in _list(part)] for part in parts[:2]]
    return [*said, *({key: _object(item) for key, item in _object(kept).items()} for kept in parts[2:])]


def _of(kind: type[T], fields: dict[str, Any], name: str) -> T:
    return _is(kind, fields.get(name), name)


def _is(kind: type[T], value: Any, name: str = "a value") -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} is not of type {kind.__name__}")
    return value


def _number(fields: dict[str, Any], name: str) -> float:
    value = fields.get(name)
    return float(value) if type(value) is int else _of(float, fields, name)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", _is(dict, value, "a part"))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", _is(list, value, "a part"))


INTERRUPTED: Final = TurnError(INTERNAL_ERROR, "The program ended while this turn was running")
"""The error of a turn that was running when its program died."""


Changes: TypeAlias = dict[tuple[str, ...], Any]
"""New values for members of a session's head, by their paths. `_GONE` means that the member was removed."""

_GONE: Final = object()


class SessionRow(NamedTuple):
    """A session without its turns, as a row."""

    id: str
    cwd: str
    """The directory as JSON, since a client may name a directory that cannot be encoded as UTF-8."""
    updated_at: float
    head: bytes


class TurnRow(NamedTuple):
    """A turn as a row. `running`: whether the turn has not ended. `contents`: bytes, or chunks that the store's thread
    joins, or a function that reads them; None if they were not read."""

    id: str
    running: bool
    head: bytes
    contents: bytes | Sequence[bytes] | Callable[[], bytes] | None


def session_row(record: SessionRecord) -> SessionRow:
    """Return the row of a session in its present state."""
    head = session_head(record)
    # In its own column, so that using a session changes nothing else.
    del head["updatedAt"]
    return SessionRow(record.id, place(record.cwd), record.updated_at, codec.encode(head))


def session_from(row: SessionRow) -> SessionRecord:
    """Return the session of a row, without its turns. Raises ValueError if its format is malformed or newer."""
    return session_of({**codec.decode(row.head), "updatedAt": row.updated_at})


def differences(before: bytes, now: bytes, besides: Collection[tuple[str, ...]] = ()) -> Changes:
    """Return the members that differ between two heads of a session. Each config option is compared separately. The
    paths in `besides` are included with their present values even if they are equal."""
    if before == now and not besides:
        return {}
    old, new = _parts(before), _parts(now)
    differ = {path for path in old.keys() | new.keys() if old.get(path, _GONE) != new.get(path, _GONE)}
    return {path: new.get(path, _GONE) for path in differ.union(besides)}


def merged(mine: SessionRow, changes: Changes, theirs: bytes) -> SessionRow:
    """Return the session with `changes`, and with all other members from `theirs`, the head in the file. Returns `mine`
    unchanged if `theirs` cannot be read."""
    try:
        parts = _parts(theirs) | changes
        head = {path[0]: value for path, value in parts.items() if len(path) == 1 and value is not _GONE}
        head["config"] = {path[1]: value for path, value in parts.items() if len(path) == 2 and value is not _GONE}
        return mine._replace(cwd=place(session_of({**head, "updatedAt": mine.updated_at}).cwd), head=codec.encode(head))
    except ValueError:
        return mine


def _parts(head: bytes) -> Changes:
    fields: Any = codec.decode(head)
    if not (isinstance(fields, dict) and isinstance(cast("dict[str, Any]", fields).get("config"), dict)):
        raise ValueError("the head of the session is not an object with a config")
    entries = cast("dict[str, Any]", fields)
    options: dict[str, Any] = entries.pop("config")
    return {(name,): value for name, value in entries.items()} | {("config", name): options[name] for name in options}


def turn_row(turn: TurnRecord) -> TurnRow:
    """Return the row of a turn in its present state."""
    return TurnRow(turn.id, turn.is_open, codec.encode(turn_head(turn)), turn.unread or turn.pieces)


def joined(row: TurnRow) -> bytes:
    """Return the turn's contents as one bytes object."""
    contents = row.contents() if callable(row.contents) else row.contents
    return contents if isinstance(contents, bytes) else b"".join(contents or ())


def turn_from(row: TurnRow, read: Callable[[], bytes]) -> TurnRecord:
    """Return the turn of a row. `read` reads its contents if the row has none. Raises ValueError for a malformed or
    newer format."""
    return turn_of(codec.decode(row.head), read if row.contents is None else joined(row))


def interrupted(head: bytes) -> bytes:
    """Change the head of a running turn to failed, because its program died."""
    try:
        turn = turn_of(codec.decode(head), b"")
    except ValueError:
        # The reader of this turn raises the error.
        return head
    turn.status = "failed"
    turn.last_error = INTERRUPTED
    turn.ended_at = time()
    return codec.encode(turn_head(turn))


def place(cwd: str) -> str:
    """Return a working directory in the form of the tables."""
    return codec.encode_fragment(cwd).decode()


__all__ = ["decode_session", "encode_session"]

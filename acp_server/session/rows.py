"""What a session looks like in the tables of `acp_server.session.database`, and how it gets there and back.

It makes no statement and opens no file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import time
from typing import Any, Final, NamedTuple, TypeAlias, cast

from acp_server.errors import INTERNAL_ERROR
from acp_server.session.encoding import session_head, session_of, turn_head, turn_of
from acp_server.session.history import SessionRecord, TurnError, TurnRecord
from acp_server.wire import codec

INTERRUPTED: Final = TurnError(INTERNAL_ERROR, "The program ended while this turn was running")
"""Why a turn failed that was running when its program died."""


Changes: TypeAlias = dict[tuple[str, ...], Any]
"""New values for parts of a session's head, by their paths in it; `_GONE` for what is not there any more."""

_GONE: Final = object()


class SessionRow(NamedTuple):
    """A session without its turns."""

    id: str
    cwd: str
    """As JSON, for a client may name one that has no form in UTF-8."""
    updated_at: float
    head: bytes


class TurnRow(NamedTuple):
    """A turn. `running`: it has not ended. `contents`: also in pieces, which are joined where there is time for it;
    None if they were not read."""

    id: str
    running: bool
    head: bytes
    contents: bytes | Sequence[bytes] | None


def session_row(record: SessionRecord) -> SessionRow:
    """The session as it is now."""
    head = session_head(record)
    # In a column of its own, so that using a session does not change the rest.
    del head["updatedAt"]
    return SessionRow(record.id, place(record.cwd), record.updated_at, codec.encode(head))


def session_from(row: SessionRow) -> SessionRecord:
    """The session, without its turns. Raises ValueError if it is not of this version."""
    return session_of({**codec.decode(row.head), "updatedAt": row.updated_at})


def differences(before: bytes, now: bytes, besides: Collection[tuple[str, ...]] = ()) -> Changes:
    """What differs between two heads of a session, each option by itself; and what is `besides`, as it is now."""
    if before == now and not besides:
        return {}
    old, new = _parts(before), _parts(now)
    differ = {path for path in old.keys() | new.keys() if old.get(path, _GONE) != new.get(path, _GONE)}
    return {path: new.get(path, _GONE) for path in differ.union(besides)}


def merged(mine: SessionRow, changes: Changes, theirs: bytes) -> SessionRow:
    """The session with these changes, which are of `mine`, and with all else as it is in `theirs`, the head in the
    file; all of it as in `mine`, if theirs cannot be read."""
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
        raise ValueError("not the head of a session")
    entries = cast("dict[str, Any]", fields)
    options: dict[str, Any] = entries.pop("config")
    return {(name,): value for name, value in entries.items()} | {("config", name): options[name] for name in options}


def turn_row(turn: TurnRecord) -> TurnRow:
    """The turn as it is now."""
    return TurnRow(turn.id, turn.is_open, codec.encode(turn_head(turn)), turn.pieces)


def joined(row: TurnRow) -> bytes:
    """The turn's contents."""
    return row.contents if isinstance(row.contents, bytes) else b"".join(row.contents or ())


def turn_from(row: TurnRow, read: Callable[[], bytes]) -> TurnRecord:
    """The turn; `read` has its contents if the row has not. Raises ValueError if it is not of this version."""
    return turn_of(codec.decode(row.head), read if row.contents is None else joined(row))


def interrupted(head: bytes) -> bytes:
    """The head of a turn, of which it is now known that its program died while it was running."""
    try:
        turn = turn_of(codec.decode(head), b"")
    except ValueError:
        # Its reader will say so.
        return head
    turn.status = "failed"
    turn.last_error = INTERRUPTED
    turn.ended_at = time()
    return codec.encode(turn_head(turn))


def place(cwd: str) -> str:
    """A working directory as it is in the tables."""
    return codec.encode_fragment(cwd).decode()

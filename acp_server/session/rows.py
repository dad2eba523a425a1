"""What a session looks like in the tables of `acp_server.session.database`, and how it gets there and back.

It makes no statement and opens no file.
"""

from __future__ import annotations

from time import time
from typing import Final, NamedTuple

from acp_server.errors import INTERNAL_ERROR
from acp_server.session.encoding import session_head, session_of, turn_head, turn_of
from acp_server.session.history import SessionRecord, TurnError, TurnRecord
from acp_server.wire import codec

INTERRUPTED: Final = TurnError(INTERNAL_ERROR, "The program ended while this turn was running")
"""Why a turn failed that was running when its program died."""


class SessionRow(NamedTuple):
    """A session without its turns."""

    id: str
    cwd: str
    """As JSON, for a client may name one that has no form in UTF-8."""
    updated_at: float
    head: bytes


class TurnRow(NamedTuple):
    """A turn. `running`: it has not ended."""

    id: str
    running: bool
    head: bytes
    contents: bytes


def session_row(record: SessionRecord) -> SessionRow:
    """The session as it is now."""
    head = session_head(record)
    # In a column of its own, so that using a session does not change the rest.
    del head["updatedAt"]
    return SessionRow(record.id, place(record.cwd), record.updated_at, codec.encode(head))


def session_from(row: SessionRow) -> SessionRecord:
    """The session, without its turns. Raises ValueError if it is not of this version."""
    return session_of({**codec.decode(row.head), "updatedAt": row.updated_at})


def turn_row(turn: TurnRecord) -> TurnRow:
    """The turn as it is now."""
    return TurnRow(turn.id, turn.is_open, codec.encode(turn_head(turn)), turn.contents)


def turn_from(row: TurnRow) -> TurnRecord:
    """The turn. Raises ValueError if it is not of this version."""
    return turn_of(codec.decode(row.head), row.contents)


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

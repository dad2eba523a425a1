"""The tables of `SqliteStore`: their versions, and every SQL statement for them.

This is blocking code, which is called from one thread at a time. This module handles rows. `acp_server.store.encoding`
encodes sessions as the content of rows.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Final

from acp_server.store.encoding import SessionRow, TurnRow, joined
from acp_server.store.sqlite_file import (
    Format,
    Owner,
    connect,
    is_alive,
    make_private,
    migrate,
    patiently,
    sweep,
    tighten_file,
    transaction,
)

logger: logging.Logger = logging.getLogger("acp_server.session")

BUSY: Final = 2.0
"""Seconds to wait for another program that is writing. It is less than the grace period (`Limits.grace`) of the end of
a turn, so that the reason for a failed save is logged."""

_FORMAT: Final = Format(
    0x41435053,  # "ACPS"
    (
        (
            """CREATE TABLE sessions (
                id TEXT PRIMARY KEY, cwd TEXT NOT NULL, updated_at REAL NOT NULL, head BLOB NOT NULL
            )""",
            "CREATE INDEX sessions_by_use ON sessions (updated_at DESC, id DESC)",
            "CREATE INDEX sessions_by_cwd ON sessions (cwd, updated_at DESC, id DESC)",
            """CREATE TABLE turns (
                seq INTEGER PRIMARY KEY,
                session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
                id TEXT NOT NULL,
                owner TEXT, -- the program in which it is running
                head BLOB NOT NULL,
                contents BLOB NOT NULL,
                UNIQUE (session_id, id)
            )""",
            "CREATE INDEX turns_in_order ON turns (session_id, seq)",
            "CREATE INDEX turns_running ON turns (owner) WHERE owner IS NOT NULL",
        ),
    ),
)

# CAST: a user who edits a row by hand may turn its BLOB into a text.
_SESSION: Final = "id, cwd, updated_at, CAST(head AS BLOB)"

_SAVE_TURN: Final = """
    INSERT INTO turns (session_id, id, owner, head, contents) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (session_id, id) DO UPDATE
    SET owner = excluded.owner, head = excluded.head, contents = excluded.contents
    WHERE turns.owner IS NOT NULL OR excluded.owner IS NULL"""
"""A turn that has ended is never replaced by an earlier state of itself."""

_BEGIN_TURN: Final = """
    INSERT INTO turns (session_id, id, owner, head, contents)
    SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1)
    ON CONFLICT DO NOTHING"""


class Gone(Exception):
    """Raised if the session was deleted, usually by another program."""


class Database:
    """An open file at `path`. A missing file is created with its folders. `patience`: while opening, seconds to wait
    for another program's lock, by default `BUSY`.

    All methods raise sqlite3.Error and OSError. The constructor also raises Foreign. A change is committed as a whole
    or not at all, and survives a crash of the program or of the machine right afterwards.
    """

    def __init__(self, path: Path, patience: float | None = None) -> None:
        self._path = path
        make_private(path, folders=True)
        with ExitStack() as opened:
            self._connection = _connect(path, BUSY if patience is None else patience)
            opened.callback(self._connection.close)
            self._owner: Owner | None = None
            patiently(lambda: _set_up(self._connection), BUSY if patience is None else patience)
            # After the set-up, which has verified that the file is ours.
            tighten_file(path)
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY * 1000:.0f}")
            self._open = opened.pop_all()
        # Also runs at the end of the program.
        self.close: Callable[[], object] = weakref.finalize(self, self._open.close)
        sweep(path)

    def save(
        self,
        row: SessionRow,
        turns: Sequence[TurnRow],
        *,
        new: bool,
        merge: Callable[[bytes], SessionRow] | None = None,
    ) -> None:
        """Save a session and some of its turns. Unless the session is `new`, only the time of its last use is written,
        and the head that `merge` makes from the head in the file. Raises Gone if the session is not new and not in the
        file."""
        owner = self._owned() if any(turn.running for turn in turns) else None
        with self._writing() as connection:
            if new:
                connection.execute(
                    "INSERT INTO sessions (id, cwd, updated_at, head) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
                    "SET cwd = excluded.cwd, updated_at = excluded.updated_at, head = excluded.head",
                    row,
                )
            else:
                used = "UPDATE sessions SET updated_at = max(updated_at, ?) WHERE id = ?"
                if not connection.execute(used, (row.updated_at, row.id)).rowcount:
                    raise Gone
                if merge is not None:
                    found = connection.execute("SELECT CAST(head AS BLOB) FROM sessions WHERE id = ?", (row.id,))
                    _, cwd, _, head = merge(found.fetchone()[0])
                    connection.execute("UPDATE sessions SET cwd = ?, head = ? WHERE id = ?", (cwd, head, row.id))
            for turn in turns:
                connection.execute(
                    _SAVE_TURN, (row.id, turn.id, owner if turn.running else None, turn.head, joined(turn))
                )

    def begin(self, session_id: str, turn: TurnRow) -> None:
        """Store that a turn of this program runs. Has no effect if the turn is already in the file, or its session is
        not."""
        owner = self._owned()
        with self._writing() as connection:
            connection.execute(_BEGIN_TURN, (session_id, turn.id, owner, turn.head, joined(turn)))

    def load(
        self, session_id: str, interrupted: Callable[[bytes], bytes], most: int
    ) -> tuple[SessionRow, list[TurnRow]] | None:
        """Return a session and its turns, in the order in which they began. The last turns come with their contents, up
        to `most` bytes in total.

        `interrupted`: converts the head of a turn whose program has died.
        """
        self._bury(interrupted)
        with self._reading() as connection:
            found = connection.execute(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,)).fetchone()
            if found is None:
                return None
            turns = connection.execute(
                "SELECT seq, id, owner IS NOT NULL, CAST(head AS BLOB), length(contents) FROM turns "
                "WHERE session_id = ? ORDER BY seq",
                (session_id,),
            ).fetchall()
            first = None
            for seq, *_, size in reversed(turns):
                most -= size
                if most < 0:
                    break
                first = seq
            query = "SELECT seq, CAST(contents AS BLOB) FROM turns WHERE session_id = ? AND seq >= ?"
            contents = dict(connection.execute(query, (session_id, first)))
            rows = [TurnRow(id, bool(owned), head, contents.get(seq)) for seq, id, owned, head, _ in turns]
            return SessionRow(*found), rows

    def list(self, cwd: str | None, behind: tuple[float, str] | None, limit: int) -> list[SessionRow]:
        """Return up to `limit` sessions, the most recently used first. `cwd`: only sessions of this folder. `behind`:
        only sessions after this position."""
        conditions: list[str] = []
        values: list[object] = []
        if cwd is not None:
            conditions.append("cwd = ?")
            values.append(cwd)
        if behind is not None:
            conditions.append("(updated_at, id) < (?, ?)")
            values += behind
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT {_SESSION} FROM sessions {where} ORDER BY updated_at DESC, id DESC LIMIT ?"
        return [SessionRow(*row) for row in self._connection.execute(query, (*values, limit))]

    def delete(self, session_id: str) -> None:
        """Delete a session and its turns. Raises nothing if there is no such session."""
        with self._writing() as connection:
            connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _bury(self, interrupted: Callable[[bytes], bytes]) -> None:
        running = self._connection.execute("SELECT DISTINCT owner FROM turns WHERE owner IS NOT NULL").fetchall()
        mine = None if self._owner is None else self._owner.id
        dead = [id for (id,) in running if id != mine and not is_alive(self._path, id)]
        if not dead:
            return
        with self._writing() as connection:
            for id in dead:
                for seq, head in connection.execute(
                    "SELECT seq, CAST(head AS BLOB) FROM turns WHERE owner = ?", (id,)
                ).fetchall():
                    connection.execute(
                        "UPDATE turns SET owner = NULL, head = ? WHERE seq = ?", (interrupted(head), seq)
                    )

    def _owned(self) -> str:
        if self._owner is None:
            self._owner = Owner(self._path)
            self._open.callback(self._owner.close)
        return self._owner.id

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._connection, patience=BUSY)

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._connection, "BEGIN", patience=BUSY)


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _set_up(connection: sqlite3.Connection) -> None:
    # Checked before anything is changed in a file of another program.
    _FORMAT.check(connection)
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = wal")
    # A saved turn must survive a loss of power, since its response may have been sent.
    connection.execute("PRAGMA synchronous = full")
    connection.execute("PRAGMA foreign_keys = on")
    migrate(connection, _FORMAT)


_PATIENCE: Final = 0.1
"""Seconds to wait for another program with an exclusive lock. The event loop is blocked while waiting."""


class Reader:
    """Reads the contents of turns that are not in memory from the file at `path`. Raises sqlite3.Error.

    It has its own connection, which no writer blocks. So it may be used in the event loop: if a prompt handler accesses
    a turn, the turn is read synchronously. It writes nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def contents(self, session_id: str, turn_id: str) -> bytes | None:
        """Return the contents of a turn; None if the turn was deleted."""
        query = "SELECT CAST(contents AS BLOB) FROM turns WHERE session_id = ? AND id = ?"
        with self._lock:
            if self._connection is None:
                self._connection = _connect_to_read(self._path)
            found = self._connection.execute(query, (session_id, turn_id)).fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        """Close the connection. The next read opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _connect_to_read(path: Path) -> sqlite3.Connection:
    connection = connect(path, _PATIENCE)
    try:
        connection.execute("PRAGMA query_only = on")
    except BaseException:
        with closing(connection):
            raise
    return connection

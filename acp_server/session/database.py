"""The file behind `SqliteStore`: its tables, its versions, and every statement that is made to it.

It is plain, blocking code that is called from one thread at a time. It knows rows and not sessions: what is in them is
the matter of `acp_server.session.rows`.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from acp_server.session.owner import Owner, is_alive, sweep
from acp_server.session.rights import lax_rights, tighten
from acp_server.session.rows import SessionRow, TurnRow, joined

logger = logging.getLogger("acp_server.session")

T = TypeVar("T")

BUSY: Final = 2.0
"""Seconds to wait for another program that is writing. Less than the time that the end of a turn has (`Limits.grace`),
so that it is known why nothing was saved."""

_APPLICATION_ID: Final = 0x41435053  # "ACPS"

_MIGRATIONS: Final = (
    (
        f"PRAGMA application_id = {_APPLICATION_ID}",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, cwd TEXT NOT NULL, updated_at REAL NOT NULL, head BLOB NOT NULL)",
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
)
"""What makes each version of the file from the one before; the file's `user_version` is the number of those done."""

# As bytes, whatever somebody who has changed them by hand has made of them.
_SESSION: Final = "id, cwd, updated_at, CAST(head AS BLOB)"

_SAVE_TURN: Final = """
    INSERT INTO turns (session_id, id, owner, head, contents) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (session_id, id) DO UPDATE
    SET owner = excluded.owner, head = excluded.head, contents = excluded.contents
    WHERE turns.owner IS NOT NULL OR excluded.owner IS NULL"""
"""A turn that has ended is never replaced by what it was before."""

_BEGIN_TURN: Final = """
    INSERT INTO turns (session_id, id, owner, head, contents)
    SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1)
    ON CONFLICT DO NOTHING"""


class Gone(Exception):
    """The session has been deleted, by another program as a rule."""


class Foreign(Exception):
    """The file is not for this version of the package, or for another program altogether. The text says which."""


class Database:
    """An open file at `path`, which is made if there is none; so are its folders. `patience`: seconds to wait for
    another program that is in the way of that; `BUSY` if it is not given.

    All methods raise sqlite3.Error and OSError, and making one raises Foreign besides. What they change is there in
    full or not at all, and it stays there if the program or the machine ends in the moment after.
    """

    def __init__(self, path: Path, patience: float | None = None) -> None:
        self._path = path
        _make_private(path)
        with ExitStack() as opened:
            self._connection = _connect(path, BUSY if patience is None else patience)
            opened.callback(self._connection.close)
            self._owner: Owner | None = None
            _patiently(lambda: _set_up(self._connection), patience)
            # Only now, for now it is known to be ours.
            _tighten(path)
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY * 1000:.0f}")
            self._open = opened.pop_all()
        # Also at the end of the program, if nobody closes it.
        self.close = weakref.finalize(self, self._open.close)
        sweep(path)

    def save(
        self,
        row: SessionRow,
        turns: Sequence[TurnRow],
        *,
        new: bool,
        merge: Callable[[bytes], SessionRow] | None = None,
    ) -> None:
        """Keep a session and some of its turns; if it is not `new`, only when it was last used, and what `merge` makes
        of the head that is in the file. Raises Gone if it is not new and not there."""
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
                    _SAVE_TURN,
                    (row.id, turn.id, owner if turn.running else None, turn.head, joined(turn)),
                )

    def begin(self, session_id: str, turn: TurnRow) -> None:
        """Note that a turn of this program runs, unless more is known of it already, or its session is gone."""
        owner = self._owned()
        with self._writing() as connection:
            connection.execute(_BEGIN_TURN, (session_id, turn.id, owner, turn.head, joined(turn)))

    def load(
        self, session_id: str, interrupted: Callable[[bytes], bytes], most: int
    ) -> tuple[SessionRow, list[TurnRow]] | None:
        """A session and its turns, in the order in which they began; with contents, up to `most` bytes of them, only
        the last ones.

        `interrupted`: what to make of the head of a turn whose program has died.
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
        """Up to `limit` sessions, the one used last first: those of `cwd`, and those behind a place in that order."""
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
        """Forget a session and its turns. No error if there is none."""
        with self._writing() as connection:
            connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _bury(self, interrupted: Callable[[bytes], bytes]) -> None:
        running = self._connection.execute("SELECT DISTINCT owner FROM turns WHERE owner IS NOT NULL").fetchall()
        dead = [id for (id,) in running if not self._is_running(id) and not is_alive(self._path, id)]
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

    def _is_running(self, id: str) -> bool:
        return self._owner is not None and id == self._owner.id

    def _owned(self) -> str:
        if self._owner is None:
            self._owner = Owner(self._path)
            self._open.callback(self._owner.close)
        return self._owner.id

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        # Immediate, so that whoever has to wait for another program does so here and not in the middle.
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        connection = self._connection
        _patiently(lambda: connection.execute(begin))
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            # Some errors have ended it already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


PROBLEMS: Final = (sqlite3.Error, OSError, Foreign)
"""What is raised if a file cannot be used."""


def explain(error: BaseException) -> str:
    """Why the file cannot be used, in words fit for a client: without its path."""
    return reason(error) or "it fails"


def reason(error: BaseException) -> str | None:
    """The same; None for what has no such words."""
    if isinstance(error, Foreign):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if getattr(error, "sqlite_errorcode", 0) in _NOT_WRITTEN:
        return "it cannot be written: the disk fails, or a limit on the size of files is reached (ulimit -f)"
    return _REASONS.get(_code(error))


def is_busy(error: BaseException) -> bool:
    """Whether another program is in the way, which will not be for ever."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


_NOT_WRITTEN: Final = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)

_REASONS: Final = {
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it cannot be written to",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "it cannot be opened",
    sqlite3.SQLITE_AUTH: "it cannot be opened",
    sqlite3.SQLITE_IOERR: "it cannot be read or written",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is damaged, or something else altogether",
    sqlite3.SQLITE_TOOBIG: "something in it is too large",
}


def _make_private(path: Path) -> None:
    """An empty file that only its owner can read, unless there is one; SQLite gives those beside it the same rights."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        # Never one that is there: closing it would take away the locks that this program has on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        pass


def _tighten(path: Path) -> None:
    """Let only its owner read a file that was there already, and those of SQLite beside it."""
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        try:
            if (mode := lax_rights(each)) is not None:
                tighten(each)
                logger.warning("%s had the rights %s; from now on only its owner may read it", each, mode)
        except FileNotFoundError:
            pass  # SQLite has just removed it
        except OSError as error:
            logger.warning("others may read %s, and that cannot be changed: %s", each, error.strerror)


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _set_up(connection: sqlite3.Connection) -> None:
    # In a transaction, for another program may just be making its tables.
    connection.execute("BEGIN")
    try:
        _check(connection)
    finally:
        connection.execute("ROLLBACK")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = wal")
    # An answer that is out is not taken back by a loss of power either.
    connection.execute("PRAGMA synchronous = full")
    connection.execute("PRAGMA foreign_keys = on")
    if _version(connection) < len(_MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Others may have done it meanwhile.
            _check(connection)
            for migration in _MIGRATIONS[_version(connection) :]:
                for statement in migration:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _check(connection: sqlite3.Connection) -> None:
    """Whether the file is empty or ours, and of a version that we know. Raises Foreign."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or tables:
            raise Foreign("it is the database of another program")
    if (version := _version(connection)) > len(_MIGRATIONS):
        raise Foreign(
            f"it was written by a newer version of this program (format {version}, this one knows {len(_MIGRATIONS)})"
        )


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _patiently(step: Callable[[], T], patience: float | None = None) -> T:
    """Do `step`, again and again while another program is in the way, for some locks are refused without waiting."""
    end = time.monotonic() + (BUSY if patience is None else patience)
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)

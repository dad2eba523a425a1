"""The rules for every SQLite file of this package: only its owner may read the file, it has this package's application
id, its tables have a version, and its errors have messages.

This module knows no tables. The tables of sessions are in `acp_server.store.sqlite_tables`, the tables of chats in
`acp_server.apps.gateway.store`.

An `Owner` shows other programs with the same store that this program runs. It holds a lock file locked. The lock is
SQLite's, because that works equally on every system, ends with the process in any case, and can be tried without
waiting. This module does not decide what happens if a program dies.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from glob import escape
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from acp_server.store import lax_rights, tighten

logger: logging.Logger = logging.getLogger("acp_server.session")

T = TypeVar("T")


class Foreign(Exception):
    """Raised if the file was written by a newer version of the package, or by another program. The text says which."""


class Format(NamedTuple):
    """Identifies the files of this package, and has the versions of their tables."""

    application_id: int
    """Identifies the program that wrote the file."""
    migrations: tuple[tuple[str, ...], ...]
    """For each version, the statements that make its tables from the previous version. The file's `user_version` is the
    number of completed migrations."""

    def check(self, connection: sqlite3.Connection) -> int:
        """Return the version of the tables, 0 for an empty file. Raises Foreign for a file of another program or a
        newer version."""
        # In one transaction: another program may be creating the tables, and half-created tables look like a foreign
        # file.
        with transaction(connection, "BEGIN"):
            application, version, tables = (
                connection.execute(query).fetchone()[0]
                for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
            )
        if application != self.application_id and (application or version or tables):
            raise Foreign("the file is a database of another program")
        if version > (known := len(self.migrations)):
            raise Foreign(
                f"the file was written by a newer version of this program (its format is {version}, this version "
                f"reads {known})"
            )
        return version


def migrate(connection: sqlite3.Connection, kind: Format) -> None:
    """Migrate the tables to the newest version. Raises Foreign."""
    if kind.check(connection) == len(kind.migrations):
        return
    with transaction(connection):
        # Checked again inside the transaction, since another program may have migrated meanwhile.
        for migration in kind.migrations[kind.check(connection) :]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {kind.application_id}")
        connection.execute(f"PRAGMA user_version = {len(kind.migrations)}")


@contextmanager
def transaction(
    connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE", patience: float = 0
) -> Generator[sqlite3.Connection]:
    """Commit everything done in the block as a whole, or roll it back. An immediate transaction waits for other
    programs only at its beginning, up to `patience` seconds. Transactions may be nested."""
    if connection.in_transaction:
        yield connection
        return
    patiently(lambda: connection.execute(begin), patience)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have ended it already. A transaction that stayed open would include all later statements.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def patiently(step: Callable[[], T], patience: float) -> T:
    """Retry `step` for up to `patience` seconds while another program holds a lock. SQLite refuses some locks without
    waiting."""
    end = time.monotonic() + patience
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)


def connect(path: Path, patience: float = 0) -> sqlite3.Connection:
    """Return a connection to an existing file. Its statements wait up to `patience` seconds for other programs."""
    uri = f"file:{quote(os.fspath(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)


def make_private(path: Path, *, folders: bool = False) -> None:
    """Create an empty file that only its owner can read, unless the file exists. SQLite gives its additional files the
    same permissions. `folders`: create missing parent folders too."""
    missing = [folder for folder in path.parents if folders and not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        # Never opens an existing file: closing it would release the locks that this process has on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        pass


def tighten_file(path: Path) -> None:
    """Let only the owner read an existing file, and SQLite's additional files."""
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        try:
            if (mode := lax_rights(each)) is not None:
                tighten(each)
                logger.warning("the permissions of %s were %s; now only the owner may read the file", each, mode)
        except FileNotFoundError:
            pass  # SQLite has just removed it
        except OSError as error:
            logger.warning(
                "other users may be able to read %s, because its permissions cannot be changed: %s",
                each,
                error.strerror,
            )


PROBLEMS: Final = (sqlite3.Error, OSError, Foreign)
"""The exceptions that mean that a file cannot be used."""


def explain(error: BaseException) -> str:
    """Return why the file cannot be used, as a text for a client, without the file's path."""
    return reason(error) or "it fails"


def reason(error: BaseException) -> str | None:
    """Return the same as `explain`, but None for an error without a message."""
    if isinstance(error, Foreign):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if getattr(error, "sqlite_errorcode", 0) in _NOT_WRITTEN:
        return "it cannot be written: the disk fails, or a limit on the size of files is reached (ulimit -f)"
    return _REASONS.get(_code(error))


def is_busy(error: BaseException) -> bool:
    """Whether another program has locked the file, so that a retry may work."""
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


_MARK: Final = "-owner-"


class Owner:
    """Creates this program's lock file beside the store at `base`, and keeps it locked until `close`. Raises OSError
    and sqlite3.Error."""

    def __init__(self, base: Path) -> None:
        while True:
            self.id: str = os.urandom(8).hex()
            self._path = _lock_file(base, self.id)
            # Readable for its owner only, like the store.
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with ExitStack() as opened:
                self._connection = opened.enter_context(closing(connect(self._path)))
                if _lock(self._connection) and self._path.exists():
                    opened.pop_all()
                    return
            # Another process that sweeps took it for a dead program's before it was locked.

    def close(self) -> None:
        """Unlock and remove the lock file. Other programs then consider this program dead."""
        self._connection.close()
        self._path.unlink(missing_ok=True)


def is_alive(base: Path, id: str) -> bool:
    """Return whether the program with this lock file runs; True if that cannot be determined. Removes the file of a
    dead program."""
    path = _lock_file(base, id)
    try:
        with closing(connect(path)) as connection:
            if not _lock(connection):
                return True
            if os.name != "nt":
                # Removed before it is unlocked, so that a process that has just created it does not lock a removed
                # file.
                path.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    except (sqlite3.OperationalError, OSError) as error:
        if not path.exists():
            return False
        logger.warning("cannot determine whether the program that made the lock file %s is running: %s", path, error)
        return True
    except sqlite3.DatabaseError:
        # Another file with such a name.
        return False
    return False


def sweep(base: Path) -> None:
    """Remove the lock files of all dead programs."""
    for path in base.parent.glob(f"{escape(base.name)}{_MARK}{'[0-9a-f]' * 16}"):
        is_alive(base, path.name.rpartition("-")[2])


def _lock_file(base: Path, id: str) -> Path:
    return base.with_name(f"{base.name}{_MARK}{id}")


def _lock(connection: sqlite3.Connection) -> bool:
    try:
        # It has no content, so it needs no journal file beside it.
        connection.execute("PRAGMA journal_mode = memory")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        raise
    return True


__all__ = ["PROBLEMS", "Format", "explain", "make_private", "migrate", "reason", "transaction"]

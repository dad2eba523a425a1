"""A sign of life of one program, for the others that use the same store.

The sign is a file that its program holds locked. The lock is SQLite's own, which is the same on every system, goes with
the process however that ends, and can be tried without waiting. What follows from a program being dead is not decided
here.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import ExitStack, closing
from glob import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

logger = logging.getLogger("acp_server.session")

_MARK: Final = "-owner-"


class Owner:
    """This program's sign of life beside the store at `base`, until it is closed. Raises OSError and sqlite3.Error."""

    def __init__(self, base: Path) -> None:
        while True:
            self.id = os.urandom(8).hex()
            self._path = _sign(base, self.id)
            # Readable for its owner only, like the store.
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with ExitStack() as opened:
                self._connection = opened.enter_context(closing(_connect(self._path)))
                if _lock(self._connection) and self._path.exists():
                    opened.pop_all()
                    return
            # Another process that cleans up took it for a dead one, in the moment before it was locked.

    def close(self) -> None:
        """From now on this program counts as dead."""
        self._connection.close()
        self._path.unlink(missing_ok=True)


def is_alive(base: Path, id: str) -> bool:
    """Whether the program with this sign lives, as far as can be told. The sign of a dead one is removed."""
    path = _sign(base, id)
    try:
        with closing(_connect(path)) as connection:
            if not _lock(connection):
                return True
            if os.name != "nt":
                # Before the lock is let go, so that a process that has just made it does not lock a file that is gone.
                path.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    except (sqlite3.OperationalError, OSError) as error:
        if not path.exists():
            return False
        logger.warning("it cannot be told whether the program of %s lives: %s", path, error)
        return True
    except sqlite3.DatabaseError:
        # Something else that has its name.
        return False
    return False


def sweep(base: Path, mine: str | None = None) -> None:
    """Remove the signs of all that are dead."""
    for path in base.parent.glob(f"{escape(base.name)}{_MARK}{'[0-9a-f]' * 16}"):
        if (id := path.name.rpartition("-")[2]) != mine:
            is_alive(base, id)


def _sign(base: Path, id: str) -> Path:
    return base.with_name(f"{base.name}{_MARK}{id}")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fspath(path))}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False
    )


def _lock(connection: sqlite3.Connection) -> bool:
    try:
        # It has no content, so there is nothing to keep a file beside it for.
        connection.execute("PRAGMA journal_mode = memory")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        raise
    return True

"""Reads what turns have said from the file of a `SqliteStore`, for turns whose contents are not in memory.

It has a connection of its own, which no writer holds up, so it may be used in the event loop: a turn that is looked at
in a prompt handler is read there and then. It changes nothing.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

_PATIENCE: Final = 0.1
"""Seconds to wait for another program that has the whole file for itself. The event loop stands still for as long."""


class Reader:
    """The contents of turns in the file at `path`. Raises sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        self._uri = f"file:{quote(os.fspath(path))}?mode=rw"
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def contents(self, session_id: str, turn_id: str) -> bytes | None:
        """What was said in a turn; None if it is not there any more."""
        query = "SELECT CAST(contents AS BLOB) FROM turns WHERE session_id = ? AND id = ?"
        with self._lock:
            if self._connection is None:
                self._connection = _connect(self._uri)
            found = self._connection.execute(query, (session_id, turn_id)).fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        """Let go of the file. It is opened again if it is needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA query_only = on")
    except BaseException:
        with closing(connection):
            raise
    return connection

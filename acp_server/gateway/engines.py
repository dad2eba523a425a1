"""Which engine keeps the chats: the one place that knows them all."""

from __future__ import annotations

from pathlib import Path

from acp_server.errors import UsageError
from acp_server.gateway.sqlite_engine import SqliteEngine
from acp_server.gateway.store import Engine

Place = Path | str
"""A file, or the URL of a database server."""


def open_engine(place: Place | None) -> Engine:
    """Open what keeps the chats at this place; in memory for None. Raises UsageError if it cannot be used."""
    if place is None or isinstance(place, Path):
        return SqliteEngine(place)
    try:
        from acp_server.gateway.postgres_engine import PostgresEngine
    except ImportError as error:
        raise UsageError(f"this --store needs {error.name}: pip install 'acp-server[postgres]'") from None
    return PostgresEngine(place)

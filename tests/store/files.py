"""For tests of the store in a file: the file, the store, the same file as another program has it, and what is in it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acp_server.store.records import SessionRecord
from acp_server.store.sqlite_store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path, page_size=3) as store:
        yield store


@pytest.fixture
def other(path: Path) -> Iterator[SqliteStore]:
    """The same file, as another program has it."""
    with SqliteStore(path, page_size=3) as store:
        yield store


def texts(record: SessionRecord | None) -> list[str]:
    assert record is not None
    return [turn.prompt[0]["text"] for turn in record.turns]


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()

"""Stores conversations, chats and messages in a file, in memory, or on a database server
(`acp_server.apps.gateway.postgres_engine`).

A confirmed change survives a crash of the process: it is committed before its client is notified.

A transaction is a function that one thread runs from beginning to end. So the event loop never waits for a disk, and a
transaction costs one thread switch for any number of statements. No cancelled task leaves one open, and the same code
works on asyncio and trio.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

import anyio
from anyio import to_thread

from acp_server import UsageError
from acp_server.apps.gateway.rows import Rows
from acp_server.store.sqlite_file import PROBLEMS, Format, make_private, migrate, reason, transaction

P = ParamSpec("P")
T = TypeVar("T")

Location = Path | str
"""A file, or the URL of a database server."""

_FORMAT: Final = Format(
    0x41435047,  # "ACPG"
    (
        (
            """CREATE TABLE conversations (
                id TEXT PRIMARY KEY, owner TEXT NOT NULL, bot_id TEXT, deleted INTEGER NOT NULL, doc TEXT NOT NULL
            ) WITHOUT ROWID""",
            "CREATE INDEX conversations_of ON conversations (owner, id)",
            """CREATE TABLE chats (
                id TEXT PRIMARY KEY, conversation_id TEXT NOT NULL, query_id TEXT, status TEXT NOT NULL,
                doc TEXT NOT NULL
            ) WITHOUT ROWID""",
            "CREATE INDEX chats_of ON chats (conversation_id)",
            "CREATE INDEX cancelled_for ON chats (query_id) WHERE status = 'canceled'",
            "CREATE INDEX chats_in ON chats (status) WHERE status IN ('created', 'in_progress', 'requires_action')",
            """CREATE TABLE messages (
                seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, conversation_id TEXT NOT NULL,
                section_id TEXT NOT NULL, chat_id TEXT, type TEXT NOT NULL, known_to TEXT, doc TEXT NOT NULL
            )""",
            "CREATE INDEX messages_of ON messages (conversation_id, seq)",
            "CREATE INDEX messages_in ON messages (chat_id, seq) WHERE chat_id IS NOT NULL",
        ),
        (
            "CREATE TABLE purged (id TEXT NOT NULL)",
            "INSERT INTO purged VALUES ('0')",
        ),
        (
            """CREATE TABLE nodes (
                id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL, url TEXT NOT NULL, channel TEXT NOT NULL,
                ends REAL NOT NULL
            )""",
            """CREATE TABLE commands (
                id INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, asker INTEGER NOT NULL, doc TEXT NOT NULL,
                answer TEXT
            )""",
            "ALTER TABLE chats ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE chats ADD COLUMN node INTEGER",
            """CREATE UNIQUE INDEX running_in ON chats (conversation_id)
                WHERE node IS NOT NULL AND status IN ('created', 'in_progress')""",
            "CREATE INDEX chats_at ON chats (node) WHERE node IS NOT NULL",
            "CREATE INDEX busy_of ON chats (owner) WHERE node IS NOT NULL",
        ),
    ),
)
_CLOCK: Final = "(julianday('now') - 2440587.5) * 86400.0"


class Unsure(Exception):
    """Raised if it is unknown whether the transaction was committed, because the connection was lost at that moment."""


class Engine(Protocol):
    """Runs transactions. Its methods may be called in any thread, and block as long as a disk or a server takes."""

    at_once: int
    """The number of transactions that it can run at the same time."""
    shared: bool
    """Whether other gateways may use it at the same time."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run `work` as one transaction. Raises its exceptions, Unsure, and the engine's own errors."""
        ...

    def explained(self) -> AbstractContextManager[None]:
        """Raise UsageError with the reason if the engine fails in the block."""
        ...

    def notices(self, channel: str) -> AsyncGenerator[str]:
        """Yield the notifications on a channel, also from other gateways. The first one is "", after which all
        notifications are received. The generator must be closed. Raises the engine's error if the connection is lost.
        Only for a `shared` engine."""
        ...

    def close(self) -> None:
        """Close the engine. No transaction is possible afterwards."""
        ...


class Store:
    """Runs the transactions of tasks on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._places = anyio.CapacityLimiter(engine.at_once)

    async def do(self, work: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work`, a function that gets `Rows`, as one transaction. It must not use objects of the event loop, but
        may add to `Rows.afterwards`. Raises the exceptions of `work` and the engine's errors; then nothing has changed.

        A cancel may prevent the transaction from beginning, but does not interrupt it. If it has begun, the caller
        always gets its result.
        """

        def transact(rows: Rows) -> tuple[T, list[Callable[[], object]]]:
            return work(rows, *args, **kwargs), rows.afterwards

        value, afterwards = await to_thread.run_sync(self._engine.transact, transact, limiter=self._places)
        for each in afterwards:
            each()
        return value


class SqliteEngine:
    """The engine without dependencies: one SQLite file, or memory. A file belongs to one gateway at a time. See
    Engine."""

    at_once = 1
    shared = False

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, or memory if `path` is None. Raises UsageError if the file cannot be used."""
        self._path = path
        self._lock = threading.Lock()
        with ExitStack() as opened, self.explained():
            if path is not None:
                make_private(path)
            # Waiting for another process would block every chat, so nothing waits. The lock separates the threads.
            self._db = sqlite3.connect(
                ":memory:" if path is None else path, timeout=0, isolation_level=None, check_same_thread=False
            )
            opened.callback(self.close)
            self._prepare()
            opened.pop_all()

    def _prepare(self) -> None:
        db = self._db
        _FORMAT.check(db)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        # A crash of the process loses nothing then; a crash of the machine may lose the last moment.
        db.execute("PRAGMA synchronous = NORMAL")
        with transaction(db):  # takes the file's lock, even if its tables are up to date
            migrate(db, _FORMAT)

    def transact(self, work: Callable[[Rows], T]) -> T:
        """See Engine."""
        # The file belongs to this program alone, so a read-only transaction needs no lock on it.
        with self._lock, transaction(self._db, "BEGIN"):
            return work(Rows(self._db.execute, _CLOCK))

    def notices(self, channel: str) -> AsyncGenerator[str]:
        """See Engine."""
        raise NotImplementedError("a gateway with its store in a file has no other nodes")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def explained(self) -> Generator[None]:
        """Raise UsageError if the file fails in the block."""
        try:
            yield
        except PROBLEMS as error:
            raise UsageError(f"{self._path} cannot be used: {reason(error) or error}") from None


def open_engine(place: Location | None) -> Engine:
    """Open the engine for this location; in memory for None. Raises UsageError if it cannot be used."""
    if place is None or isinstance(place, Path):
        return SqliteEngine(place)
    try:
        from acp_server.apps.gateway.postgres_engine import PostgresEngine
    except ImportError as error:
        raise UsageError(f"this --store needs {error.name}: pip install 'acp-server[postgres]'") from None
    return PostgresEngine(place)

"""The engine for a database server: PostgreSQL, with psycopg. Many gateways may share a database.

Concurrent changes of the same rows are serialized: if a transaction conflicts with another, it is retried. The rows say
which gateway may change a chat (`acp_server.apps.gateway.nodes`).

The connections are blocking, and are used in threads (`acp_server.apps.gateway.store`), because psycopg's async
connections support only asyncio.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Final, TypeVar

import anyio
import psycopg
from anyio import to_thread
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from acp_server import UsageError
from acp_server.apps.gateway.rows import Cursor, Rows
from acp_server.apps.gateway.store import Unsure

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

T = TypeVar("T")
_Connection = psycopg.Connection[tuple[Any, ...]]

_MIGRATIONS: Final = (
    (
        """CREATE TABLE conversations (
            id TEXT COLLATE "C" PRIMARY KEY, owner TEXT NOT NULL, bot_id TEXT, deleted INTEGER NOT NULL,
            doc TEXT NOT NULL
        )""",
        "CREATE INDEX conversations_of ON conversations (owner, length(id) DESC, id DESC)",
        "CREATE INDEX conversations_deleted ON conversations (id) WHERE deleted = 1",
        """CREATE TABLE chats (
            id TEXT COLLATE "C" PRIMARY KEY, conversation_id TEXT NOT NULL, query_id TEXT, status TEXT NOT NULL,
            doc TEXT NOT NULL
        )""",
        "CREATE INDEX chats_of ON chats (conversation_id)",
        "CREATE INDEX cancelled_for ON chats (query_id) WHERE status = 'canceled'",
        "CREATE INDEX chats_in ON chats (status) WHERE status IN ('created', 'in_progress', 'requires_action')",
        """CREATE TABLE messages (
            seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE,
            conversation_id TEXT NOT NULL, section_id TEXT NOT NULL, chat_id TEXT, type TEXT NOT NULL, known_to TEXT,
            doc TEXT NOT NULL
        )""",
        "CREATE INDEX messages_of ON messages (conversation_id, seq)",
        "CREATE INDEX messages_in ON messages (chat_id, seq) WHERE chat_id IS NOT NULL",
        "CREATE TABLE purged (id TEXT NOT NULL)",
        "INSERT INTO purged VALUES ('0')",
    ),
    (
        """CREATE TABLE nodes (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot INTEGER NOT NULL, url TEXT NOT NULL,
            channel TEXT NOT NULL, ends DOUBLE PRECISION NOT NULL
        )""",
        "CREATE UNIQUE INDEX nodes_slot ON nodes (slot)",
        "ALTER TABLE chats ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE chats ADD COLUMN node BIGINT REFERENCES nodes (id)",
        """CREATE UNIQUE INDEX running_in ON chats (conversation_id)
            WHERE node IS NOT NULL AND status IN ('created', 'in_progress')""",
        "CREATE INDEX chats_at ON chats (node) WHERE node IS NOT NULL",
        "CREATE INDEX busy_of ON chats (owner) WHERE node IS NOT NULL",
        """CREATE TABLE commands (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node BIGINT NOT NULL, asker BIGINT NOT NULL,
            doc TEXT NOT NULL, answer TEXT
        )""",
        "CREATE INDEX commands_for ON commands (node)",
        "CREATE INDEX commands_of ON commands (asker)",
    ),
    (
        """DELETE FROM commands
            WHERE node NOT IN (SELECT id FROM nodes) OR asker NOT IN (SELECT id FROM nodes)""",
        """ALTER TABLE commands
            ADD CONSTRAINT commands_node_fkey FOREIGN KEY (node) REFERENCES nodes (id),
            ADD CONSTRAINT commands_asker_fkey FOREIGN KEY (asker) REFERENCES nodes (id)""",
    ),
)
"""For each version, the statements that make its tables from the previous version."""

_GATE: Final = 0x4143504700
"""The advisory lock with which gateways open the database one after another."""
_CLOCK: Final = "extract(epoch FROM clock_timestamp())::float8"
_RACES: Final = frozenset({"running_in", "nodes_slot", "chats_node_fkey", "commands_node_fkey", "commands_asker_fkey"})
"""Constraints that refuse the second of two transactions that did not see each other. A retry sees the first
transaction."""

_PATIENCE: Final = 30.0
"""Seconds for which a transaction waits for the server, or is retried after conflicts."""
_LOOK: Final = 0.5
"""Seconds after which the engine checks whether it is still useful to wait for a connection."""
_SETTINGS: Final[dict[str, Any]] = {
    # So that a dead server is noticed, and a slow one has enough time.
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    # The same for the server: the locks of a gateway whose machine is gone are released after half a minute.
    "options": "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    " -c statement_timeout=60000 -c idle_in_transaction_session_timeout=60000",
}


class PostgresEngine:
    """See `acp_server.apps.gateway.store.Engine`."""

    at_once = 4
    shared = True

    def __init__(self, url: str) -> None:
        """Connect, and create missing tables. Raises UsageError if the database cannot be used."""
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # libpq repeats the URL, which may have a password.
            raise UsageError("--store: not a database URL") from None
        # Removed, since agents inherit the environment and show it to users who may run commands.
        if (password := os.environ.pop("PGPASSWORD", None)) and "password" not in given:
            url = make_conninfo(url, password=password)
        self._url = url
        with ExitStack() as opened, self.explained():
            with psycopg.connect(url, autocommit=True, **_SETTINGS) as first:
                _migrate(first)
            self._pool = ConnectionPool(
                url, kwargs={"autocommit": True, **_SETTINGS}, min_size=self.at_once, open=False
            )
            opened.callback(self._pool.close)
            self._pool.open(wait=True, timeout=_PATIENCE)
            opened.pop_all()

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run a transaction, see Engine. `work` is retried if the transaction conflicts with another one, or if the
        connection was lost before the commit."""
        ends = time.monotonic() + _PATIENCE
        while True:
            connection, committing = None, False
            try:
                with self._pool.connection(_LOOK) as connection, _rolled_back(connection):
                    connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
                    value = work(Rows(partial(_execute, connection), _CLOCK))
                    committing = True
                    connection.execute(b"COMMIT")
                    return value
            except psycopg.IntegrityError as error:
                if error.diag.constraint_name not in _RACES or time.monotonic() > ends:
                    raise
            except psycopg.OperationalError as error:
                in_the_way = isinstance(error, SerializationFailure | DeadlockDetected | PoolTimeout)
                cut = connection is not None and connection.closed
                if cut and committing:
                    raise Unsure from error
                if not (in_the_way or cut) or time.monotonic() > ends:
                    raise

    async def notices(self, channel: str) -> AsyncGenerator[str]:
        """See Engine."""
        connection = await to_thread.run_sync(self._listening, channel)
        try:
            yield ""
            while True:
                await anyio.wait_readable(connection)
                for notice in list(connection.notifies(timeout=0)):
                    yield notice.payload
        finally:
            connection.close()

    def _listening(self, channel: str) -> _Connection:
        connection: _Connection = psycopg.connect(self._url, autocommit=True, **_SETTINGS)
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        return connection

    @contextmanager
    def explained(self) -> Generator[None]:
        """Raise UsageError if the database fails in the block."""
        try:
            yield
        except PoolTimeout:
            raise UsageError("the database cannot be used, because it accepts no connections") from None
        except psycopg.Error as error:
            raise UsageError(f"the database cannot be used: {str(error).strip() or type(error).__name__}") from None

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


def _migrate(connection: _Connection) -> None:
    """Migrate the tables to the newest version. One gateway does this, and others wait. Raises UsageError."""
    connection.execute(b"SELECT pg_advisory_lock(%s)", (_GATE,))
    with connection.transaction():
        connection.execute(b"CREATE TABLE IF NOT EXISTS acp_gateway (version INTEGER NOT NULL)")
        found = connection.execute(b"SELECT version FROM acp_gateway").fetchone()
        if found is None:
            connection.execute(b"INSERT INTO acp_gateway (version) VALUES (0)")
        version = 0 if found is None else found[0]
        if version > (known := len(_MIGRATIONS)):
            newer = f"it was made by a newer version of this program (format {version}, this one knows {known})"
            raise UsageError(f"the database cannot be used: {newer}")
        for statement in (statement for migration in _MIGRATIONS[version:] for statement in migration):
            connection.execute(statement.encode())
        connection.execute(b"UPDATE acp_gateway SET version = %s", (known,))


@contextmanager
def _rolled_back(connection: _Connection) -> Generator[None]:
    """Make sure that no transaction stays open. A committed transaction stays committed."""
    try:
        yield
    finally:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute(b"ROLLBACK")


def _execute(connection: _Connection, text: str, values: tuple[Any, ...] = ()) -> Cursor:
    return connection.execute(_query(text), [_fit(value) for value in values])


@cache
def _query(text: str) -> bytes:
    return text.replace("%", "%%").replace("?", "%s").encode()


def _fit(value: Any) -> Any:
    # The documents are escaped; a value to search for may have a character that PostgreSQL allows in no text.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value

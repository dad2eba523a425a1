"""The engine for a database server: PostgreSQL, with psycopg. One gateway at a time has a database.

Each connection holds a lock of its session from its beginning to its end, and knows the run of the gateway that it was
opened for. So whatever is cut, a gateway that another one has taken over from commits nothing any more, and no
transaction pays for that.

Connections are blocking ones, which threads use (`acp_server.gateway.store`): psycopg's others know asyncio alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from acp_server.errors import UsageError
from acp_server.gateway.rows import Cursor, Rows

logger = logging.getLogger("acp_server.gateway")

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
)
"""The statements that make each version of the tables from the one before."""

_GATE: Final = 0x4143504700
"""The advisory lock of those that open the database, one after another."""
_USE: Final = 0x4143504701
"""The advisory lock of those that use it: shared by the connections of one gateway, exclusive for the next one."""

_PATIENCE: Final = 30.0
"""Seconds for which a transaction waits for the server, and is tried again when another one was in its way."""
_LOOK: Final = 0.5
"""Seconds after which it is looked whether there is a point in waiting for a connection."""
_SETTINGS: Final[dict[str, Any]] = {
    # So that a server which is gone is noticed, and a server which works has the time for it.
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    # The same, for the server: the lock of a gateway whose machine is gone is free after half a minute.
    "options": "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    " -c statement_timeout=60000 -c idle_in_transaction_session_timeout=60000",
}


class TakenOver(Exception):
    """Another gateway has the database."""


class PostgresEngine:
    """See `acp_server.gateway.store.Engine`."""

    at_once = 4

    def __init__(self, url: str) -> None:
        """Connect, and make the tables if they are not there. Raises UsageError if the database cannot be used."""
        self._taken_over = False
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # libpq repeats the URL, which may have a password.
            raise UsageError("--store: this is not the URL of a database") from None
        with ExitStack() as opened, self.explained():
            first: _Connection = psycopg.connect(url, autocommit=True, **_SETTINGS)
            opened.callback(first.close)
            self._run = _take(first)
            self._pool = ConnectionPool(
                url,
                kwargs={"autocommit": True, **_SETTINGS},
                min_size=self.at_once,
                configure=self._join,
                open=False,
            )
            opened.callback(self._pool.close)
            # While the first one holds the lock, so that there is no gap for another gateway.
            self._pool.open(wait=True, timeout=_PATIENCE)
            opened.pop_all()
            first.close()

    def transact(self, work: Callable[[Rows], T]) -> T:
        """See Engine. Raises TakenOver. `work` is done again if what it has read was changed meanwhile, or if the
        connection was cut before it was to be committed."""
        ends = time.monotonic() + _PATIENCE
        while True:
            if self._taken_over:
                raise TakenOver("another gateway has the database")
            connection, committing = None, False
            try:
                with self._pool.connection(_LOOK) as connection, _rolled_back(connection):
                    connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
                    value = work(Rows(partial(_execute, connection)))
                    committing = True
                    connection.execute(b"COMMIT")
                    return value
            except psycopg.OperationalError as error:
                in_the_way = isinstance(error, SerializationFailure | DeadlockDetected | PoolTimeout)
                cut = connection is not None and connection.closed and not committing
                if not (in_the_way or cut) or time.monotonic() > ends:
                    raise

    def _join(self, connection: _Connection) -> None:
        """Make it a connection of this run."""
        shared = _first(connection.execute(b"SELECT pg_try_advisory_lock_shared(%s)", (_USE,)))
        if shared and _first(connection.execute(b"SELECT run FROM acp_gateway")) == self._run:
            return
        connection.close()
        if not self._taken_over:
            self._taken_over = True
            logger.error("another gateway has taken the database over, so this one can keep nothing any more: end it")
        raise TakenOver("another gateway has the database")

    @contextmanager
    def explained(self) -> Generator[None]:
        """Raise UsageError for a database that fails."""
        try:
            yield
        except PoolTimeout:
            raise UsageError("the database cannot be used: it takes no connections") from None
        except psycopg.Error as error:
            raise UsageError(f"the database cannot be used: {str(error).strip() or type(error).__name__}") from None

    def close(self) -> None:
        """Let go of the database."""
        self._pool.close()


def _take(connection: _Connection) -> int:
    """Keep other gateways out for as long as the connection lives, and bring the tables to the newest version. The
    number of this run of a gateway. Raises UsageError."""
    connection.execute(b"SELECT pg_advisory_lock(%s)", (_GATE,))
    if not _first(connection.execute(b"SELECT pg_try_advisory_lock(%s)", (_USE,))):
        raise UsageError("the database cannot be used: another gateway uses it")
    with connection.transaction():
        connection.execute(b"CREATE TABLE IF NOT EXISTS acp_gateway (version INTEGER NOT NULL, run BIGINT NOT NULL)")
        found = connection.execute(b"SELECT version FROM acp_gateway").fetchone()
        if found is None:
            connection.execute(b"INSERT INTO acp_gateway VALUES (0, 0)")
        version = 0 if found is None else found[0]
        if version > (known := len(_MIGRATIONS)):
            newer = f"it was made by a newer version of this program (format {version}, this one knows {known})"
            raise UsageError(f"the database cannot be used: {newer}")
        for statement in (statement for migration in _MIGRATIONS[version:] for statement in migration):
            connection.execute(statement.encode())
        sql = b"UPDATE acp_gateway SET version = %s, run = run + 1 RETURNING run"
        run: int = _first(connection.execute(sql, (known,)))
    # From here on it shares the lock with the connections of its gateway.
    connection.execute(b"SELECT pg_advisory_lock_shared(%s), pg_advisory_unlock(%s)", (_USE, _USE))
    connection.execute(b"SELECT pg_advisory_unlock(%s)", (_GATE,))
    return run


@contextmanager
def _rolled_back(connection: _Connection) -> Generator[None]:
    """Leave no transaction open. What was committed stays."""
    try:
        yield
    finally:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute(b"ROLLBACK")


def _first(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row[0]


def _execute(connection: _Connection, sql: str, values: tuple[Any, ...]) -> Cursor:
    return connection.execute(_query(sql), [_fit(value) for value in values])


@cache
def _query(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()


def _fit(value: Any) -> Any:
    # The documents are escaped; what is looked for may have a character that PostgreSQL has in no text.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value

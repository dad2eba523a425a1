"""Stores sessions in one SQLite file that several programs share.

This is the part that runs in the event loop. `acp_server.store.sqlite_tables` accesses the file; it is imported at the
first use and works in a thread.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from acp_server.errors import InternalError, ResourceNotFound, UsageError
from acp_server.store.encoding import (
    differences,
    interrupted,
    merged,
    place,
    session_from,
    session_row,
    turn_from,
    turn_row,
)
from acp_server.store.records import SessionRecord, TurnRecord
from acp_server.store.session_store import DELETED, PAGE_SIZE, Page, decode_cursor, encode_cursor

if TYPE_CHECKING:
    from acp_server.store.sqlite_tables import Database, Reader

logger: logging.Logger = logging.getLogger("acp_server.session")

T = TypeVar("T")

HISTORY: Final = 64 * 1024 * 1024
"""The most bytes of stored turns that are also kept in memory."""


class StoreBusy(InternalError):
    """Raised if another program has locked the file. A retry may work."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """The state of a session in the file, as far as this program knows."""

    store: SqliteStore
    id: str
    head: bytes
    """The head as this program last read or wrote it."""
    unconfirmed: frozenset[tuple[str, ...]] = frozenset()
    """Members that may differ in the file, because writing them failed or its caller was cancelled."""


class SqliteStore:
    """Stores sessions in the file at `path`, which any number of programs may share; `~` is the user's folder.
    `page_size`: the number of sessions in one page of `list`. `history`: the most bytes of turns that stay in memory.
    Other turns are read from the file when they are used.

    The file is opened at the first use. If it is missing, it is created, readable only by its owner. If a session is
    open in several programs, the file has the turns of all of them and the last change of each setting. A deleted
    session stays deleted: saving it again raises ResourceNotFound. If a program died while a turn was running, the turn
    is loaded as failed, with the error `acp_server.store.encoding.INTERRUPTED`.

    Errors of the file are logged and raised as an InternalError with a text for the client. If another program has
    locked the file, the error is a StoreBusy. A turn that could not be saved is saved with the next turn of its
    session.
    """

    def __init__(self, path: str | os.PathLike[str], page_size: int = PAGE_SIZE, history: int = HISTORY) -> None:
        if str(path).startswith(("sqlite:", "file:")):
            raise UsageError(f"SqliteStore needs the path of a file, such as 'sessions.db', not the address {path!r}")
        # An editor's settings have no shell that would expand it.
        self.path: Final = Path(path).expanduser()
        self._page_size = page_size
        self._history = history
        self._in_memory = Budget(history, self._release)
        self._reader: Reader | None = None
        self._database: Database | None = None
        self._closed = False
        # A thread whose task was cancelled continues to its end, so there may be more than one.
        self._lock = threading.Lock()
        self._limiter: RunVar[CapacityLimiter] = RunVar("SqliteStore")
        # The turns whose present state is in the file, with their session ids.
        self._kept: weakref.WeakKeyDictionary[TurnRecord, str] = weakref.WeakKeyDictionary()

    async def open(self, patience: float | None = None) -> None:
        """Open the file now, to find out whether that works. `patience`: seconds to wait for another program's lock, by
        default two. With 0, a failure is not logged."""
        await self._in_thread(lambda _database: None, patience)

    async def begin(self, record: SessionRecord, turn: TurnRecord) -> None:
        """See `TurnJournal`."""
        row = turn_row(turn)
        await self._in_thread(lambda database: database.begin(record.id, row))

    async def save(self, record: SessionRecord) -> None:
        """See `SessionStore`."""
        # The record keeps changing, so everything is read before the first await.
        row = session_row(record)
        known = self._known(record)
        chosen = frozenset(record.chosen)
        changes = None if known is None else differences(known.head, row.head, known.unconfirmed | chosen)
        turns: list[TurnRecord] = []
        for turn in reversed(record.turns):
            if self._kept.get(turn) == record.id:
                break
            turns.append(turn)
        turns.reverse()
        rows = [turn_row(turn) for turn in turns]
        merge = partial(merged, row, changes) if changes else None
        try:
            await self._in_thread(lambda database: database.save(row, rows, new=known is None, merge=merge))
        except BaseException:
            # It may have been written all the same, or may be written later.
            if changes and (known := self._known(record)):
                record.stored = replace(known, unconfirmed=known.unconfirmed.union(changes))
            raise
        record.stored = _Stored(self, record.id, row.head)
        record.chosen -= chosen
        for turn, kept in zip(turns, rows, strict=True):
            if not kept.running:
                self._keep(turn, record.id)

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        """See `SessionStore`."""
        if not _can_be_bound(session_id):
            return None
        found = await self._in_thread(lambda database: database.load(session_id, interrupted, self._history))
        if found is None:
            return None
        row, turns = found
        try:
            record = session_from(row)
            record.turns = [turn_from(turn, partial(self._read, session_id, turn.id)) for turn in turns]
        except ValueError as error:
            logger.error("session %s in %s cannot be read: %s", session_id, self.path, error)
            raise InternalError("The stored session cannot be read") from error
        record.stored = _Stored(self, record.id, row.head)
        for turn in record.turns:
            # Also a turn that runs in another program, which will save it.
            self._keep(turn, record.id)
        return record

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        """Return a page of sessions, see `SessionStore`. They come without their turns. A page begins after the last
        session of the previous page."""
        behind = None if cursor is None else decode_cursor(cursor)
        if behind is not None and not _can_be_bound(behind[1]):
            return Page([], None)
        where = None if cwd is None else place(cwd)
        rows = await self._in_thread(lambda database: database.list(where, behind, self._page_size + 1))
        records: list[SessionRecord] = []
        for row in rows[: self._page_size]:
            try:
                records.append(session_from(row))
            except ValueError as error:
                logger.error("session %s in %s cannot be read, so it is not listed: %s", row.id, self.path, error)
        if len(rows) <= self._page_size:
            return Page(records, None)
        last = rows[self._page_size - 1]
        return Page(records, encode_cursor(last.updated_at, last.id))

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        if _can_be_bound(session_id):
            await self._in_thread(lambda database: database.delete(session_id))

    def close(self) -> None:
        """Close the file. If this is not called, the file is closed when the program ends. Idempotent."""
        with self._lock:
            self._closed = True
            if self._reader is not None:
                self._reader.close()
            if self._database is not None:
                self._database.close()
                self._database = None

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self, turn: TurnRecord, session_id: str) -> None:
        self._kept[turn] = session_id
        self._in_memory.add(turn, session_id)
        if turn.unread is not None:
            # A copied turn of a fork is read from its source session, which may be deleted later.
            self._release(turn, session_id)

    def _release(self, turn: TurnRecord, session_id: str) -> None:
        turn.release(partial(self._read, session_id, turn.id))

    def _read(self, session_id: str, turn_id: str) -> bytes:
        """Return the contents of a turn. Raises ResourceNotFound if it was deleted, and InternalError."""
        from acp_server.store.sqlite_file import PROBLEMS, explain
        from acp_server.store.sqlite_tables import Reader

        if self._closed:
            raise InternalError("The session store is closed")
        if self._reader is None:
            self._reader = Reader(self.path)
        try:
            contents = self._reader.contents(session_id, turn_id)
        except PROBLEMS as error:
            logger.error("the session store %s failed: %s", self.path, error)
            raise InternalError(f"The session store cannot be used: {explain(error)}") from error
        if contents is None:
            raise ResourceNotFound(DELETED)
        return contents

    def _known(self, record: SessionRecord) -> _Stored | None:
        stored = record.stored
        return stored if isinstance(stored, _Stored) and stored.store is self and stored.id == record.id else None

    async def _in_thread(self, work: Callable[[Database], T], patience: float | None = None) -> T:
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(1)
            self._limiter.set(limiter)
        # A cancelled caller does not wait for a hanging disk. A transaction that has begun is committed or rolled back
        # as a whole.
        return await to_thread.run_sync(self._perform, work, patience, limiter=limiter, abandon_on_cancel=True)

    def _perform(self, work: Callable[[Database], T], patience: float | None = None) -> T:
        from acp_server.store.sqlite_file import PROBLEMS, explain, is_busy
        from acp_server.store.sqlite_tables import BUSY, Database, Gone

        if not self._lock.acquire(timeout=BUSY):
            logger.error("the session store %s does not answer", self.path)
            raise InternalError("The session store does not answer")
        try:
            if self._closed:
                raise InternalError("The session store is closed")
            if self._database is None:
                self._database = Database(self.path, patience)
            return work(self._database)
        except Gone:
            raise ResourceNotFound(DELETED) from None
        except PROBLEMS as error:
            kind = StoreBusy if is_busy(error) else InternalError
            if kind is InternalError or patience != 0:
                logger.error("the session store %s failed: %s", self.path, error)
            raise kind(f"The session store cannot be used: {explain(error)}") from error
        finally:
            self._lock.release()


def _can_be_bound(session_id: str) -> bool:
    """Whether the id can be encoded as UTF-8. No other id can be in the file."""
    try:
        session_id.encode()
    except UnicodeEncodeError:
        return False
    return True


class Budget:
    """Bounds the bytes of turns in memory. `most`: the most bytes of contents. `let_go`: is called with a turn that
    exceeds the bound, and its session's id."""

    def __init__(self, most: int, let_go: Callable[[TurnRecord, str], None]) -> None:
        self._most = most
        self._let_go = let_go
        # In the order of adding. A collected turn is removed by the callback of its reference.
        self._held: dict[weakref.ref[TurnRecord], tuple[int, str]] = {}
        self.size: int = 0
        """The number of bytes that are held."""

    def add(self, turn: TurnRecord, session_id: str) -> None:
        """Count an ended turn that is in memory. Above the bound, the turns that were added first are released."""
        size = turn.size
        reference = weakref.ref(turn, self._gone)
        if not size or reference in self._held:
            return
        self._held[reference] = size, session_id
        self.size += size
        while self.size > self._most and self._held:
            first = next(iter(self._held))
            _, id = self._held[first]
            self._gone(first)
            oldest = first()
            if oldest is not None:
                self._let_go(oldest, id)

    def _gone(self, reference: weakref.ref[TurnRecord]) -> None:
        size, _ = self._held.pop(reference, (0, ""))
        self.size -= size

"""Stores sessions in memory until the program ends. `acp_server.store.sqlite_store` stores them in a file."""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections import OrderedDict
from typing import Final, NamedTuple

from acp_server.errors import ResourceNotFound
from acp_server.store.records import OPEN, SessionRecord
from acp_server.store.session_store import DELETED, PAGE_SIZE, Page, decode_cursor, encode_cursor

logger: logging.Logger = logging.getLogger("acp_server.session")

HISTORY: Final = 128 * 1024 * 1024
"""The most bytes of ended turns that are kept in memory."""

SESSIONS: Final = 10_000
"""The most sessions that are kept in memory."""


class MemoryStore:
    """Stores sessions in memory, for all connections of one agent. `page_size`: the number of sessions in one page of
    `list`.

    `history`: the most bytes of ended turns that are kept. Above this bound, the earliest turns of the least recently
    used sessions are dropped. The directories of all sessions may take as many bytes again. `sessions`: the most
    sessions that are kept. Above these bounds, the least recently used sessions are dropped. The first drop is logged.
    """

    def __init__(self, page_size: int = PAGE_SIZE, history: int = HISTORY, sessions: int = SESSIONS) -> None:
        self._page_size = page_size
        self._most_history = history
        self._most_sessions = sessions
        self._records: dict[str, SessionRecord] = {}
        self._shelf = Shelf()
        self._mark: Final = object()
        # How many of a session's first turns are in `_size`, with the least recently used session first.
        self._counted: OrderedDict[str, int] = OrderedDict()
        self._size = 0
        self._folders: dict[str, int] = {}
        """The bytes of each session's directories, which a client chooses."""
        self._folder_size = 0
        self._told = False

    def save(self, record: SessionRecord) -> None:
        """Save a session, see `SessionStore`. The record itself is kept, so there is nothing to await."""
        id = record.id
        if record.stored is self._mark and id not in self._records:
            raise ResourceNotFound(DELETED)
        record.stored = self._mark
        self._records[id] = record
        self._shelf.put(id, record.cwd, record.updated_at)
        folders = sum(map(len, record.additional_directories)) + len(record.cwd) + len(record.spelled or "")
        if folders != self._folders.get(id):
            self._count_folders(id, folders)
        # Count the turns that have ended since the last save.
        count = self._counted.pop(id, 0)
        for turn in record.turns[count:]:
            if turn.status in OPEN:
                break
            self._size += turn.size
            count += 1
        if count:
            self._counted[id] = count
        while self._size > self._most_history:
            self._forget_turn()
        while len(self._records) > self._most_sessions or self._folder_size > self._most_history:
            last = self._shelf.last
            if last is None:
                break
            self._tell()
            # If the session is open, its next turn saves it again.
            self._records[last].stored = None
            self._remove(last)

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        """See `SessionStore`."""
        return self._records.get(session_id)

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        """Return a page of sessions, see `SessionStore`. Sessions are ordered by their `updated_at` at the last `save`.
        A page begins after the last session of the previous page."""
        behind = None if cursor is None else decode_cursor(cursor)
        places, more = self._shelf.page(cwd, behind, self._page_size)
        return Page([self._records[place.id] for place in places], encode_cursor(*places[-1]) if more else None)

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        if session_id in self._records:
            self._remove(session_id)

    def _remove(self, session_id: str) -> None:
        turns = self._records.pop(session_id).turns
        self._size -= sum(turn.size for turn in turns[: self._counted.pop(session_id, 0)])
        self._count_folders(session_id, 0)
        del self._folders[session_id]
        self._shelf.remove(session_id)

    def _count_folders(self, session_id: str, size: int) -> None:
        self._folder_size += size - self._folders.get(session_id, 0)
        self._folders[session_id] = size

    def _forget_turn(self) -> None:
        self._tell()
        id, count = next(iter(self._counted.items()))
        self._size -= self._records[id].turns.pop(0).size
        if count > 1:
            self._counted[id] = count - 1
        else:
            del self._counted[id]

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            logger.warning(
                "the history exceeds the limit in memory (%d bytes, %d sessions), so the oldest turns are dropped; "
                "use a SqliteStore to keep all turns",
                self._most_history,
                self._most_sessions,
            )


_MOST_MOVED: Final = 1000
"""The most moved sessions that are sorted at once, which takes 2 ms."""


class Place(NamedTuple):
    """The position of a session in the list. Positions compare by their fields in this order."""

    updated_at: float
    """Seconds since the epoch."""
    id: str


class Shelf:
    """Keeps sessions in the order of their last `put`.

    Sessions are used far more often than they are listed. So moved sessions are sorted only when the order is read, or
    when there are many of them.
    """

    def __init__(self) -> None:
        # Sorted; `_where` has the position and the directory of each session.
        self._all: list[Place] = []
        self._by_cwd: dict[str, list[Place]] = {}
        self._where: dict[str, tuple[Place, str]] = {}
        # The directory and the time of sessions that moved since then; None if removed.
        self._moved: dict[str, tuple[str, float] | None] = {}

    def put(self, id: str, cwd: str, updated_at: float) -> None:
        """Move the session to this position."""
        self._moved[id] = cwd, updated_at
        if len(self._moved) > _MOST_MOVED:
            self._apply_moves()

    def remove(self, id: str) -> None:
        """Remove the session. Has no effect if it is not there."""
        self._moved[id] = None

    def _apply_moves(self) -> None:
        for id, moved in self._moved.items():
            if (before := self._where.pop(id, None)) is not None:
                self._take(*before)
            if moved is not None:
                cwd, updated_at = moved
                place = Place(updated_at, id)
                self._where[id] = place, cwd
                insort(self._all, place)
                insort(self._by_cwd.setdefault(cwd, []), place)
        self._moved.clear()

    def _take(self, place: Place, cwd: str) -> None:
        some = self._by_cwd[cwd]
        for places in (self._all, some):
            del places[bisect_left(places, place)]
        if not some:
            del self._by_cwd[cwd]

    def page(self, cwd: str | None, behind: tuple[float, str] | None, size: int) -> tuple[list[Place], bool]:
        """Return up to `size` positions, the latest first, and whether there are more. `behind`: a position; only
        earlier positions are returned."""
        self._apply_moves()
        places = self._all if cwd is None else self._by_cwd.get(cwd, [])
        end = len(places) if behind is None else bisect_left(places, behind)
        start = max(0, end - size)
        return places[start:end][::-1], start > 0

    @property
    def last(self) -> str | None:
        """The id of the least recently used session."""
        self._apply_moves()
        return self._all[0].id if self._all else None

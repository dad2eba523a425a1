"""Sessions in the order in which they were last used, all of them and by directory, for a store in memory.

A page costs as much as it has sessions, however many there are. It knows ids and places, and keeps no session.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, NamedTuple

_MOST_MOVED: Final = 1000
"""Sessions that are put in order at once at most, which takes 2 ms."""


class Place(NamedTuple):
    """Where a session stands; the order is that of the fields."""

    updated_at: float
    """Seconds since the epoch."""
    id: str


class Shelf:
    """Each session has one place: that of the moment in which it was `put`.

    Sessions are used far more often than they are listed, so those that have moved are put in order by whoever asks
    for the order, or when there are many of them.
    """

    def __init__(self) -> None:
        self._where: dict[str, tuple[Place, str]] = {}
        # In order, but for those that have moved: these stand where they stood before, if anywhere.
        self._all: list[Place] = []
        self._by_cwd: dict[str, list[Place]] = {}
        self._moved: dict[str, tuple[Place, str] | None] = {}

    def put(self, id: str, cwd: str, updated_at: float) -> None:
        """The session stands here, and nowhere else."""
        before = self._where.get(id)
        self._where[id] = Place(updated_at, id), cwd
        self._move(id, before)

    def remove(self, id: str) -> None:
        """The session is gone. No effect if it is not there."""
        found = self._where.pop(id, None)
        if found is not None:
            self._move(id, found)

    def _move(self, id: str, before: tuple[Place, str] | None) -> None:
        self._moved.setdefault(id, before)
        if len(self._moved) > _MOST_MOVED:
            self._settle()

    def _settle(self) -> None:
        for id, before in self._moved.items():
            now = self._where.get(id)
            if now == before:
                continue
            if before is not None:
                self._take(*before)
            if now is not None:
                place, cwd = now
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
        """Up to `size` places, the latest first, those behind a place if one is given; and whether there are more."""
        self._settle()
        places = self._all if cwd is None else self._by_cwd.get(cwd, [])
        end = len(places) if behind is None else bisect_left(places, behind)
        start = max(0, end - size)
        return places[start:end][::-1], start > 0

    @property
    def last(self) -> str | None:
        """The session that was not used for the longest time."""
        self._settle()
        return self._all[0].id if self._all else None

    def __len__(self) -> int:
        """How many sessions there are."""
        return len(self._where)

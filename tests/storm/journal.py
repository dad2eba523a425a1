"""What happened in a storm, in one order: what its handlers did, and what both ends of the wire saw."""

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Note:
    """One thing that happened: `what`, to whom (the key of a request or a tool call), when."""

    what: str
    key: str
    more: Any
    order: int
    time: float


class Journal:
    """The notes of one storm. Any thread may write."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.notes: list[Note] = []
        self._order = itertools.count()
        self._now = now

    def note(self, what: str, key: str = "", more: Any = None) -> Note:
        """Write down that this happens now."""
        note = Note(what, key, more, next(self._order), self._now())
        self.notes.append(note)
        return note

    def of(self, what: str, key: str | None = None) -> list[Note]:
        """The notes of this kind."""
        return [note for note in self.notes if note.what == what and key in (None, note.key)]

    def first(self, what: str, key: str) -> Note | None:
        """The first of them, if there is one."""
        return next((note for note in self.notes if note.what == what and note.key == key), None)


class FileJournal:
    """The same for a process: each note becomes a line of a file, in one write."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, what: str, key: str = "", more: Any = None) -> None:
        """See `Journal.note`."""
        os.write(self._fd, json.dumps([what, key, more]).encode() + b"\n")

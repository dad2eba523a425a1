"""What happened in a storm, in one order: what its handlers did, and what both ends of the wire saw."""

import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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
    """The notes of one storm. Any thread may write. `order`: what puts the notes in their order, a count as a rule."""

    def __init__(self, now: Callable[[], float], order: Callable[[], int] | None = None) -> None:
        self.notes: list[Note] = []
        self._order = order or itertools.count().__next__
        self._now = now

    def note(self, what: str, key: str = "", more: Any = None) -> Note:
        """Write down that this happens now."""
        note = Note(what, key, more, self._order(), self._now())
        self.notes.append(note)
        return note

    def of(self, what: str, key: str | None = None) -> list[Note]:
        """The notes of this kind."""
        return [note for note in self.notes if note.what == what and key in (None, note.key)]

    def first(self, what: str, key: str) -> Note | None:
        """The first of them, if there is one."""
        return next((note for note in self.notes if note.what == what and note.key == key), None)


class FileJournal:
    """The same for a process: each note becomes a line of a file, in one write. The machine's clock orders them, which
    all processes have in common."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, what: str, key: str = "", more: Any = None) -> None:
        """See `Journal.note`."""
        os.write(self._fd, json.dumps([what, key, more, time.monotonic_ns()]).encode() + b"\n")


def read_notes(path: Path) -> list[Note]:
    """What a process has noted so far."""
    *lines, _ = path.read_bytes().split(b"\n")
    notes = (json.loads(line) for line in lines)
    return [Note(what, key, more, order, order / 1e9) for what, key, more, order in notes]

"""The answer of a batch: one array, written when its last place is filled (JSON-RPC 2.0, section 6).

Places are tracked by position and not by id, so duplicate ids cannot strand a sibling. Batches are accepted here, never
sent. What the unfinished batches of a connection hold together is counted; the endpoint keeps it within its bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BATCH_LIMIT: Final = 1000
"""The most members of one batch: each of them, even a single digit, may cost an answer of a hundred bytes."""

BATCH_BYTES: Final = 8 * 1024 * 1024
"""The default of how much the answers in unfinished batches may take together, in bytes."""

_PLACE: Final = 100
"""Bytes that a place takes beside its answer."""


class Batches:
    """The unfinished batches of one connection. `limit`: the bytes that their answers may take together."""

    __slots__ = ("_limit", "held")

    def __init__(self, limit: int = BATCH_BYTES) -> None:
        self._limit = limit
        self.held: int = 0
        """Bytes that the places and answers of unfinished batches take."""

    @property
    def full(self) -> bool:
        """Whether no more answers can be held."""
        return self.held >= self._limit

    def has_room(self, answer: bytes) -> bool:
        """Whether `answer` can be held."""
        return self.held + len(answer) <= self._limit

    def begin(self) -> Batch:
        """A new batch."""
        return Batch(self)


class Batch:
    """Collects the encoded answers of one received array, in the order of its members."""

    __slots__ = ("_answers", "_batches", "_held", "_open", "_sealed")

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._answers: list[bytes] = []
        self._open = 0
        self._held = 0
        self._sealed = False

    def add(self, answer: bytes) -> None:
        """The next place, filled with an encoded answer (a line)."""
        self._answers.append(answer)
        self._hold(_PLACE + len(answer))

    def open(self) -> Slot:
        """The next place, which has to be filled, once, before the array can be written."""
        self._answers.append(b"")
        self._open += 1
        self._hold(_PLACE)
        return Slot(self, len(self._answers) - 1)

    def seal(self) -> bytes | None:
        """No more members will come: the array, if all its places are filled by now and it has any."""
        self._sealed = True
        return self._array()

    def has_room(self, answer: bytes) -> bool:
        """Whether `answer` can be held until the last place is filled; the answer that fills the last one can."""
        return (self._sealed and self._open == 1) or self._batches.has_room(answer)

    def fill(self, position: int, answer: bytes) -> bytes | None:
        """Put an encoded answer (a line) in its place: the whole array, if it was the last one."""
        self._answers[position] = answer
        self._open -= 1
        self._hold(len(answer))
        return self._array()

    def _array(self) -> bytes | None:
        if not self._sealed or self._open:
            return None
        self._batches.held -= self._held
        if not self._answers:
            return None
        return b"[" + b",".join(answer.rstrip(b"\n") for answer in self._answers) + b"]\n"

    def _hold(self, size: int) -> None:
        self._held += size
        self._batches.held += size


@dataclass(slots=True, frozen=True)
class Slot:
    """One place of a batch."""

    batch: Batch
    position: int

    def has_room(self, answer: bytes) -> bool:
        """See `Batch.has_room`."""
        return self.batch.has_room(answer)

    def fill(self, answer: bytes) -> bytes | None:
        """See `Batch.fill`."""
        return self.batch.fill(self.position, answer)

"""The response to a batch. The response to a batch is one array, which is written when its last response is known
(JSON-RPC 2.0, section 6).

Responses are stored by position and not by id, so each response has a position even if ids are duplicate. Batches are
received and never sent. The bytes of all unfinished batches of a connection are counted, and limited by the
endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BATCH_LIMIT: Final = 1000
"""The most members of one batch. Each member, even a single digit, can cost a response of a hundred bytes."""

BATCH_BYTES: Final = 8 * 1024 * 1024
"""The default limit for the responses of all unfinished batches, in bytes."""

_PLACE: Final = 100
"""Bytes that a position takes besides its response."""


class Batches:
    """The unfinished batches of one connection. `limit`: the bytes of all their responses."""

    __slots__ = ("_limit", "held")

    def __init__(self, limit: int = BATCH_BYTES) -> None:
        self._limit = limit
        self.held: int = 0
        """The bytes that the unfinished batches take, for their positions and responses."""

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.held >= self._limit

    def has_room(self, answer: bytes) -> bool:
        """Whether `answer` fits below the limit."""
        return self.held + len(answer) <= self._limit

    def begin(self) -> Batch:
        """Return a new batch."""
        return Batch(self)


class Batch:
    """Collects the encoded responses to one received array, in the order of its members."""

    __slots__ = ("_answers", "_batches", "_held", "_open", "_sealed")

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._answers: list[bytes] = []
        self._open = 0
        self._held = 0
        self._sealed = False

    def add(self, answer: bytes) -> None:
        """Add a position with its response, an encoded line."""
        self._answers.append(answer)
        self._hold(_PLACE + len(answer))

    def open(self) -> Slot:
        """Add a position that must be filled exactly once before the array is written."""
        self._answers.append(b"")
        self._open += 1
        self._hold(_PLACE)
        return Slot(self, len(self._answers) - 1)

    def seal(self) -> bytes | None:
        """End the batch. Returns the array if all positions are filled and there is at least one."""
        self._sealed = True
        return self._array()

    def has_room(self, answer: bytes) -> bool:
        """Whether `answer` fits below the limit. The last response of a batch always fits, because it completes the
        array."""
        return (self._sealed and self._open == 1) or self._batches.has_room(answer)

    def fill(self, position: int, answer: bytes) -> bytes | None:
        """Fill a position with an encoded line. Returns the whole array if it was the last position."""
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
    """One position of a batch."""

    batch: Batch
    position: int

    def has_room(self, answer: bytes) -> bool:
        """See `Batch.has_room`."""
        return self.batch.has_room(answer)

    def fill(self, answer: bytes) -> bytes | None:
        """See `Batch.fill`."""
        return self.batch.fill(self.position, answer)

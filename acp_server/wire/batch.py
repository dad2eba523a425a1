"""The answer of a batch: one array, written when its last place is filled (JSON-RPC 2.0, section 6).

Places are tracked by position and not by id, so duplicate ids cannot strand a sibling. Batches are accepted here, never
sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BATCH_LIMIT: Final = 1000
"""The most members of one batch: each of them, be it a single digit, may cost an answer of a hundred bytes."""


class Batch:
    """Collects the encoded answers of one received array, in the order of its members."""

    __slots__ = ("_answers", "_open", "_sealed")

    def __init__(self) -> None:
        self._answers: list[bytes] = []
        self._open = 0
        self._sealed = False

    def open(self) -> Slot:
        """A new place that has to be filled, once, before the array can be written."""
        self._answers.append(b"")
        self._open += 1
        return Slot(self, len(self._answers) - 1)

    def seal(self) -> bytes | None:
        """No more members will come: the array, if all its places are filled by now and it has any."""
        self._sealed = True
        return self._array()

    def fill(self, position: int, answer: bytes) -> bytes | None:
        """Put an encoded answer (a line) in its place: the whole array, if it was the last one."""
        self._answers[position] = answer
        self._open -= 1
        return self._array()

    def _array(self) -> bytes | None:
        if not self._sealed or self._open or not self._answers:
            return None
        return b"[" + b",".join(answer.rstrip(b"\n") for answer in self._answers) + b"]\n"


@dataclass(slots=True, frozen=True)
class Slot:
    """One place of a batch."""

    batch: Batch
    position: int

    def fill(self, answer: bytes) -> bytes | None:
        """See `Batch.fill`."""
        return self.batch.fill(self.position, answer)

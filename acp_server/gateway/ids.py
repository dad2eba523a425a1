"""Ids in decimal digits, as the API's clients expect them. Each is greater than those before it, also than those of
earlier runs that are in the store, whatever the clock says.

It does not say whose an id is.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Final

_EPOCH_MS: Final = 1_577_836_800_000
"""2020, so that an id has 18 digits for a long time."""
_RANDOM_BITS: Final = 12
_SLOT_BITS: Final = 10
SLOTS: Final = 1 << _SLOT_BITS
"""How many nodes can make ids at the same time that no other one makes."""
_SHORT: Final = 16
"""The longest step from an id to the next one of the same millisecond."""
_HIGHEST_BY_CLOCK: Final = 1 << 62
"""What a clock may lead to, until the year 2054: ids stay below 2^63, for clients that read them as integers."""
_FIRST_BITS: Final = 48
_LONGEST: Final = 20


class Ids:
    """Makes ids that are new, also after a restart. Any thread may ask for one."""

    def __init__(self, highest: int = 0, slot: int = 0) -> None:
        """`highest`: the highest id that is in use."""
        self.slot = slot
        """The part of each id that no other node has at the same time, smaller than SLOTS."""
        # Somewhere, for with a clock before 2020 and nothing in the store, two runs would begin with the same ids.
        self._last = max(highest, secrets.randbits(_FIRST_BITS))
        self._lock = threading.Lock()

    def new(self) -> str:
        """An id. It is made from the time, as long as that goes forward; otherwise it follows the last one."""
        step = secrets.randbits(_RANDOM_BITS)
        with self._lock:
            by_clock = self._at(time.time_ns() // 1_000_000 - _EPOCH_MS, step)
            self._last = by_clock if self._last < by_clock < _HIGHEST_BY_CLOCK else self._following(step)
            return str(self._last)

    def _at(self, milliseconds: int, step: int) -> int:
        return (milliseconds << _SLOT_BITS | self.slot) << _RANDOM_BITS | step

    def _following(self, step: int) -> int:
        following = self._last + 1 + step % _SHORT
        if (following >> _RANDOM_BITS) % SLOTS == self.slot:
            return following
        return self._at((self._last >> _RANDOM_BITS + _SLOT_BITS) + 1, step)


def is_id(text: str) -> bool:
    """Whether `text` can be an id at all."""
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST

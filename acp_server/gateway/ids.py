"""Ids in decimal digits, as the API's clients expect them. In the order in which they were made; nobody may rely on it.

It does not say whose an id is.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

_EPOCH_MS: Final = 1_577_836_800_000
"""2020, so that an id has 18 digits for a long time."""
_RANDOM_BITS: Final = 22
_LONGEST: Final = 20


class Ids:
    """Makes ids that are new, also after a restart."""

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> str:
        """An id."""
        fresh = (time.time_ns() // 1_000_000 - _EPOCH_MS) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        self._last = max(fresh, self._last + 1)
        return str(self._last)


def is_id(text: str) -> bool:
    """Whether `text` can be an id at all."""
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST

"""What of a server's settings must not be read in a log: the values of its environment and of its headers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SHORTEST: Final = 6
"""Characters. Shorter values are not secrets, and are in most texts by chance."""

_LONGEST_TEXT: Final = 500
"""Characters of what is told."""

_HIDDEN: Final = "[hidden]"


class Secrets:
    """The values that `hide` takes out."""

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first: one may be part of another. Of `Bearer x` the second word alone is one, too.
        parts = {part for value in values for part in (value, *value.split()) if len(part) >= _SHORTEST}
        self._values = sorted(parts, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """The text without them, and not too long."""
        for value in self._values:
            text = text.replace(value, _HIDDEN)
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."

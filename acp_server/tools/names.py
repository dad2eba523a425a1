"""What tools and their parameters may be called, so that the APIs of models take it. It names nothing itself."""

from __future__ import annotations

from typing import Final

CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
LONGEST: Final = 64
RULE: Final = f"1 to {LONGEST} of the characters a-z, A-Z, 0-9, '_' and '-'"


def is_name(text: str) -> bool:
    """Whether it keeps to the rule."""
    return 1 <= len(text) <= LONGEST and CHARACTERS.issuperset(text)

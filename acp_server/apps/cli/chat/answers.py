"""Finds the answer that the user's text means. The answers have numbers. `y` and `n` are also answers, if only one
answer can be meant.

Both front ends use this module, so that the same keys have the same effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from acp_server.schema import PermissionOption

SHOW_ALL: Final = "a"
"""The key that shows the whole subject of a question."""

_YES: Final = ("y", "yes")
_NO: Final = ("n", "no")


@dataclass(frozen=True, slots=True)
class Answers:
    """The number of answers, and the indexes of the answers that `y` and `n` mean. An index is None if the letter is
    ambiguous."""

    count: int
    yes: int | None = None
    no: int | None = None

    @classmethod
    def of(cls, options: Sequence[PermissionOption]) -> Answers:
        """Return the answers to a permission request. `y` is the only option that allows once, `n` the only option that
        rejects once."""
        kinds = [option.kind for option in options]
        yes, no = (kinds.index(kind) if kinds.count(kind) == 1 else None for kind in ("allow_once", "reject_once"))
        return cls(len(options), yes, no)

    def read(self, text: str) -> int | None:
        """Return the index of the answer that a text means; None for any other text."""
        return self._words().get(text.strip().lower())

    def begins(self, text: str) -> bool:
        """Whether a text is the beginning of an answer."""
        return any(word.startswith(text.lower()) for word in self._words())

    def hint(self, *, is_cut: bool = False, may_be_none: bool = True) -> str:
        """Return the text before the user's input. `is_cut`: the screen shows only a part of the subject."""
        ways = ["1" if self.count == 1 else f"1-{self.count}"]
        ways += [key for key, answer in (("y", self.yes), ("n", self.no)) if answer is not None]
        ways += [f"{SHOW_ALL} to see all of it"] if is_cut else []
        ways += ["or Enter for none"] if may_be_none else []
        return f"    {', '.join(ways)}: "

    def _words(self) -> dict[str, int]:
        words = {str(number + 1): number for number in range(self.count)}
        if self.yes is not None:
            words |= dict.fromkeys(_YES, self.yes)
        if self.no is not None:
            words |= dict.fromkeys(_NO, self.no)
        return words

"""The switches of the mutated copy, at each condition, statement and value; copied into the package there.

All changes are in the copy at once, and at most one of them is switched on, by `ACP_MUTANT` or by `choose`. Without
one the copy behaves like the package.
"""

import operator
import os
from typing import Any, Final

HITS: Final = set[int]()
"""The places that were reached since this was last emptied."""

_SLIPS: Final = {"<": operator.le, "<=": operator.lt, ">": operator.ge, ">=": operator.gt}
_place, _change = -1, ""
_file = os.environ.get("ACP_MUTANT_HITS")


def choose(mutant: str) -> None:
    """Switch on one change, `PLACE:CHANGE`, here and in the processes that are started from here."""
    global _place, _change
    os.environ["ACP_MUTANT"] = mutant
    place, _, _change = mutant.partition(":")
    _place = int(place)


def condition(place: int, value: Any) -> Any:
    """The value of a condition, or what it is forced to."""
    if place not in HITS:
        _reached(place)
    if place == _place:
        return _change == "True"
    return value


def compare(place: int, sign: str, left: Any, right: Any) -> Any:
    """A comparison of order, or the one beside it: `<=` instead of `<`."""
    if place not in HITS:
        _reached(place)
    if place == _place:
        return _SLIPS[sign](left, right)
    return _PLAIN[sign](left, right)


def kept(place: int) -> bool:
    """Whether a statement is carried out."""
    if place not in HITS:
        _reached(place)
    return place != _place


def number(place: int, value: int) -> int:
    """A number, or the next one."""
    if place not in HITS:
        _reached(place)
    return value + 1 if place == _place else value


def flipped(place: int, value: bool) -> bool:
    """A constant True or False, or the other one."""
    if place not in HITS:
        _reached(place)
    return not value if place == _place else value


def optional(place: int, value: Any) -> Any:
    """A returned value or a keyword argument, or None."""
    if place not in HITS:
        _reached(place)
    return None if place == _place else value


_PLAIN: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _reached(place: int) -> None:
    HITS.add(place)
    if _file is not None:
        # Also for the processes that a test starts, which may be killed at any time.
        with open(_file, "a") as file:
            file.write(f"{place}\n")


if mutant := os.environ.get("ACP_MUTANT"):
    choose(mutant)

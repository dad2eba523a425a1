"""Estimates, before the `regex` library compiles an untrusted pattern, how large the compiled pattern becomes.

Compiling holds the interpreter, and no cancel interrupts it. It unrolls counted repeats, and writes a part that has to
match at least once twice, so that each level of nested groups doubles the size.
"""

from __future__ import annotations

import math
import re
from typing import Final

_TOKEN: Final = re.compile(
    r"(?P<comment>\(\?#[^)]*\)?)|\\.|\[\^?\]?(?:\\.|[^\[\]\\])*+\]"
    r"|(?P<repeat>\+|\{\s*(?P<least>\d*)\s*(?:,\s*\d*\s*)?\})|.",
    re.DOTALL,
)

_SYNTAX: Final = re.compile(r"\(\?[A-Za-z0-9]*[xV]")
"""With these flags, or with a bracket inside a class, the tokens no longer tell what is a group."""

_LEAST: Final = re.compile(r"\{\s*(\d+)")

_WRITTEN: Final = 2
"""Additional copies of a part that is repeated at least once: one too many, so that the estimate errs upwards."""


def unrolled_length(source: str) -> int:
    """About how many characters the pattern has with every repeat unrolled. Where only the compiler knows the extent of
    a repeat, the result is an upper bound."""
    tokens = list(_TOKEN.finditer(source))
    if _SYNTAX.search(source) or any(token[0] == "[" for token in tokens):
        groups = min(source.count(")"), source.count("+") + source.count("{"))
        counted = math.prod(max(1, int(least[:9])) for least in _LEAST.findall(source))
        return len(source) * counted * (1 + _WRITTEN) ** groups
    open_groups = [0]
    last = 0
    for token in tokens:
        if token["comment"]:
            continue
        if token[0] == "(":
            open_groups.append(0)
            last = 0
        elif token[0] == ")" and len(open_groups) > 1:
            last = open_groups.pop()
            open_groups[-1] += last
        elif token["repeat"]:
            more = last * (int((token["least"] or "1")[:9]) - 1 + _WRITTEN)
            open_groups[-1] += more
            last += more
        else:
            last = 1
            open_groups[-1] += 1
    return sum(open_groups)


__all__ = ["unrolled_length"]

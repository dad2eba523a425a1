"""Estimates how large an untrusted pattern becomes when it is compiled, before the `regex` library compiles it.

Compiling holds the interpreter, and a cancel cannot interrupt it. The compiler unrolls counted repeats. It writes a
part that must match at least once twice, so each level of nested groups doubles the size.
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
"""With these flags, or with a bracket inside a class, the tokens do not show where groups begin and end."""

_LEAST: Final = re.compile(r"\{\s*(\d+)")

_WRITTEN: Final = 2
"""The number of additional copies of a part that is repeated at least once. It is one too many, so that the estimate
errs upwards."""


def unrolled_length(source: str) -> int:
    """Return about how many characters the pattern has with every repeat unrolled. If only the compiler knows the
    extent of a repeat, the result is an upper bound."""
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

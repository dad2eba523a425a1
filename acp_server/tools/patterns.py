"""How large a regular expression of others becomes when the `regex` library compiles it, judged before it does.

Compiling holds the interpreter, and no cancel reaches it. It writes out counted repeats, and what has to match at least
once is written twice, so that groups in groups double with each of them.
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
"""With these flags, and with a bracket inside of a class, it depends on what stands before what is a group."""

_LEAST: Final = re.compile(r"\{\s*(\d+)")

_WRITTEN: Final = 2
"""How often what is repeated at least once is written besides: once too often, so that the sum errs upwards."""


def unrolled_length(source: str) -> int:
    """About how many characters are left when every repeat is written out; more, where only the compiler knows what it
    repeats."""
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

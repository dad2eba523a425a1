"""A user's regular expression: compiled, or refused with a sentence, and what it can see of a text of several lines.

It searches nothing: `matcher` does.
"""

from __future__ import annotations

import enum
import re

import regex

from .refusal import Refusal
from .shown import quoted

LONGEST_PATTERN = 10_000
# Counted repeats are unrolled when an expression is compiled: this many characters take some 30 MB.
LARGEST_PATTERN = 100_000


# It may take memory without end, faster than any time limit.
_RECURSION = re.compile(r"\(\?(?:R|[0-9]|&|P>)")


class Sight(enum.Enum):
    """What becomes of an expression that is meant for single lines when it is tried on several at once."""

    SAME = "it finds the same: no part of it can match a newline"
    FARTHER = "it misses no line, but may match across a newline: then the line has to be tried by itself"
    UNKNOWN = "each line has to be tried by itself"


def compile_pattern(source: str) -> regex.Pattern[str]:
    """The expression in the syntax of Python's `re` with the additions of the `regex` library; `^` and `$` mean lines.

    Raises:
        Refusal: it is not valid, too large to be compiled, or recursive.
    """
    if len(source) > LONGEST_PATTERN:
        raise Refusal(f"The pattern is longer than {LONGEST_PATTERN:,} characters")
    if _unrolled_length(source) > LARGEST_PATTERN:
        raise Refusal(f"The pattern repeats too much: {quoted(source)}")
    if _RECURSION.search(source):
        raise Refusal(f"A pattern that contains itself is not supported: {quoted(source)}")
    try:
        # Not cached: what one user searched for has no reason to stay in memory.
        return regex.compile(source, regex.MULTILINE, cache_pattern=False)
    except regex.error as error:
        raise Refusal(f"Not a valid regular expression: {error} in {quoted(source)}") from None
    except RecursionError:
        raise Refusal("The pattern is nested too deeply") from None


# What these recognise is understood; whatever else there is counts as UNKNOWN or FARTHER, which costs time
# and no more.
_HARMLESS_ESCAPE = re.compile(r"\\(?:[^A-Za-z0-9\x00-\x1f]|[wdSbBmM])")
_MATCHES_NEWLINE = re.compile(r"\\|\[\^|\[:|[\x00-\x1f]")
_WORD_EDGE_IN_CLASS = re.compile(r"\[[^\]]*\\[bBmM]")  # there it is a backspace, and may begin a range
_WHOLE_TEXT = re.compile(r"\\[AZzGKRX]|\(\*")
_FUZZY = re.compile(r"\{[^{}]*[idse<]")
_FLAGS = re.compile(r"\(\?(?![aimux]+[:)]|P)[A-Za-z0-9+-]")
# Where an attempt that goes too far is not taken back, a shorter match may be missed.
_NOT_TAKEN_BACK = re.compile(r"\(\?(?!:|P<|<[A-Za-z_]|[aimu]+[:)])|[*+?}]\+")


def sight(source: str) -> Sight:
    """What a valid expression can see beyond the line that it is tried on, judged by its text. It errs downwards."""
    rest = _HARMLESS_ESCAPE.sub("", source)
    if _WHOLE_TEXT.search(source) or _FLAGS.search(source) or _FUZZY.search(rest):
        return Sight.UNKNOWN
    if not _MATCHES_NEWLINE.search(rest) and not _WORD_EDGE_IN_CLASS.search(source):
        return Sight.SAME
    return Sight.UNKNOWN if _NOT_TAKEN_BACK.search(source) else Sight.FARTHER


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d+)(?:,\d*)?\}|.", re.DOTALL)


def _unrolled_length(source: str) -> int:
    """About how many characters are left when every counted repeat is written out."""
    open_groups = [0]
    last = 0
    for token in _TOKEN.finditer(source):
        if token[0] == "(":
            open_groups.append(0)
            last = 0
        elif token[0] == ")" and len(open_groups) > 1:
            last = open_groups.pop()
            open_groups[-1] += last
        elif token["least"] is not None:
            open_groups[-1] += last * (int(token["least"][:9]) - 1)
        else:
            last = 1
            open_groups[-1] += 1
    return sum(open_groups)

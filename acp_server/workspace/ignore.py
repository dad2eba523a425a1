"""The rules of one ignore file of git (gitignore(5)): which entries they ignore, which they keep.

A library translates the patterns. Here is what a walk needs beyond that: rules that judge an entry by itself,
because the walk has judged its parents already, at a cost that hardly grows with the number of rules. It
knows no directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import gitmatch
import regex

# More wildcards than this in a pattern and a crafted name can make it take for ever: such a pattern gets a
# time limit.
_CHEAP_WILDCARDS = 3
_TIME_LIMIT = 0.05
_LONGEST_PATTERN = 1024


class _Rule(NamedTuple):
    negative: bool
    directories_only: bool
    by_name: bool
    pattern: re.Pattern[str] | regex.Pattern[str]

    def matches(self, path: str, name: str) -> bool:
        subject = name if self.by_name else path
        if isinstance(self.pattern, re.Pattern):
            return self.pattern.fullmatch(subject) is not None
        try:
            return self.pattern.fullmatch(subject, timeout=_TIME_LIMIT, concurrent=True) is not None
        except TimeoutError:
            return False


class IgnoreRules:
    """The rules of one ignore file.

    Args:
        lines: its lines. Comments, empty lines and patterns that git would not understand have no effect.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line)) is not None]
        self._rules.reverse()  # the last one that matches decides
        # One expression for all the rules tells quickly what most entries are: matched by none.
        self._quick = all(isinstance(rule.pattern, re.Pattern) for rule in self._rules)
        self._any_name = _any_of(rule.pattern.pattern for rule in self._rules if rule.by_name)
        self._any_path = _any_of(rule.pattern.pattern for rule in self._rules if not rule.by_name)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, name: str, is_directory: bool) -> bool | None:
        """Whether the entry is ignored (True) or kept (False) by these rules, or None where they say nothing.

        Args:
            path: the entry's path relative to the directory of the ignore file, with `/`.
            name: the last part of it.
            is_directory: whether it is a directory.
        """
        if self._quick and not (
            (self._any_name is not None and self._any_name.fullmatch(name))
            or (self._any_path is not None and self._any_path.fullmatch(path))
        ):
            return None
        for rule in self._rules:
            if (is_directory or not rule.directories_only) and rule.matches(path, name):
                return not rule.negative
        return None


def _rule(line: str) -> _Rule | None:
    if len(line) > _LONGEST_PATTERN:
        return None
    try:
        found = gitmatch.pattern2regex(line.removesuffix("\r"))
        if found is None:
            return None
        # A pattern without a slash judges names, wherever they are: anchored, it can be tried on the name
        # alone.
        body = found.pattern.removeprefix("!") if found.negative else found.pattern
        by_name = "/" not in body.removesuffix("/")
        if by_name:
            found_by_name = gitmatch.pattern2regex("/" + body)
            assert found_by_name is not None
            source = found_by_name.regex
        else:
            source = found.regex
    except gitmatch.InvalidPatternError:
        return None
    hard = body.count("*") > _CHEAP_WILDCARDS
    pattern = regex.compile(source, cache_pattern=False) if hard else re.compile(source)
    return _Rule(found.negative, found.dir_only, by_name, pattern)


def _any_of(sources: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(sources)
    return re.compile(joined) if joined else None

"""Finds the files that git ignores. `IgnoreRules` has the rules of one ignore file (gitignore(5)); `IgnoreScope` has
the rules that apply in a directory.

An ignore file comes with a folder, so it may be malicious. The time to match one rule is at most proportional to the
product of the lengths of the rule and the name. The cost of all rules of one walk is bounded (`Steps`), and the walk
can stop between two rules. Only ignore files are read.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Callable, Generator, Iterable
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

import gitmatch

from acp_server.apps.coder.read import Skipped, open_regular, reason_of

T = TypeVar("T")
Pulses: TypeAlias = Generator[None, None, T]
"""A generator that yields None now and then, so that its consumer can stop, and then returns a value."""

_LARGEST_IGNORE_FILE = 256 * 1024
_LONGEST_PATTERN = 1024
_MOST_STARS = 100

# A step compares a character of a rule with one of a name: 1 to 3 ns on CPython 3.11, and most are not taken.
_STEPS = 5_000_000_000  # of one walk
_STEPS_EACH = 50_000  # added for each entry, so that a large tree with benign rules never runs out of steps
_STEPS_LENT = 10_000_000
_STEPS_BETWEEN_PULSES = 1_000_000
# The costs of other work, in steps.
_STEPS_OF_A_LINE = 200
_STEPS_OF_A_WILDCARD_LINE = 10_000
_STEPS_OF_A_CHARACTER = 300  # of a line with wildcards
_STEPS_OF_A_COMPILED_CHARACTER = 2_000

# Characters of rules that are tried in one call, which holds the GIL. A name has up to 255 bytes, a path 4,096.
_NAME_RULES_AT_ONCE = 2048
_PATH_RULES_AT_ONCE = 1024


def finished(pulses: Pulses[T]) -> T:
    """Run the generator to its end, and return its value."""
    while True:
        try:
            next(pulses)
        except StopIteration as end:
            return end.value


class TooManySteps(Exception):
    """Raised when the steps are used up. The ignore file that has taken the most steps must then be left out."""


class Steps:
    """The steps that the ignore files of one walk may take."""

    def __init__(self) -> None:
        self._left = _STEPS
        self._since = 0

    def more(self) -> None:
        """Add the steps for one more entry."""
        self._left += _STEPS_EACH

    def take(self, steps: int) -> None:
        """Take steps. Raises TooManySteps if fewer are left."""
        if steps > self._left:
            raise TooManySteps
        self._left -= steps
        self._since += steps

    def lend(self) -> None:
        """Add steps because an ignore file was left out, so that the others are not left out too."""
        self._left = max(self._left, _STEPS_LENT)

    def due(self) -> bool:
        """Whether the consumer of the walk should get a chance to stop it."""
        if self._since < _STEPS_BETWEEN_PULSES:
            return False
        self._since = 0
        return True


# -- one rule

# gitmatch's translations of the wildcards. It escapes everything else, so these texts mean nothing else.
_STAR = r"[^/\0]*"
_DIRECTORIES = r"(?:[^/\0]+/)*"
_ALL_BELOW = r"(?:(?:/[^/\0]+)+/?|/)"

_WILDCARDS = frozenset("*?[\\")

# Patterns that gitmatch reads differently from git.
_MORE_STARS = re.compile(r"\*{3,}")
_ROOT_OF_ALL = re.compile(r"^(!?)/(?=\*{2,}(?:/|[ \t]*$))")

# Appended to the name and the path of a directory, so that rules only for directories match.
_DIRECTORY = "\0"


class _Rule(NamedTuple):
    """One rule. `literal`: the name or the path that the rule matches. If it is None, `expression` matches them."""

    negative: bool
    by_name: bool
    literal: str | None
    expression: str


def _rule(line: str) -> _Rule | None:
    """Return the rule in a line; None for a comment, an empty line and lines that git would not understand."""
    line = line.removesuffix("\r")
    if len(line) > _LONGEST_PATTERN or line.count("*") > _MOST_STARS:
        return None
    if _WILDCARDS.isdisjoint(line):
        return None if line.startswith("#") else _literal_rule(line)
    try:
        found = gitmatch.pattern2regex(_MORE_STARS.sub("**", _ROOT_OF_ALL.sub(r"\1", line)))
        if found is None:
            return None
        # A pattern without a slash matches names at any depth: anchored, it can be tried on the name alone.
        body = found.pattern.removeprefix("!") if found.negative else found.pattern
        by_name = "/" not in body.removesuffix("/")
        anchored = gitmatch.pattern2regex("/" + body) if by_name else found
        assert anchored is not None
    except gitmatch.InvalidPatternError:
        return None
    directory = r"\0" if found.dir_only else r"\0?"
    return _Rule(found.negative, by_name, None, _linear(anchored.regex) + directory)


def _cost(line: str) -> int:
    """Return the number of steps to parse the line."""
    if _WILDCARDS.isdisjoint(line):
        return _STEPS_OF_A_LINE
    return _STEPS_OF_A_WILDCARD_LINE + min(len(line), _LONGEST_PATTERN) * _STEPS_OF_A_CHARACTER


def _literal_rule(line: str) -> _Rule | None:
    """Return a rule for a line without wildcards; None for any other. Most rules have no wildcards, and need only a
    lookup."""
    text = line.removeprefix("!").rstrip(" \t")
    name = text.removesuffix("/")
    literal = name.removeprefix("/")
    if not literal:
        return None
    return _Rule(line.startswith("!"), "/" not in name, literal + _DIRECTORY * text.endswith("/"), "")


def _linear(expression: str) -> str:
    """Return gitmatch's expression for a pattern in a form that needs no backtracking.

    The text between two wildcards has a fixed length. If it matches at several positions, the first is as good as any,
    since the next wildcard takes the text in between. So each part is an atomic group, as in `fnmatch.translate`. The
    last part must reach the end.
    """
    body = expression.removeprefix("(?a:").removesuffix(")")
    all_below = body.endswith(_ALL_BELOW)
    parts = [_linear_stars(part) for part in body.removesuffix(_ALL_BELOW).split(_DIRECTORIES)]
    if all_below:
        parts[-1] += "/"
    first, *rest = parts
    directories = r"(?:[^/\0]++/)*"
    last = "" if all_below or not rest else directories + rest.pop()
    between = "".join(f"(?>{directories}?{part})" for part in rest)
    return first + between + last + (r"[^\0]+" if all_below else "")


def _linear_stars(part: str) -> str:
    first, *rest = part.split(_STAR)
    if not rest:
        return first
    last = rest.pop()
    return first + "".join(f"(?>{_STAR}?{text})" for text in rest if text) + _STAR + last


# -- the rules of a file


class _Piece(NamedTuple):
    """Rules that are tried in one call, the last one first. `rules`: their numbers, in this order."""

    pattern: re.Pattern[str]
    rules: list[int]
    size: int


def _groups(rules: list[tuple[int, str]], at_once: int) -> list[list[tuple[int, str]]]:
    """Group the expressions, each with its number, the last one first. A group has at most `at_once` characters."""
    groups: list[list[tuple[int, str]]] = []
    size = at_once
    for number, expression in reversed(rules):
        size += len(expression)
        if size > at_once:
            groups.append([])
            size = len(expression)
        groups[-1].append((number, expression))
    return groups


class IgnoreRules:
    """The rules of one ignore file.

    Args:
        lines: its lines. Comments, empty lines and patterns that git would not understand have no effect.
    """

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.forget()
        finished(self.read(lines, Steps()))

    def forget(self) -> None:
        """Drop all rules."""
        self._negative: list[bool] = []
        self._names: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        self._name_pieces: list[_Piece] = []
        self._path_pieces: list[_Piece] = []
        self.taken: int = 0
        """The number of steps that the file has taken so far."""

    def __len__(self) -> int:
        """The number of rules."""
        return len(self._negative)

    def read(self, lines: Iterable[str], steps: Steps) -> Pulses[None]:
        """Add the rules in these lines. Raises TooManySteps."""
        names: list[tuple[int, str]] = []
        paths: list[tuple[int, str]] = []
        for line in lines:
            self._take(_cost(line), steps)
            if steps.due():
                yield
            if (rule := _rule(line)) is None:
                continue
            if rule.literal is None:
                (names if rule.by_name else paths).append((len(self), rule.expression))
            else:
                (self._names if rule.by_name else self._paths)[rule.literal] = len(self)
            self._negative.append(rule.negative)
        self._name_pieces = yield from self._compiled(_groups(names, _NAME_RULES_AT_ONCE), steps)
        self._path_pieces = yield from self._compiled(_groups(paths, _PATH_RULES_AT_ONCE), steps)

    def _compiled(self, groups: list[list[tuple[int, str]]], steps: Steps) -> Pulses[list[_Piece]]:
        pieces: list[_Piece] = []
        for group in groups:
            # The empty group after each rule identifies the rule that matched.
            source = "|".join(f"{expression}()" for _, expression in group)
            self._take(len(source) * _STEPS_OF_A_COMPILED_CHARACTER, steps)
            if steps.due():
                yield
            pieces.append(_Piece(re.compile(source), [number for number, _ in group], len(source)))
        return pieces

    def _take(self, number: int, steps: Steps) -> None:
        # Counted even if they are not left: this file may exceed the limit.
        self.taken += number
        steps.take(number)

    def verdict(self, path: str, name: str, is_directory: bool) -> bool | None:
        """Whether the rules ignore the entry (True) or keep it (False); None if no rule matches.

        Args:
         path: the entry's path relative to the directory of the ignore file, with `/`.
         name: the last part of the path.
         is_directory: whether the entry is a directory.
        """
        return finished(self.judge(path, name, is_directory, Steps()))

    def judge(self, path: str, name: str, is_directory: bool, steps: Steps) -> Pulses[bool | None]:
        """Decide like `verdict`, in steps. Raises TooManySteps."""
        best = max(self._names.get(name, -1), self._paths.get(path, -1))
        if is_directory:
            name, path = name + _DIRECTORY, path + _DIRECTORY
            best = max(best, self._names.get(name, -1), self._paths.get(path, -1))
        for subject, pieces in ((name, self._name_pieces), (path, self._path_pieces)):
            for pattern, rules, size in pieces:
                if rules[0] < best:
                    break
                self._take(size * len(subject), steps)
                if steps.due():
                    yield
                if (found := pattern.fullmatch(subject)) is not None:
                    best = max(best, rules[(found.lastindex or 1) - 1])
                    break
        # The last rule that matches decides.
        return None if best < 0 else not self._negative[best]


# -- the rules of a directory

OnProblem: TypeAlias = Callable[[Skipped], None]
"""Called with an ignore file that exists and does not apply."""


class IgnoreScope(NamedTuple):
    """The rules of one ignore file, and the scope for entries that they do not match."""

    rules: IgnoreRules
    file: str
    prefix: int  # the length of an absolute path before the part that the rules match
    outer: IgnoreScope | None

    def ignores(self, path: str, name: str, is_directory: bool, steps: Steps, on_problem: OnProblem) -> Pulses[bool]:
        """Whether the entry with this absolute path is ignored, given that its parent directory is not."""
        steps.more()
        if os.sep != "/":
            path = path.replace(os.sep, "/")
        plain = path.isascii()
        if not plain:
            name = _bytes(name)
        scope: IgnoreScope | None = self
        while scope is not None:
            inside = path[scope.prefix :]
            try:
                verdict = yield from scope.rules.judge(inside if plain else _bytes(inside), name, is_directory, steps)
            except TooManySteps:
                on_problem(self._leave_out_most_costly())
                steps.lend()
                continue
            if verdict is not None:
                return verdict
            scope = scope.outer
        return False

    def _leave_out_most_costly(self) -> Skipped:
        worst: IgnoreScope = self
        scope = self.outer
        while scope is not None:
            worst = max(worst, scope, key=lambda each: each.rules.taken)
            scope = scope.outer
        skipped = _left_out(worst.file, len(worst.rules))
        worst.rules.forget()
        return skipped


def _left_out(file: str, rules: int) -> Skipped:
    return Skipped(file, f"Its {rules:,} rules take too long, so none of them counts", rules=rules)


def scope_above(top: str, steps: Steps, on_problem: OnProblem) -> Pulses[IgnoreScope | None]:
    """Return the scope of `top` without the ignore file of `top` itself.

    The scope has the rules of the repository that contains `top`, from the root down to the directory above `top`. If
    they ignore `top` itself, they were not made for its content, so they do not apply.
    """
    directories = [top]
    while not os.path.lexists(os.path.join(directories[-1], ".git")):
        parent = os.path.dirname(directories[-1])
        if parent == directories[-1]:
            return None
        directories.append(parent)
    scope = yield from repository_scope(directories[-1], steps, on_problem)
    for directory, child in pairwise(reversed(directories)):
        scope = yield from directory_scope(directory, scope, steps, on_problem)
        if scope is None:
            continue
        if (yield from scope.ignores(child, os.path.basename(child), True, steps, on_problem)):
            return None
    return scope


def directory_scope(
    directory: str, outer: IgnoreScope | None, steps: Steps, on_problem: OnProblem
) -> Pulses[IgnoreScope | None]:
    """Return the scope of a directory. The rules of its `.gitignore` come first, then `outer`."""
    return _scope(os.path.join(directory, ".gitignore"), directory, outer, steps, on_problem)


def repository_scope(directory: str, steps: Steps, on_problem: OnProblem) -> Pulses[IgnoreScope | None]:
    """Return the first scope in the root of a repository. It has the rules of `info/exclude`, and no rules from
    outside."""
    git = os.path.join(directory, ".git")
    try:
        # In a worktree and in a submodule `.git` is a file that names the directory.
        if os.path.isfile(git):
            git = os.path.join(directory, _read_pointer(git).removeprefix("gitdir:").lstrip())
            common = os.path.join(git, "commondir")
            if os.path.isfile(common):
                git = os.path.join(git, _read_pointer(common))
    except OSError:
        # git would not work here either, so it excludes nothing.
        return None
    return (yield from _scope(os.path.join(git, "info", "exclude"), directory, None, steps, on_problem))


def _scope(
    file: str, directory: str, outer: IgnoreScope | None, steps: Steps, on_problem: OnProblem
) -> Pulses[IgnoreScope | None]:
    try:
        lines = _read(file).split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return outer
    except OSError as error:
        on_problem(Skipped(file, reason_of(error)))
        return outer
    rules = IgnoreRules()
    try:
        yield from rules.read(lines, steps)
    except TooManySteps:
        on_problem(_left_out(file, sum(not line.startswith("#") and not line.isspace() for line in lines if line)))
        return outer
    return IgnoreScope(rules, file, len(os.path.join(directory, "")), outer) if rules else outer


def _read_pointer(path: str) -> str:
    return os.fsdecode(_read(path).partition("\0")[0].encode("latin-1")).strip()


def _bytes(name: str) -> str:
    """Return each byte of the name as a character. For git a `?` matches one byte, and a name need not be UTF-8."""
    return os.fsencode(name).decode("latin-1")


def _read(path: str) -> str:
    descriptor = open_regular(path)
    try:
        data = os.read(descriptor, _LARGEST_IGNORE_FILE + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST_IGNORE_FILE:
        raise OSError(errno.EFBIG, "Too large for an ignore file")
    return data.removeprefix(codecs.BOM_UTF8).decode("latin-1")

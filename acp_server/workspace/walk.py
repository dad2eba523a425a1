"""The files below a directory, one after the other, without those that git would ignore.

What git ignores is told by the rules of one ignore file (`IgnoreRules`; gitignore(5)), and by which of them count in a
directory (`IgnoreScope`). No symbolic link is followed, and no file is read but ignore files.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import gitmatch
import regex

from acp_server.workspace.read import open_regular, reason_of
from acp_server.workspace.roots import Refusal, Roots, quoted

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
        self._rules.reverse()  # the last rule that matches decides
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


_LARGEST_IGNORE_FILE = 256 * 1024


# Is told of an ignore file that exists and cannot be used.
OnProblem = Callable[[str, OSError], None]


class IgnoreScope(NamedTuple):
    """The rules of one ignore file, and the scope that counts where they say nothing."""

    rules: IgnoreRules
    prefix: int  # how much of an absolute path stands before what the rules judge
    outer: IgnoreScope | None

    def ignores(self, path: str, name: str, is_directory: bool) -> bool:
        """Whether the entry of this absolute path is ignored, given that its parent directory is not."""
        scope: IgnoreScope | None = self
        if os.sep != "/":
            path = path.replace(os.sep, "/")
        plain = path.isascii()
        while scope is not None:
            inside = path[scope.prefix :]
            verdict = scope.rules.verdict(*((inside, name) if plain else (_bytes(inside), _bytes(name))), is_directory)
            if verdict is not None:
                return verdict
            scope = scope.outer
        return False


def scope_above(top: str, on_problem: OnProblem) -> IgnoreScope | None:
    """What counts in `top` apart from its own ignore file.

    These are the rules of its repository, if it is in one, from the root down to the directory above `top`.
    None of them counts if they ignore `top` itself: then they were not made for what is in it.
    """
    directories = [top]
    while not os.path.lexists(os.path.join(directories[-1], ".git")):
        parent = os.path.dirname(directories[-1])
        if parent == directories[-1]:
            return None
        directories.append(parent)
    scope = repository_scope(directories[-1], on_problem)
    for directory, child in pairwise(reversed(directories)):
        scope = directory_scope(directory, scope, on_problem)
        if scope is not None and scope.ignores(child, os.path.basename(child), True):
            return None
    return scope


def directory_scope(directory: str, outer: IgnoreScope | None, on_problem: OnProblem) -> IgnoreScope | None:
    """What counts in a directory: the rules of its `.gitignore`, then `outer`."""
    return _scope(os.path.join(directory, ".gitignore"), directory, outer, on_problem)


def repository_scope(directory: str, on_problem: OnProblem) -> IgnoreScope | None:
    """What counts first in the root of a repository: the rules of its `info/exclude`, and nothing from outside."""
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
    return _scope(os.path.join(git, "info", "exclude"), directory, None, on_problem)


def _scope(path: str, directory: str, outer: IgnoreScope | None, on_problem: OnProblem) -> IgnoreScope | None:
    try:
        text = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return outer
    except OSError as error:
        on_problem(path, error)
        return outer
    rules = IgnoreRules(text.split("\n"))
    return IgnoreScope(rules, len(os.path.join(directory, "")), outer) if rules else outer


def _read_pointer(path: str) -> str:
    return os.fsdecode(_read(path).partition("\0")[0].encode("latin-1")).strip()


def _bytes(name: str) -> str:
    """Each byte as a character: to git a `?` is one byte, and a name need not be UTF-8."""
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


# What version control systems keep for themselves (in a worktree of git it is a file) does not belong
# to the project.
_VERSION_CONTROL = frozenset((".git", ".hg", ".jj", ".svn"))


# A directory may hold a hundred thousand entries, and to judge one takes some microseconds.
_ENTRIES_BETWEEN_PULSES = 1000


class Skipped(NamedTuple):
    """Something that could not be read.

    Attributes:
        path: absolute.
        reason: for the user; it names no path.
        line: the number of the line that was left out, None if everything was.
    """

    path: str
    reason: str
    line: int | None = None


# A file to hand out, or a directory to enter with the rules that count above it.
_Item = str | tuple[str, IgnoreScope | None]


def walk(top: str, skip: Collection[str] = ()) -> Generator[str | Skipped | None]:
    """The absolute paths of the regular files below `top`, sorted.

    What git ignores is left out: by the `.gitignore` of each directory, also of those between `top` and the root of its
    repository, and by `.git/info/exclude`. A user's own settings do not count, since they do not belong to the project.
    Inside a nested repository its own rules count and no others. `top` is walked even if it is ignored: it was asked
    for.

    Args:
        top: an absolute path of a directory.
        skip: absolute paths of directories that are not entered.

    Yields:
        A path; a `Skipped` for a directory or an ignore file that cannot be read; None after each directory,
        so that the consumer can stop where there are no files, too.
    """
    problems: list[Skipped] = []

    def on_problem(path: str, error: OSError) -> None:
        problems.append(Skipped(path, reason_of(error)))

    waiting: list[_Item] = [(top, scope_above(top, on_problem))]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            continue
        directory, scope = item
        try:
            with os.scandir(directory) as found:
                entries = list(found)
        except OSError as error:
            yield Skipped(directory, reason_of(error))
            continue
        names = {entry.name for entry in entries}
        if ".git" in names and directory != top:
            scope = repository_scope(directory, on_problem)
        if ".gitignore" in names:
            scope = directory_scope(directory, scope, on_problem)
        yield from problems
        problems.clear()
        kept = yield from _kept(entries, scope, skip)
        waiting += reversed(kept)
        yield None


def files_below(roots: Roots, path: str | None) -> Iterator[str | Skipped | None]:
    """The files that a path stands for: one, or what `walk` yields. Without a path: those of all of the directories.

    Args:
        path: as the user typed it.

    Raises:
        Refusal: it leads out of the session's directories, or there is nothing there.
    """
    if path is None:
        for directory in roots.directories:
            # One inside another is walked by itself: then it counts even where the other one's rules ignore
            # it.
            yield from walk(directory, skip=roots.directories)
        return
    target = str(roots.resolve(path))
    if os.path.isdir(target):
        yield from walk(target)
    elif os.path.exists(target):
        yield target
    else:
        raise Refusal(f"No such file or directory: {quoted(path)}")


def _kept(
    entries: list[os.DirEntry[str]], scope: IgnoreScope | None, skip: Collection[str]
) -> Generator[None, None, list[_Item]]:
    """What to visit, in order: a directory sorts as its name with a slash, so that whole paths come out sorted."""
    kept: dict[str, _Item] = {}
    for number, entry in enumerate(entries, 1):
        if number % _ENTRIES_BETWEEN_PULSES == 0:
            yield
        if entry.name in _VERSION_CONTROL:
            continue
        is_directory = entry.is_dir(follow_symlinks=False)
        if is_directory:
            if _is_junction(entry) or entry.path in skip:
                continue
        elif not entry.is_file(follow_symlinks=False):
            continue
        if scope is not None and scope.ignores(entry.path, entry.name, is_directory):
            continue
        if is_directory:
            kept[entry.name + "/"] = (entry.path, scope)
        else:
            kept[entry.name] = entry.path
    return [kept[name] for name in sorted(kept)]


def _is_junction(entry: os.DirEntry[str]) -> bool:
    if sys.platform != "win32":
        return False
    return entry.stat(follow_symlinks=False).st_reparse_tag == stat.IO_REPARSE_TAG_MOUNT_POINT

"""Which ignore rules count in a directory: its own, those of the directories above it, those of its repository.

It finds and reads the ignore files; `ignore` knows what they say, and `walk` when to ask.
"""

from __future__ import annotations

import codecs
import errno
import os
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from .ignore import IgnoreRules
from .textfile import open_regular

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

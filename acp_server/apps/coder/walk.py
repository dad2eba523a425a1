"""Lists the files below a directory, except files that git would ignore.

The rules of git are in `acp_server.apps.coder.ignore`. No symbolic link is followed, and only ignore files are read.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Generator, Iterator

from acp_server.apps.coder.ignore import (
    IgnoreScope,
    OnProblem,
    Pulses,
    Steps,
    directory_scope,
    repository_scope,
    scope_above,
)
from acp_server.apps.coder.read import Skipped, reason_of
from acp_server.apps.coder.roots import Refusal, Roots, quoted

# The data of version control systems (in a worktree of git it is a file) does not belong to the project.
_VERSION_CONTROL = frozenset((".git", ".hg", ".jj", ".svn"))


# A directory may have a hundred thousand entries, and matching one takes some microseconds.
_ENTRIES_BETWEEN_PULSES = 1000


# A file to yield, or a directory to enter with the rules that apply above it.
_Item = str | tuple[str, IgnoreScope | None]


def walk(top: str, skip: Collection[str] = ()) -> Generator[str | Skipped | None]:
    """Yield the absolute paths of the regular files below `top`, sorted.

    Files that git ignores are omitted. The rules are those of `.git/info/exclude`, and of the `.gitignore` of each
    directory, also between `top` and the root of its repository. A user's own git settings do not apply, since they do
    not belong to the project. In a nested repository only its own rules apply. `top` is walked even if it is ignored,
    since it was requested.

    Args:
     top: an absolute path of a directory.
     skip: absolute paths of directories that are not entered.

    Yields:
     A path; a `Skipped` for a directory or an ignore file that cannot be read; None after each directory, so that the
     consumer can stop where there are no files, too.
    """
    problems: list[Skipped] = []
    steps = Steps()
    waiting: list[_Item] = [(top, (yield from scope_above(top, steps, problems.append)))]
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
            scope = yield from repository_scope(directory, steps, problems.append)
        if ".gitignore" in names:
            scope = yield from directory_scope(directory, scope, steps, problems.append)
        kept = yield from _kept(entries, scope, skip, steps, problems.append)
        yield from problems
        problems.clear()
        waiting += reversed(kept)
        yield None


def files_below(roots: Roots, path: str | None) -> Iterator[str | Skipped | None]:
    """Yield the files of a path: one file, or the files from `walk`. Without a path, yield the files of all
    directories.

    Args:
     path: the path as the user typed it.

    Raises:
     Refusal: the path leads out of the directories of the session, or does not exist.
    """
    if path is None:
        for directory in roots.directories:
            # A directory inside another one is walked separately: so it counts even if the outer one's rules ignore it.
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
    entries: list[os.DirEntry[str]],
    scope: IgnoreScope | None,
    skip: Collection[str],
    steps: Steps,
    on_problem: OnProblem,
) -> Pulses[list[_Item]]:
    """Return the entries to visit, in order. A directory is sorted by its name with a slash, so that whole paths are
    sorted."""
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
        if scope is not None and (yield from scope.ignores(entry.path, entry.name, is_directory, steps, on_problem)):
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

"""Walks the path from a folder down to a file in it, name by name, so that no symbolic link leads elsewhere.

The operating system resolves a path again at each use, and a folder may be replaced by a link between two uses. A `Way`
holds the file's folder open, and operations through it happen in that folder. Some systems have no operations relative
to an open folder (Windows). There, each folder is checked by its path instead, which leaves a short time between check
and use.

This module imports nothing of the package, and does not decide which folders may be used.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

_RELATIVE: Final = os.open in os.supports_dir_fd
_SEARCHED: Final[int | None] = getattr(os, "O_PATH", None)
"""A flag that opens a folder only to reach names below it. So a folder above the root can be passed even if it cannot
be listed."""

_DEVICES: Final = ("/dev", "/dev/fd")
"""The system's own folders, whose entries include links. `/dev/shm` is not among them, because any user may write to
it."""

# A system does not need the flags that it lacks: Windows has no O_NOFOLLOW, POSIX no O_BINARY.
_ALWAYS: Final = sum(getattr(os, n, 0) for n in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT"))
_FOLDER: Final = _ALWAYS | getattr(os, "O_DIRECTORY", 0) | (_SEARCHED or os.O_RDONLY)

_MOST_MADE: Final = 64
"""The most new folders for one file. Each of them is held open until the file is created."""

Identity = tuple[int, int]
"""The device and the inode of a file or folder."""


def here() -> str | None:
    """Return the current folder; None if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def is_inside(path: str, root: str) -> bool:
    """Whether a path without links is `root` or below it."""
    path, root = os.path.normcase(path), os.path.normcase(root)
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


class Place(NamedTuple):
    """The position of an existing or new file below a folder.

    Attributes:
        root: the folder that must contain the file: absolute, and without symbolic links.
        rest: the path below that folder.
        seen: the folders and the file that were found there earlier (see `Way.seen`); empty if that was not checked.
    """

    root: str
    rest: str
    seen: tuple[Identity | None, ...] = ()


class Folder:
    """An open folder. Pass `at(name)` and `relative` to functions of `os` with `dir_fd`, so that they act in the
    folder."""

    def __init__(self, path: str, above: Folder | None = None) -> None:
        """`path`: an absolute path, or a name in the folder `above`. Raises OSError for a link."""
        self._path = path if above is None else os.path.join(above._path, path)
        self._descriptor: int | None = None
        if _RELATIVE:
            self._descriptor = os.open(path, _FOLDER, dir_fd=None if above is None else above._descriptor)
            found = os.fstat(self._descriptor)
        else:
            found = os.lstat(self._path)
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        self.identity: Identity = _identity(found)

    def close(self) -> None:
        """Close the folder. Idempotent. It cannot be used afterwards, not even by its path."""
        if self._descriptor is not None and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def relative(self) -> dict[str, Any]:
        """The arguments that make a function of `os` take a name in the folder."""
        return {} if self._descriptor is None else {"dir_fd": self._descriptor}

    def at(self, name: str) -> str:
        """Return a name in the folder, for a function that is called with `relative`."""
        return os.path.join(self._path, name) if self._descriptor is None else name

    def link(self, source: Folder, old: str, new: str) -> None:
        """Create another name in this folder for the file `old` of `source`. Raises FileExistsError if the name is
        taken."""
        os.link(source.at(old), self.at(new), **_both(source, self))

    def replace(self, old: str, new: str) -> None:
        """Rename a file of this folder, replacing a file with the new name."""
        os.replace(self.at(old), self.at(new), **_both(self, self))


def _both(source: Folder, target: Folder) -> dict[str, Any]:
    return {f"{end}_dir_fd": fd for end, f in (("src", source), ("dst", target)) for fd in f.relative.values()}


class Way:
    """The path to a file, with the file's folder open, or the nearest existing folder above it.

    All methods raise OSError, and follow no link.
    """

    def __init__(self, place: Place) -> None:
        above, start = _start(place.root)
        names = [name for name in place.rest.split(os.sep) if name]
        if not names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        *folders, name = names
        self.name: str = name
        self.missing: deque[str] = deque(folders)
        """The names of the folders that do not exist, the topmost first."""
        self.folder: Folder = Folder(start)
        self._seen = [self.folder.identity]
        try:
            for name in above:
                self._enter(name).close()
            with suppress(FileNotFoundError):
                while self.missing:
                    self._enter(self.missing[0]).close()
                    self.missing.popleft()
        except BaseException:
            self.folder.close()
            raise
        self._nearest = self.folder

    def close(self) -> None:
        """Close the folder. Idempotent."""
        self._nearest.close()
        self.folder.close()

    @property
    def folders(self) -> tuple[Identity | None, ...]:
        """The folders of the path; None for each missing folder."""
        return (*self._seen, *(None for _ in self.missing))

    @property
    def seen(self) -> tuple[Identity | None, ...]:
        """The folders of the path, followed by the file."""
        found = self.stat()
        return (*self.folders, None if found is None else _identity(found))

    def stat(self) -> os.stat_result | None:
        """Return the status of the file; None if it does not exist."""
        if self.missing:
            return None
        try:
            return os.stat(self.folder.at(self.name), **self.folder.relative, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open the file without following links and without blocking. Returns a descriptor, which the caller closes."""
        if self.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return os.open(self.folder.at(self.name), flags | _ALWAYS, mode, **self.folder.relative)

    @contextmanager
    def folders_made(self) -> Generator[None]:
        """Create and enter the missing folders. If the block fails, the created folders are removed."""
        if len(self.missing) > _MOST_MADE:
            raise OSError(errno.ENAMETOOLONG, "Too many new folders at once")
        made: list[tuple[Folder, str, bool]] = []
        try:
            while self.missing:
                name = self.missing[0]
                is_new = False
                with suppress(FileExistsError):
                    os.mkdir(self.folder.at(name), **self.folder.relative)
                    is_new = True
                made.append((self.folder, name, is_new))
                self._enter(name)
                self.missing.popleft()
            yield
        except BaseException:
            for folder, name, is_new in reversed(made):
                if is_new:
                    with suppress(OSError):
                        os.rmdir(folder.at(name), **folder.relative)
            raise
        finally:
            for folder, _, _ in made:
                # The nearest folder that existed before stays open: the caller may have created a file in it.
                if folder not in (self._nearest, self.folder):
                    folder.close()

    def _enter(self, name: str) -> Folder:
        """Enter a folder. Returns the previous folder, which is still open."""
        before, self.folder = self.folder, Folder(name, self.folder)
        self._seen.append(self.folder.identity)
        return before


@contextmanager
def way_to(place: Place) -> Generator[Way]:
    """Return the path to a file, open within the block. Raises OSError if the path contains a link or the root is
    gone."""
    way = Way(place)
    try:
        yield way
    finally:
        way.close()


def is_same(before: tuple[Identity | None, ...], now: tuple[Identity | None, ...]) -> bool:
    """Whether the path has the same folders and the same file as before. If there was no file, there must still be
    none. New folders are ignored, because several files of one new folder may be created at once."""
    return before[-1] == now[-1] and all(then in (None, later) for then, later in zip(before, now, strict=True))


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _start(root: str) -> tuple[list[str], str]:
    """Return the names to walk above `root`, and where the walk begins. A folder above the root may be replaced too.
    Walking from the top needs folders that can be opened without permission to list them."""
    if _SEARCHED is None:
        return [], root
    return [name for name in root.split(os.sep) if name], os.sep


_DURABLE: Final = _ALWAYS & ~getattr(os, "O_NOFOLLOW", 0)


def open_private(path: str | os.PathLike[str], flags: int, *, mode: int = 0o600, follow: bool = False) -> int:
    """Open a private file for writing. Returns a descriptor, which the caller closes.

    `flags`: `os.O_APPEND` or `os.O_TRUNC`. `mode`: the permissions of a new file; with `O_TRUNC` an existing file loses
    other permissions. `follow`: follow a symbolic link at the path.

    Raises OSError, for example for a file that would block, such as a named pipe. An entry of `/dev`, such as
    `/dev/stdout`, belongs to the system, and is opened even if it is a link.
    """
    if os.path.dirname(path) in _DEVICES:
        return os.open(path, os.O_WRONLY | (flags & ~os.O_TRUNC))
    always = _DURABLE if follow else _ALWAYS
    # The content is lost only after the check that it is a regular file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (flags & ~os.O_TRUNC) | always, mode)
    try:
        found = os.fstat(descriptor)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):
            raise OSError(errno.EINVAL, "Not a regular file")
        if flags & os.O_TRUNC and stat.S_ISREG(found.st_mode):
            if hasattr(os, "fchmod") and stat.S_IMODE(found.st_mode) & ~mode:
                with suppress(PermissionError):  # another user's file, with permission to write it
                    os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & mode)
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


__all__ = ["Folder", "Identity", "Place", "Way", "is_inside", "is_same", "way_to"]

"""The way from a folder down to a file in it, walked name by name, so that no symbolic link leads elsewhere.

A path is looked up again with each use, and meanwhile a folder can be swapped for a link. A `Way` holds the folder
that the file is in, and what is done by it is done there. Where a system has no operations relative to an open folder
(Windows), each folder is looked at by its path instead, which leaves a short time between the look and the use.

It imports nothing of the package, and does not decide which folders may be used.
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
"""Opens a folder of which no more than the names below it are wanted. So a folder that cannot be listed can be passed,
also one above the root."""

_DEVICES: Final = ("/dev", "/dev/fd")
"""The system's own, where some entries are links. Any user may write to `/dev/shm`, which is not among them."""

# What a system lacks it does not need: Windows has no O_NOFOLLOW, POSIX no O_BINARY.
_ALWAYS: Final = sum(getattr(os, n, 0) for n in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT"))
_FOLDER: Final = _ALWAYS | getattr(os, "O_DIRECTORY", 0) | (_SEARCHED or os.O_RDONLY)

_MOST_MADE: Final = 64
"""New folders of one file: each of them is held open until the file is made."""

Identity = tuple[int, int]
"""The device and the inode."""


def here() -> str | None:
    """The present folder; None if it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def is_inside(path: str, root: str) -> bool:
    """Whether a path without links is that of a folder, or of something in it."""
    path, root = os.path.normcase(path), os.path.normcase(root)
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


class Place(NamedTuple):
    """Where a file is, or is to be made.

    Attributes:
        root: the folder that it must not leave: absolute, and without symbolic links.
        rest: the path below it.
        seen: what was on the way there, as `Way.seen` has it; empty if that was not looked at.
    """

    root: str
    rest: str
    seen: tuple[Identity | None, ...] = ()


class Folder:
    """An open folder. The functions of `os` that take `dir_fd` do in it what they do with `at(name)` and `relative`."""

    def __init__(self, path: str, above: Folder | None = None) -> None:
        """`path`: absolute; or a name, with the folder `above` that it is in. Raises OSError for what is a link."""
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
        """Close it. Idempotent. Nothing can be done in it any more, by its path neither."""
        if self._descriptor is not None and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def relative(self) -> dict[str, Any]:
        """What makes a function of `os` take a name in the folder."""
        return {} if self._descriptor is None else {"dir_fd": self._descriptor}

    def at(self, name: str) -> str:
        """A name in the folder, for a function that is called with `relative`."""
        return os.path.join(self._path, name) if self._descriptor is None else name

    def link(self, source: Folder, old: str, new: str) -> None:
        """Give the file `old` of `source` another name here. Raises FileExistsError if something has that name."""
        os.link(source.at(old), self.at(new), **_both(source, self))

    def replace(self, old: str, new: str) -> None:
        """Give a file of this folder the name of another one, which is gone then."""
        os.replace(self.at(old), self.at(new), **_both(self, self))


def _both(source: Folder, target: Folder) -> dict[str, Any]:
    return {f"{end}_dir_fd": fd for end, f in (("src", source), ("dst", target)) for fd in f.relative.values()}


class Way:
    """An open way: the folder that a file is in, or the nearest one above that exists.

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
        """Close it. Idempotent."""
        self._nearest.close()
        self.folder.close()

    @property
    def folders(self) -> tuple[Identity | None, ...]:
        """Which folders there are on the way; None for those that do not exist."""
        return (*self._seen, *(None for _ in self.missing))

    @property
    def seen(self) -> tuple[Identity | None, ...]:
        """The same, and last the file."""
        found = self.stat()
        return (*self.folders, None if found is None else _identity(found))

    def stat(self) -> os.stat_result | None:
        """What has the file's name; None if nothing has."""
        if self.missing:
            return None
        try:
            return os.stat(self.folder.at(self.name), **self.folder.relative, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """The file, by a descriptor that never makes it wait; to be closed by the caller."""
        if self.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return os.open(self.folder.at(self.name), flags | _ALWAYS, mode, **self.folder.relative)

    @contextmanager
    def folders_made(self) -> Generator[None]:
        """Make the folders that are missing, and go there. If the block fails, those that it made are removed."""
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
                # The nearest folder that was there before stays open: the caller may have put something in it.
                if folder not in (self._nearest, self.folder):
                    folder.close()

    def _enter(self, name: str) -> Folder:
        """Go into a folder: the one before, still open."""
        before, self.folder = self.folder, Folder(name, self.folder)
        self._seen.append(self.folder.identity)
        return before


@contextmanager
def way_to(place: Place) -> Generator[Way]:
    """The way to a file, open while the block runs. Raises OSError if there is a link on it, or the root is gone."""
    way = Way(place)
    try:
        yield way
    finally:
        way.close()


def is_same(before: tuple[Identity | None, ...], now: tuple[Identity | None, ...]) -> bool:
    """Whether the same folders and the same file are on the way, and no file where there was none. Folders that are new
    since then count for nothing: several files of one new folder may be made at once."""
    return before[-1] == now[-1] and all(then in (None, later) for then, later in zip(before, now, strict=True))


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _start(root: str) -> tuple[list[str], str]:
    """The names to walk above what is below the root, and where that begins. A folder above the root may be swapped as
    well; to walk it from the top takes folders that can be opened without the right to list them."""
    if _SEARCHED is None:
        return [], root
    return [name for name in root.split(os.sep) if name], os.sep


_DURABLE: Final = _ALWAYS & ~getattr(os, "O_NOFOLLOW", 0)


def open_private(path: str | os.PathLike[str], flags: int, *, mode: int = 0o600, follow: bool = False) -> int:
    """A file for what is not for others, open for writing, to be closed by the caller.

    `flags`: `os.O_APPEND` or `os.O_TRUNC`. `mode`: its rights, if it is new; with `O_TRUNC` an old one has no more
    rights afterwards either. `follow`: a symbolic link at its path is followed. Raises OSError, also for what would
    make the program wait, such as a named pipe. An entry of `/dev`, such as `/dev/stdout`, is the system's and is
    opened whatever it leads to.
    """
    if os.path.dirname(path) in _DEVICES:
        return os.open(path, os.O_WRONLY | (flags & ~os.O_TRUNC))
    always = _DURABLE if follow else _ALWAYS
    # What is in an old file is lost only once it is known to be a file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (flags & ~os.O_TRUNC) | always, mode)
    try:
        found = os.fstat(descriptor)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):
            raise OSError(errno.EINVAL, "Not a regular file")
        if flags & os.O_TRUNC and stat.S_ISREG(found.st_mode):
            if hasattr(os, "fchmod") and stat.S_IMODE(found.st_mode) & ~mode:
                with suppress(PermissionError):  # a file of another user, who has let us write it
                    os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & mode)
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor

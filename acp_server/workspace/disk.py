"""Text files on disk, read and replaced as a whole: what is there is the old text or the new one, never a part of it.

It decides neither which files may be changed nor when. Paths are absolute and name no symbolic links.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

from acp_server.workspace.printable import Refusal
from acp_server.workspace.textfile import open_regular
from acp_server.workspace.walk import reason_of

MOST_BYTES: Final = 4 * 1024 * 1024
"""A change is shown with both texts before it is made, in one message."""

Commit = Callable[[Callable[[], None]], None]
"""Calls the function that makes the change, unless it must not be made any more."""


class Changed(Exception):
    """The file is not what it was when the change was planned."""


def read_text(path: str, name: str) -> str | None:
    """The text of a file, line breaks and all; None if it does not exist. `name`: how to call it in a message.

    Raises:
        Refusal: it cannot be read, or holds no text in UTF-8, or too much.
    """
    try:
        data = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refusal(f"{reason_of(error)}: {name}") from None
    if len(data) > MOST_BYTES:
        raise Refusal(f"Larger than {MOST_BYTES // 2**20} MiB: {name}")
    if b"\0" in data:
        raise Refusal(f"A binary file: {name}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refusal(f"Not a text in UTF-8: {name}") from None


def replace_text(path: str, old: str | None, new: str, commit: Commit) -> None:
    """Put `new` in the place of `old`, all at once, with the mode and the owner of the file; or make the file, with the
    directories that it is in, if `old` is None.

    Whatever happens meanwhile, nothing else is left behind. `commit` decides at the last moment.

    Raises:
        Changed: the file does not hold `old`.
        OSError: it cannot be written.
        UnicodeEncodeError: it cannot be written in UTF-8.
    """
    data = new.encode()
    directory = os.path.dirname(path)
    while old is None and not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    before = None if old is None else os.stat(path)
    if before is not None and not os.access(path, os.W_OK):
        raise PermissionError(None, "Read-only")
    with _prepared(directory, data, before) as put:
        _check(path, old)
        commit(lambda: put(path))


def _read(path: str) -> bytes:
    descriptor = open_regular(path)
    with open(descriptor, "rb") as file:
        return file.read(MOST_BYTES + 1)


def _check(path: str, old: str | None) -> None:
    if old is None:
        if os.path.lexists(path):
            raise Changed
        return
    try:
        if _read(path) == old.encode():
            return
    except OSError:
        pass
    raise Changed


@contextmanager
def _prepared(directory: str, data: bytes, before: os.stat_result | None) -> Generator[Callable[[str], None]]:
    """A file with this content that is in no place yet, and what puts it in its place."""
    descriptor, temporary = _new_file(directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _take_after(descriptor, before)
            os.fsync(descriptor)
            if temporary is not None:
                file.close()  # a file that is open has to stay where it is, on Windows

            def put(path: str) -> None:
                nonlocal temporary
                if before is None:
                    _make(path, descriptor, temporary)
                    return
                if temporary is None:
                    name = _name_in(directory)
                    _link(descriptor, name)
                    temporary = name
                os.replace(temporary, path)
                temporary = None

            yield put
    finally:
        if temporary is not None:
            os.unlink(temporary)


def _new_file(directory: str) -> tuple[int, str | None]:
    """A new file in a directory, open for writing; without a name where that is possible: then it cannot outlive us."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666), None
        except OSError:
            pass  # not on every file system
    name = _name_in(directory)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
    return os.open(name, flags, 0o666), name


def _name_in(directory: str) -> str:
    return os.path.join(directory, f".{secrets.token_hex(8)}.tmp")


def _take_after(descriptor: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):
        return
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _make(path: str, descriptor: int, temporary: str | None) -> None:
    """Give a new file its name, unless something has that by now."""
    made: list[str] = []
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        made.append(directory)
        directory = os.path.dirname(directory)
    done: list[str] = []
    try:
        for directory in reversed(made):
            os.mkdir(directory)
            done.append(directory)
        if temporary is None:
            _link(descriptor, path)
        else:
            os.link(temporary, path)
    except BaseException as error:
        for directory in reversed(done):
            with suppress(OSError):
                os.rmdir(directory)
        if isinstance(error, FileExistsError):
            raise Changed from None
        raise


def _link(descriptor: int, path: str) -> None:
    # With a directory's descriptor, which is of no use here, Python follows the link that this is.
    anywhere = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=anywhere)
    finally:
        os.close(anywhere)

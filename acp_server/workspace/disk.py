"""Text files on disk.

They are read block by block, with bounded memory, whatever they contain. Or they are read and replaced as a whole:
there is the old text or the new one, and never a part of it.

It opens regular files only: a pipe or a device never makes it wait. It decides neither which files are read or changed
nor when. Paths are absolute; those of files to change name no symbolic links.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from acp_server.workspace.printable import Refusal

BLOCK_BYTES = 256 * 1024
BINARY_PROBE = 8 * 1024

# What a system lacks it does not need: Windows has no O_NOFOLLOW, POSIX no O_BINARY.
_OPEN_FLAGS: int = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT")
)

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class BinaryFile(Exception):
    """The file holds no text: there is a NUL byte in its first 8 KiB."""


class Block(NamedTuple):
    """Whole lines, joined by newlines, without the newline that ends the last of them.

    Where a single line is longer than a block, it comes in pieces: each holds nothing but a part of that line.
    """

    text: str
    continues: bool = False  # a piece of the line that the block before left unfinished
    unfinished: bool = False  # the line goes on in the next block

    @property
    def newlines(self) -> int:
        """By how many lines the line number has grown when the next block begins."""
        return 0 if self.unfinished else self.text.count("\n") + 1


def blocks(path: str) -> Generator[Block]:
    """The text of a file as blocks of about 256 KiB.

    UTF-8, or what a byte order mark says; what cannot be decoded becomes U+FFFD. Lines end with LF, CR LF or
    CR, as in an editor; all of them arrive as LF.

    Raises:
        BinaryFile: the file holds no text.
        OSError: it cannot be read, or it is not a regular file.
    """
    descriptor = open_regular(path)
    try:
        data = os.read(descriptor, BLOCK_BYTES)
        mark, encoding = _encoding(data)
        bytes_to_text = codecs.getincrementaldecoder(encoding)("replace")
        decoder = io.IncrementalNewlineDecoder(bytes_to_text, translate=True)
        data = data[len(mark) :]
        begun, continues = "", False
        while data:
            text = begun + decoder.decode(data)
            data = os.read(descriptor, BLOCK_BYTES)
            if not data:
                text += decoder.decode(b"", final=True)
            if continues and (end := text.find("\n")) >= 0:
                yield Block(text[:end], continues=True)
                text, continues = text[end + 1 :], False
            end = text.rfind("\n")
            if end >= 0:
                yield Block(text[:end])
                text = text[end + 1 :]
            if len(text) >= BLOCK_BYTES:
                yield Block(text, continues, unfinished=True)
                text, continues = "", True
            begun = text
        if begun or continues:
            yield Block(begun, continues)
    finally:
        os.close(descriptor)


def open_regular(path: str) -> int:
    """A descriptor for reading a regular file, to be closed by the caller. OSError for anything else than a file."""
    descriptor = os.open(path, _OPEN_FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Not a regular file")


def reason_of(error: OSError) -> str:
    """What went wrong, without the path that the text of an OSError names."""
    return error.strerror or type(error).__name__


def _encoding(head: bytes) -> tuple[bytes, str]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return mark, encoding
    if b"\0" in head[:BINARY_PROBE]:
        raise BinaryFile
    return b"", "utf-8"


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

"""Reads text files in three ways: in blocks, with bounded memory; as a whole, for a change; or some of their lines,
within limits that are reported to the user.

Only regular files are opened, because a pipe or a device would block. A `Reading` is a plain generator for a worker
thread. This module does not decide how the text is shown. Paths are absolute, except a user's input.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import stat
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from acp_server.apps.coder.roots import Refusal, Roots, quoted
from acp_server.paths import Place, way_to

BLOCK_BYTES = 256 * 1024
BINARY_PROBE = 8 * 1024

# A system does not need the flags that it lacks: Windows has no O_NOFOLLOW, POSIX no O_BINARY.
_OPEN_FLAGS: int = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT")
)

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # it begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class BinaryFile(Exception):
    """Raised for a file that is not text because there is a NUL byte in its first 8 KiB."""


class Block(NamedTuple):
    """Whole lines, joined by newlines, without the last newline.

    A single line that is longer than a block comes in several blocks, each with a part of only that line.
    """

    text: str
    continues: bool = False  # a piece of the line that is unfinished in the previous block
    unfinished: bool = False  # the line continues in the next block

    @property
    def newlines(self) -> int:
        """Return the number of lines before the next block begins."""
        return 0 if self.unfinished else self.text.count("\n") + 1


def blocks(path: str | Place) -> Generator[Block]:
    """Yield the text of a file as blocks of about 256 KiB.

    The encoding is UTF-8, or the encoding of the byte order mark; undecodable bytes become U+FFFD. Lines end with LF,
    CR LF or CR, as in an editor; each line end becomes LF.

    Raises:
     BinaryFile: the file is not text.
     OSError: the file cannot be read, or it is not a regular file.
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


def open_regular(path: str | Place) -> int:
    """Open a regular file for reading, and return its descriptor, which the caller closes. Raises OSError for any other
    file. On the path to a `Place` no link is followed."""
    if isinstance(path, Place):
        with way_to(path) as way:
            descriptor = way.open()
    else:
        descriptor = os.open(path, _OPEN_FLAGS)
    return regular(descriptor)


def regular(descriptor: int) -> int:
    """Return the descriptor if it is for a regular file. Otherwise close it and raise OSError."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Not a regular file")


class Skipped(NamedTuple):
    """A file or line that could not be read.

    Attributes:
        path: absolute.
        reason: for the user; it has no path.
        line: the number of the omitted line, None for the whole file.
        rules: for an ignore file that was read and does not apply: the number of its rules.
    """

    path: str
    reason: str
    line: int | None = None
    rules: int | None = None


def reason_of(error: OSError) -> str:
    """Return the error without the path, which the text of an OSError includes."""
    return error.strerror or type(error).__name__


def _encoding(head: bytes) -> tuple[bytes, str]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return mark, encoding
    if b"\0" in head[:BINARY_PROBE]:
        raise BinaryFile
    return b"", "utf-8"


MOST_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a file that can be changed. Before a change, one message shows both texts."""


def read_text(place: Place, name: str) -> str | None:
    """Return the text of a file with its line breaks; None if the file does not exist. `name`: the file's name in
    messages.

    Raises:
     Refusal: the file cannot be read, is not UTF-8 text, or is too long.
    """
    try:
        data = read_bytes(open_regular(place))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refusal(f"{reason_of(error)}: {name}") from None
    if len(data) > MOST_BYTES:
        raise Refusal(f"The file is larger than {MOST_BYTES // 2**20} MiB: {name}")
    if b"\0" in data:
        raise Refusal(f"The file is binary: {name}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refusal(f"The file is not UTF-8 text: {name}") from None


def read_bytes(descriptor: int) -> bytes:
    """Return the content of a file, or the first 4 MiB and one byte more. The descriptor is closed."""
    with open(descriptor, "rb") as file:
        return file.read(MOST_BYTES + 1)


MOST_LINES = 2_000
MOST_CHARACTERS = 256 * 1024


class Passage(NamedTuple):
    """A part of a file that was read.

    Attributes:
        path: the file, absolute.
        first: the number of the first line of `text`, counted from 1.
        last: the number of the last one; `first - 1` for an empty passage.
        text: the lines, joined by newlines, without the last newline.
        left_out: None, or a sentence that tells which of the requested lines are not in `text`.
    """

    path: str
    first: int
    last: int
    text: str
    left_out: str | None


class _Found(NamedTuple):
    """The path, the place to open, what the user typed for it, and the requested lines."""

    path: str
    place: Place
    typed: str
    first: int
    last: int | None


class Reading:
    """One reading of `PATH`, `PATH:10`, `PATH:10-20`, `PATH:10-`, or `PATH:10:5` (the form in which a search prints a
    hit).

    A path may have colons itself: the name of an existing file is always a path.

    Args:
     roots: the directories of the session.
     target: the user's input.
    """

    def __init__(self, roots: Roots, target: str) -> None:
        self._roots = roots
        self._target = target
        self._found: _Found | None = None

    def find(self) -> str:
        """Return the absolute path of the file.

        Raises:
         Refusal: the path leads out of the directories of the session, or it is not a file.
        """
        self._found = self._find()
        return self._found.path

    def run(self, text: str | None = None) -> Generator[Passage | None]:
        """Read, and yield the passage at the end: at most 2,000 lines or 256 Ki characters. Before that, yield None now
        and then, so that a caller can stop.

        Args:
         text: the content of the file, if it must not be read from disk.

        Raises:
         Refusal: as `find`; the file is not text or cannot be read, or it does not have the requested lines.
        """
        path, place, typed, first, last = self._found or self._find()
        taker = _Taker(first, last)
        try:
            for block in blocks(place) if text is None else _blocks_of(text):
                if not taker.take(block):
                    break
                yield None
        except BinaryFile:
            raise Refusal(f"The file is binary: {quoted(typed)}") from None
        except OSError as error:
            raise Refusal(f"{reason_of(error)}: {quoted(typed)}") from None
        if not taker.lines and taker.first > 1:
            raise Refusal(f"{quoted(typed)} has no line {taker.first}, because it has {taker.number - 1} lines")
        yield Passage(path, taker.first, taker.next - 1, "\n".join(taker.lines), taker.left_out)

    def _find(self) -> _Found:
        problem: Refusal | None = None
        for typed, first, last in _meanings(self._target):
            try:
                path, place = self._roots.place(typed)
            except Refusal as error:
                problem = error
                continue
            if os.path.isdir(path):
                raise Refusal(f"Not a file but a directory: {quoted(typed)}")
            if os.path.exists(path):
                if first < 1 or (last is not None and last < first):
                    raise Refusal(f"Not a range of lines: {quoted(self._target[len(typed) + 1 :])}")
                return _Found(path, place, typed, first, last)
            problem = Refusal(f"No such file: {quoted(typed)}")
        assert problem is not None
        raise problem


_LINES = re.compile(r"(?P<path>.+):(?P<first>[0-9]{1,18})(?:(?P<open>-)(?P<last>[0-9]{1,18})?)?", re.DOTALL)
_PLACE = re.compile(r"(?P<path>.+):(?P<first>[0-9]{1,18}):[0-9]{1,18}:?", re.DOTALL)


def _meanings(target: str) -> Iterator[tuple[str, int, int | None]]:
    """Yield each possible meaning as a path, the first line and the last line. The longest path comes first."""
    yield target, 1, None
    if found := _LINES.fullmatch(target):
        first = int(found["first"])
        last = int(found["last"]) if found["last"] else None if found["open"] else first
        yield found["path"], first, last
    if found := _PLACE.fullmatch(target):
        yield found["path"], int(found["first"]), int(found["first"])


def _blocks_of(text: str) -> Iterator[Block]:
    """Yield a text as the blocks that a file with this text would have."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if text:
        yield Block(lines)


class _Taker:
    """Takes the requested lines from blocks, until there are enough of them."""

    def __init__(self, first: int, last: int | None) -> None:
        self.first = first
        self.last = last
        self.number = 1  # of the line with which the next block begins
        self.lines: list[str] = []
        self.left_out: str | None = None
        self._room = MOST_CHARACTERS

    @property
    def next(self) -> int:
        """Return the number of the first requested line that was not taken."""
        return self.first + len(self.lines)

    def take(self, block: Block) -> bool:
        """Take the requested lines of a block. Returns False if no more are needed."""
        begin = self.number
        self.number += block.newlines
        if self.last is not None and begin > self.last:
            return False
        if max(begin, self.number - 1) < self.first:
            return True
        if block.continues and begin < self.next:
            # The piece before it was as long as a passage may be.
            if block.text:
                self.left_out = f"Line {begin} is cut"
            return not block.text
        lines = block.text.split("\n")
        for line in lines[max(0, self.first - begin) : None if self.last is None else self.last - begin + 1]:
            if len(self.lines) == MOST_LINES or (len(line) > self._room and self.lines):
                self.left_out = f"From line {self.next} on nothing is shown: that would be too much at once"
                return False
            if len(line) > self._room:
                self.left_out = f"Line {self.next} is cut after {self._room:,} characters"
                self.lines.append(line[: self._room])
                return False
            self.lines.append(line)
            self._room -= len(line) + 1
        return self.last is None or self.next <= self.last

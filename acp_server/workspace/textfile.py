"""The text of one file, in blocks of whole lines, with bounded memory whatever the file contains.

It opens regular files only: a pipe or a device never makes it wait. It does not decide which files are read.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
from collections.abc import Generator
from typing import NamedTuple

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

    Where a single line is longer than a block, it comes in pieces: each holds nothing but a part of that
        line.
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


def _encoding(head: bytes) -> tuple[bytes, str]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return mark, encoding
    if b"\0" in head[:BINARY_PROBE]:
        raise BinaryFile
    return b"", "utf-8"

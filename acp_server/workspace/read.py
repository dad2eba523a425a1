"""Reads a file, or some of its lines, within bounds that the user is told about.

It is a plain generator for a worker thread. It decides nothing about how the text is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

from acp_server.workspace.disk import BinaryFile, Block, blocks, reason_of
from acp_server.workspace.printable import Refusal, quoted
from acp_server.workspace.roots import Roots

MOST_LINES = 2_000
MOST_CHARACTERS = 256 * 1024


class Passage(NamedTuple):
    """What was read.

    Attributes:
        path: the file, absolute.
        first: the number of the first line of `text`, counted from 1.
        last: that of the last one; it is `first - 1` if there are none.
        text: the lines, joined by newlines, without the newline after the last one.
        left_out: None, or a sentence that says what of the wanted lines is not in `text`.
    """

    path: str
    first: int
    last: int
    text: str
    left_out: str | None


class Reading:
    """One reading of `PATH`, `PATH:10`, `PATH:10-20`, `PATH:10-`, or `PATH:10:5`, a place as a search prints it.

    A path may hold colons itself: what is the name of an existing file is a path and nothing else.

    Args:
        roots: where it may look.
        target: what the user typed.
    """

    def __init__(self, roots: Roots, target: str) -> None:
        self._roots = roots
        self._target = target
        self._found: tuple[str, str, tuple[int, int | None]] | None = None

    def find(self) -> str:
        """The absolute path of the file.

        Raises:
            Refusal: the path leads out of the session's directories, or it is not a file.
        """
        self._found = self._find()
        return self._found[0]

    def run(self, text: str | None = None) -> Generator[Passage | None]:
        """None while it reads, so that a caller can stop, then the passage: at most 2,000 lines or 256 Ki characters.

        Args:
            text: what is in the file, if it is not to be read.

        Raises:
            Refusal: as `find`; the file holds no text or cannot be read, or the wanted lines are not in it.
        """
        path, typed, wanted = self._found or self._find()
        taker = _Taker(*wanted)
        try:
            for block in blocks(path) if text is None else _blocks_of(text):
                if not taker.take(block):
                    break
                yield None
        except BinaryFile:
            raise Refusal(f"A binary file: {quoted(typed)}") from None
        except OSError as error:
            raise Refusal(f"{reason_of(error)}: {quoted(typed)}") from None
        if not taker.lines and taker.first > 1:
            raise Refusal(f"{quoted(typed)} has no line {taker.first}: it has {taker.number - 1}")
        yield Passage(path, taker.first, taker.next - 1, "\n".join(taker.lines), taker.left_out)

    def _find(self) -> tuple[str, str, tuple[int, int | None]]:
        """The path to open, what the user typed for it, and which lines of it."""
        problem: Refusal | None = None
        for typed, first, last in _meanings(self._target):
            try:
                path = str(self._roots.resolve(typed))
            except Refusal as error:
                problem = error
                continue
            if os.path.isdir(path):
                raise Refusal(f"A directory: {quoted(typed)}")
            if os.path.exists(path):
                if first < 1 or (last is not None and last < first):
                    raise Refusal(f"No range of lines: {quoted(self._target[len(typed) + 1 :])}")
                return path, typed, (first, last)
            problem = Refusal(f"No such file: {quoted(typed)}")
        assert problem is not None
        raise problem


_LINES = re.compile(r"(?P<path>.+):(?P<first>[0-9]{1,18})(?:(?P<open>-)(?P<last>[0-9]{1,18})?)?", re.DOTALL)
_PLACE = re.compile(r"(?P<path>.+):(?P<first>[0-9]{1,18}):[0-9]{1,18}:?", re.DOTALL)


def _meanings(target: str) -> Iterator[tuple[str, int, int | None]]:
    """What may be meant: a path, the first line and the last one. What leaves most to the path comes first."""
    yield target, 1, None
    if found := _LINES.fullmatch(target):
        first = int(found["first"])
        last = int(found["last"]) if found["last"] else None if found["open"] else first
        yield found["path"], first, last
    if found := _PLACE.fullmatch(target):
        yield found["path"], int(found["first"]), int(found["first"])


def _blocks_of(text: str) -> Iterator[Block]:
    """A text as the file of it would be read."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if text:
        yield Block(lines)


class _Taker:
    """Takes the wanted lines out of blocks, until there are enough of them."""

    def __init__(self, first: int, last: int | None) -> None:
        self.first = first
        self.last = last
        self.number = 1  # of the line with which the next block begins
        self.lines: list[str] = []
        self.left_out: str | None = None
        self._room = MOST_CHARACTERS

    @property
    def next(self) -> int:
        """The number of the first wanted line that was not taken."""
        return self.first + len(self.lines)

    def take(self, block: Block) -> bool:
        """Take what is wanted of a block; False if nothing is wanted any more."""
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

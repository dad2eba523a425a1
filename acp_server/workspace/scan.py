"""Counts a project: files, lines by language, the largest files, what is still to do.

It is two plain generators for a worker thread, and what it has counted can be read at every moment. It
decides nothing about how that is shown.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from acp_server.workspace.languages import language_of
from acp_server.workspace.roots import Roots
from acp_server.workspace.shown import shown
from acp_server.workspace.textfile import BinaryFile, Block, blocks
from acp_server.workspace.walk import Skipped, files_below, reason_of

LARGEST = 10
LISTED_TODOS = 200
SHOWN_CHARACTERS = 160

# One by one, beginning with letters: that is found twenty times as fast as alternatives or a word's edge.
_WORDS = [re.compile(rf"{word}(?<!\w{word})\b(?!-)") for word in ("TODO", "FIXME")]
# The word counts behind what begins a comment in one of the usual languages, not in the middle of a sentence
# or a string.
_COMMENT = re.compile(r"#|(?<!:)//|/\*|^\s*\*|(?:^|\s)(?:--|;|%|REM\b)|<!--|\{-|\(\*|^\s*[\"']{3}")


class Todo(NamedTuple):
    """A comment that says what is still to do.

    Attributes:
        path: the file, absolute.
        line: counted from 1.
        text: the comment from `TODO` or `FIXME` on, at most 160 characters of it, fit to be shown.
    """

    path: str
    line: int
    text: str


@dataclass(slots=True)
class Tally:
    """What there is of one language."""

    files: int = 0
    lines: int = 0


class Scan:
    """One scan: first `list_files`, then `read_files`. Its counts are right at every moment.

    Args:
        roots: where it may look.
        path: a file or a directory as the user typed it; without it all of the session's directories are
            scanned.

    Attributes:
        files: how many files there are.
        bytes: how many bytes they hold.
        listed: whether all of them are known.
        files_read: how many of them were read.
        binary_files: how many of those hold no text; they have no lines and belong to no language.
        lines: how many lines the others hold.
        languages: the same by language.
        todos: the first 200 comments that say TODO or FIXME.
        todo_count: how many there are.
        skipped: what could not be read.
        complete: whether everything was counted, except for `skipped`.
    """

    def __init__(self, roots: Roots, path: str | None = None) -> None:
        self._roots = roots
        self._path = path
        self._sizes: dict[str, int] = {}
        self.bytes = 0
        self.listed = False
        self.files_read = 0
        self.binary_files = 0
        self.lines = 0
        self.languages: dict[str, Tally] = {}
        self.todos: list[Todo] = []
        self.todo_count = 0
        self.skipped: list[Skipped] = []
        self.complete = False

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self._sizes)

    @property
    def largest(self) -> list[tuple[int, str]]:
        """The ten largest files, the largest first: sizes in bytes and absolute paths."""
        sizes = ((size, path) for path, size in self._sizes.items())
        return heapq.nsmallest(LARGEST, sizes, key=lambda file: (-file[0], file[1]))

    def list_files(self) -> Generator[None]:
        """Find the files and their sizes.

        Raises:
            Refusal: the path leads out of the session's directories, or there is nothing there.
        """
        for item in files_below(self._roots, self._path):
            if isinstance(item, str):
                try:
                    size = os.stat(item, follow_symlinks=False).st_size
                except OSError as error:
                    self.skipped.append(Skipped(item, reason_of(error)))
                else:
                    self._sizes[item] = size
                    self.bytes += size
            elif item is not None:
                self.skipped.append(item)
            yield
        self.listed = True

    def read_files(self) -> Generator[Todo | None]:
        """Read the files that `list_files` found, in its order; what is still to do comes as it is found."""
        for path in self._sizes:
            yield from self._read_file(path)
            yield None
        self.complete = self.listed

    def _read_file(self, path: str) -> Generator[Todo | None]:
        lines = 0
        try:
            for block in blocks(path):
                for todo in _todos(path, lines + 1, block):
                    self.todo_count += 1
                    if len(self.todos) < LISTED_TODOS:
                        self.todos.append(todo)
                        yield todo
                lines += block.newlines
                yield None
        except BinaryFile:
            self.binary_files += 1
        except OSError as error:
            self.skipped.append(Skipped(path, reason_of(error)))
            return
        else:
            tally = self.languages.setdefault(language_of(path), Tally())
            tally.files += 1
            tally.lines += lines
            self.lines += lines
        self.files_read += 1


def _todos(path: str, line: int, block: Block) -> Generator[Todo]:
    """The first of each line. An over-long line is not a comment."""
    if block.continues or block.unfinished:
        return
    text, counted, end = block.text, 0, -1
    for word in heapq.merge(*(pattern.finditer(text) for pattern in _WORDS), key=re.Match[str].start):
        if word.start() < end:
            continue
        begin = text.rfind("\n", 0, word.start()) + 1
        end = text.find("\n", word.end())
        end = len(text) if end < 0 else end
        before = text[begin : word.start()]
        if _COMMENT.search(before) or (not before.strip() and text[word.end() : word.end() + 1] in (":", "(")):
            line += text.count("\n", counted, begin)
            counted = begin
            said = text[word.start() : min(end, word.start() + SHOWN_CHARACTERS)]
            yield Todo(path, line, shown(said.rstrip()))

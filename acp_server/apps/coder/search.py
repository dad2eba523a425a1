"""Searches files for a regular expression, with counts that are consistent at any time.

A user's expression is compiled or refused (`compile_pattern`), and its matching lines are found in bounded time
(`Matcher`). A `Search` is a plain generator for a worker thread. It does not decide how hits are shown.
"""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Generator
from typing import NamedTuple

import regex

from acp_server.apps.coder.read import BinaryFile, Block, Skipped, blocks, reason_of
from acp_server.apps.coder.roots import Refusal, Roots, printable, quoted
from acp_server.apps.coder.walk import files_below
from acp_server.tools.patterns import unrolled_length

LONGEST_PATTERN = 10_000
# Repeats are expanded when an expression is compiled: this many characters take some 30 MB.
LARGEST_PATTERN = 100_000


# It may take unbounded memory, faster than any time limit.
_RECURSION = re.compile(r"\(\?(?:R|[0-9]|&|P>)")


class Sight(enum.Enum):
    """How an expression that is meant for single lines behaves when it is tried on several lines at once."""

    SAME = "it finds the same: no part of it can match a newline"
    FARTHER = "it misses no line, but may match across a newline: then the line has to be tried by itself"
    UNKNOWN = "each line has to be tried by itself"


def compile_pattern(source: str) -> regex.Pattern[str]:
    """Return the compiled expression. Its syntax is that of Python's `re` with the additions of the `regex` library;
    `^` and `$` match at lines.

    Raises:
     Refusal: the expression is invalid, too large to be compiled, or recursive.
    """
    if len(source) > LONGEST_PATTERN:
        raise Refusal(f"The pattern is longer than {LONGEST_PATTERN:,} characters")
    if unrolled_length(source) > LARGEST_PATTERN:
        raise Refusal(f"The pattern has too many repetitions: {quoted(source)}")
    if _RECURSION.search(source):
        raise Refusal(f"Recursive patterns are not supported: {quoted(source)}")
    try:
        # Not cached: a user's search must not stay in memory.
        return regex.compile(source, regex.MULTILINE, cache_pattern=False)
    except (regex.error, ValueError) as error:
        raise Refusal(f"Not a valid regular expression: {error} in {quoted(source)}") from None
    except RecursionError:
        raise Refusal("The pattern is nested too deeply") from None


# Constructs that these recognise are understood; all others count as UNKNOWN or FARTHER, which only costs time.
_HARMLESS_ESCAPE = re.compile(r"\\(?:[^A-Za-z0-9\x00-\x1f]|[wdSbBmM])")
_MATCHES_NEWLINE = re.compile(r"\\|\[\^|\[:|[\x00-\x1f]")
_WORD_EDGE_IN_CLASS = re.compile(r"\[[^\[\]]*\\[bBmM]")  # in a class it is a backspace, and may begin a range
_WHOLE_TEXT = re.compile(r"\\[AZzGKRX]|\(\*")
_FUZZY = re.compile(r"\{[^{}]*[idse<]")
_FLAGS = re.compile(r"\(\?(?![aimux]+[:)]|P)[A-Za-z0-9+-]")
# Without backtracking after an attempt that goes too far, a shorter match may be missed.
_NOT_TAKEN_BACK = re.compile(r"\(\?(?!:|P<|<[A-Za-z_]|[aimu]+[:)])|[*+?}]\+")


def sight(source: str) -> Sight:
    """Return how far a valid expression can match beyond the line that it is tried on, judged by its text. In doubt it
    is UNKNOWN."""
    rest = _HARMLESS_ESCAPE.sub("", source)
    if _WHOLE_TEXT.search(source) or _FLAGS.search(source) or _FUZZY.search(rest):
        return Sight.UNKNOWN
    if not _MATCHES_NEWLINE.search(rest) and not _WORD_EDGE_IN_CLASS.search(source):
        return Sight.SAME
    return Sight.UNKNOWN if _NOT_TAKEN_BACK.search(source) else Sight.FARTHER


# The time limit for a line, a block of lines, or a piece of an over-long line. It is the longest delay of a cancel.
TIME_LIMIT = 0.1

# Seconds without a match after which it yields to its caller.
_SECONDS_BETWEEN_PULSES = 0.01
# Characters of an over-long line that are searched again with its next piece, to find matches across the cut.
_OVERLAP = 4096
# The number of slow blocks after which lines are searched one by one.
_SLOW_BLOCKS = 3


class Match(NamedTuple):
    """The first match in a line.

    Attributes:
     line: the number of lines of the block before this line.
     column: the number of characters of the line before the match.
     text: the line; of an over-long line, the part with the match.
     start: where in `text` the match begins.
    """

    line: int
    column: int
    text: str
    start: int


class SlowLine(NamedTuple):
    """A line that was skipped because the expression took too long on it.

    Attributes:
     line: the number of lines of the block before this line.
    """

    line: int


Found = Match | SlowLine | None


class Matcher:
    """One expression, for one search. It is tried on the blocks of one file after the other, in one thread.

    Raises:
     Refusal: the expression is invalid, or too large.
    """

    def __init__(self, source: str) -> None:
        self._regex = compile_pattern(source)
        self._sight = sight(source)
        self._slow_blocks = 0
        self._tail = ""  # of an over-long line: the end of its searched part
        self._column = 0  # where in the line `_tail` begins
        self._decided = False  # whether the over-long line has matched or was too slow

    def find(self, block: Block) -> Generator[Found]:
        """Yield the matching lines and the slow lines, in order, and None now and then, so that a caller can stop."""
        if block.continues or block.unfinished:
            found = self._in_piece(block)
            if found is not None:
                yield found
        elif self._sight is Sight.UNKNOWN or self._slow_blocks >= _SLOW_BLOCKS:
            yield from self._in_lines(block.text, 0, 0)
        else:
            yield from self._in_block(block.text)

    def _search(self, text: str, start: int = 0) -> regex.Match[str] | None:
        """Search the text. Raises TimeoutError if that takes too much time, or too much memory for backtracking."""
        try:
            # Concurrent: other threads run meanwhile, such as the event loop.
            return self._regex.search(text, start, timeout=TIME_LIMIT, concurrent=True)
        except MemoryError:
            raise TimeoutError from None

    def _in_block(self, text: str) -> Generator[Found]:
        line, begin = 0, 0  # of the first line that has not been searched
        while begin <= len(text):
            try:
                match = self._search(text, begin)
            except TimeoutError:
                self._slow_blocks += 1
                yield None
                yield from self._in_lines(text, begin, line)
                return
            if match is None:
                return
            line += text.count("\n", begin, match.start())
            begin = text.rfind("\n", begin, match.start()) + 1 or begin
            end = text.find("\n", match.start())
            if end < 0:
                end = len(text)
            if match.end() <= end:
                yield Match(line, match.start() - begin, text[begin:end], match.start() - begin)
            else:
                yield self._in_line(text[begin:end], line)
            line, begin = line + 1, end + 1

    def _in_lines(self, text: str, begin: int, line: int) -> Generator[Found]:
        due = time.perf_counter() + _SECONDS_BETWEEN_PULSES
        for number, one in enumerate(text[begin:].split("\n"), line):
            found = self._in_line(one, number)
            if found is not None or time.perf_counter() > due:
                yield found
                due = time.perf_counter() + _SECONDS_BETWEEN_PULSES

    def _in_line(self, text: str, line: int) -> Found:
        try:
            match = self._search(text)
        except TimeoutError:
            return SlowLine(line)
        return match and Match(line, match.start(), text, match.start())

    def _in_piece(self, block: Block) -> Found:
        """Search one part of an over-long line, together with the end of the part before it."""
        if not block.continues:
            self._tail, self._column, self._decided = "", 0, False
        if self._decided:
            return None
        text = self._tail + block.text
        try:
            # The first character of a tail has been tried before; it only shows that the line does not begin there.
            match = self._search(text, 1 if self._column else 0)
        except TimeoutError:
            self._decided = True
            return SlowLine(0)
        tail = max(0, len(text) - _OVERLAP)
        # A match at the end of the piece may only end there because the piece does: it is tried again with the next
        # piece.
        cut = match and block.unfinished and match.end() == len(text)
        if match and not (cut and (match.start() > tail or self._column + tail == 0)):
            self._decided = True
            return Match(0, self._column + match.start(), text, match.start())
        self._tail, self._column = text[tail:], self._column + tail
        return None


# Hits are for people: a longer line is shortened around the match.
SHOWN_CHARACTERS = 200
_SHOWN_BEFORE = 50
# After this many slow lines the search ends: the expression is too slow, and not the lines.
MOST_SLOW_LINES = 20


class Hit(NamedTuple):
    """A matching line. A line with several matches counts as one hit.

    Attributes:
     path: the file, absolute, below the session's directories as the client spells them.
     line, column: the position of the first match, both counted from 1, the column in characters.
     text: the line, fit to be shown; of a long line at most 200 characters around the match, with `…` for the rest.
    """

    path: str
    line: int
    column: int
    text: str


class Search:
    """One search. Its counts are consistent at any time, also after it was stopped.

    Args:
        roots: the directories of the session.
        pattern: a regular expression; `(?i)` at its beginning ignores case.
        path: a file or a directory as the user typed it; by default all directories of the session are searched. A
            path from the user is searched even if git ignores it.

    Attributes:
        files: the number of files that were searched to the end or until a read error.
        binary_files: the number of files that were skipped because they are not text.
        hits: the number of hits that were yielded.
        skipped: files that could not be read, and lines on which the expression took too long.
        gave_up: whether the search stopped early because the expression is too slow.
        complete: whether everything was searched, except for `skipped`.

    Raises:
        Refusal: the pattern is invalid.
    """

    def __init__(self, roots: Roots, pattern: str, path: str | None = None) -> None:
        self._roots = roots
        self._matcher = Matcher(pattern)
        self._path = path
        self._slow_lines = 0
        self.files: int = 0
        self.binary_files: int = 0
        self.hits: int = 0
        self.skipped: list[Skipped] = []
        self.gave_up = False
        self.complete = False

    def run(self) -> Generator[Hit | None]:
        """Yield the hits, file by file in the order of their paths, and None in between, so that a caller can stop.

        Raises:
         Refusal: the path leads out of the directories of the session, or does not exist.
        """
        for item in files_below(self._roots, self._path):
            if isinstance(item, str):
                yield from self._in_file(item)
                if self._slow_lines >= MOST_SLOW_LINES:
                    self.gave_up: bool = True
                    return
            elif item is not None:
                self.skipped.append(item)
            yield None
        self.complete: bool = True

    def _in_file(self, path: str) -> Generator[Hit | None]:
        line = 1
        try:
            for block in blocks(path):
                for found in self._matcher.find(block):
                    if isinstance(found, Match):
                        self.hits += 1
                        yield Hit(path, line + found.line, found.column + 1, _excerpt(found))
                    elif isinstance(found, SlowLine):
                        self._slow_lines += 1
                        reason = "the pattern takes too long on this line"
                        self.skipped.append(Skipped(path, reason, line + found.line))
                        if self._slow_lines >= MOST_SLOW_LINES:
                            return
                        yield None
                    else:
                        yield None
                line += block.newlines
                yield None
        except BinaryFile:
            self.binary_files += 1
            return
        except OSError as error:
            self.skipped.append(Skipped(path, reason_of(error)))
        self.files += 1


def _excerpt(match: Match) -> str:
    text, start = match.text, match.start
    if len(text) <= SHOWN_CHARACTERS and match.column == start:
        return printable(text.rstrip())
    first = max(0, min(start - _SHOWN_BEFORE, len(text) - SHOWN_CHARACTERS))
    last = first + SHOWN_CHARACTERS
    before = "…" if first or match.column > start else ""
    return before + printable(text[first:last]) + ("…" if last < len(text) else "")

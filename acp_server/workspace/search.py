"""Searches files for a regular expression, and counts what it went through, right at every moment.

It is a plain generator for a worker thread. It decides nothing about how hits are shown.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from acp_server.workspace.disk import BinaryFile, blocks, reason_of
from acp_server.workspace.matcher import Match, Matcher, SlowLine
from acp_server.workspace.printable import printable
from acp_server.workspace.roots import Roots
from acp_server.workspace.walk import Skipped, files_below

# Hits are read by people: of a longer line they get what stands around the match.
SHOWN_CHARACTERS = 200
_SHOWN_BEFORE = 50
# After so many slow lines the expression is to blame and not the lines.
MOST_SLOW_LINES = 20


class Hit(NamedTuple):
    """A line that matches; one hit however often it does.

    Attributes:
        path: the file, absolute, below the session's directories as the client named them.
        line, column: of the first match, both counted from 1, the column in characters.
        text: the line, fit to be shown; of a long line at most 200 characters around the match, with `…` for
            the rest.
    """

    path: str
    line: int
    column: int
    text: str


class Search:
    """One search. Its counts are right at every moment, also after it was stopped in the middle.

    Args:
        roots: where it may look.
        pattern: a regular expression; `(?i)` at its beginning ignores case.
        path: a file or a directory as the user typed it; without it all of the session's directories are
            searched. What the user named is searched even if git ignores it.

    Attributes:
        files: how many files were searched to the end or until they could not be read any further.
        binary_files: how many were left out because they hold no text.
        hits: how many hits were yielded.
        skipped: what could not be read, and lines on which the expression took too long.
        gave_up: whether the search stopped early because the expression is too slow.
        complete: whether everything was searched, except for `skipped`.

    Raises:
        Refusal: the pattern is not valid.
    """

    def __init__(self, roots: Roots, pattern: str, path: str | None = None) -> None:
        self._roots = roots
        self._matcher = Matcher(pattern)
        self._path = path
        self._slow_lines = 0
        self.files = 0
        self.binary_files = 0
        self.hits = 0
        self.skipped: list[Skipped] = []
        self.gave_up = False
        self.complete = False

    def run(self) -> Generator[Hit | None]:
        """The hits, file by file in the order of their paths; None in between, so that a caller can stop.

        Raises:
            Refusal: the path leads out of the session's directories, or there is nothing there.
        """
        for item in files_below(self._roots, self._path):
            if isinstance(item, str):
                yield from self._in_file(item)
                if self._slow_lines >= MOST_SLOW_LINES:
                    self.gave_up = True
                    return
            elif item is not None:
                self.skipped.append(item)
            yield None
        self.complete = True

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

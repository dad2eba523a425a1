"""Computes the difference of two texts, as the lines of a unified diff without the header of the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Final

_COMPARED: Final = 1000
"""The most lines that are compared one by one, because that takes quadratic time. If there are more, all lines are
shown as removed and added."""

_CONTEXT: Final = 3


def hunks(old: str, new: str) -> Iterator[str]:
    """Yield the hunks of a unified diff, in time linear in the length of the texts."""
    yield from _hunks(_lines(old), _lines(new))


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    # With lines around the change as context: without them, git takes a hunk for the end of the file.
    first = max(start - _CONTEXT, 0)
    last = max(end - _CONTEXT, 0)
    if len(old) + len(new) - 2 * (start + end) <= _COMPARED:
        # `unified_diff` counts its line numbers from `first`.
        found = unified_diff(old[first : len(old) - last], new[first : len(new) - last], n=_CONTEXT, lineterm="")
        for line in list(found)[2:]:
            yield from (_moved(line, first),) if line.startswith("@@") else _shown(line)
        return
    yield f"@@ -{_range(first, len(old) - last - first)} +{_range(first, len(new) - last - first)} @@"
    for sign, lines in (
        (" ", old[first:start]),
        ("-", old[start : len(old) - end]),
        ("+", new[start : len(new) - end]),
        (" ", old[len(old) - end : len(old) - last]),
    ):
        for line in lines:
            yield from _shown(f"{sign}{line}")


def _lines(text: str) -> list[str]:
    """Return the lines with their line breaks. Only a line feed ends a line."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _shown(line: str) -> Iterator[str]:
    if line.endswith("\n"):
        yield line[:-1]
    else:
        yield line
        yield "\\ No newline at end of file"


def _moved(header: str, by: int) -> str:
    """Return the header of a hunk, with its line numbers increased by `by`."""
    _, old, new, _ = header.split(" ")
    return f"@@ -{_later(old[1:], by)} +{_later(new[1:], by)} @@"


def _later(place: str, by: int) -> str:
    first, *count = place.split(",")
    return ",".join([str(int(first) + by), *count])


def _range(start: int, count: int) -> str:
    """Return a range of `count` lines that begins after the first `start` lines."""
    return f"{start + (count > 0)},{count}"

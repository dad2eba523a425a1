"""Changes to a text: lines put in before others, blocks put in the place of others. All of them or none.

Pure: it reads and writes no files. Line breaks follow those of the text: where they are CR LF, so is what is put in.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from acp_server.errors import AcpError

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_MOST_SHOWN: Final = 10


class EditRefused(AcpError):
    """A change that does not fit the text. Says why, in words that a model can act upon."""


@dataclass(frozen=True, slots=True)
class FileOperation:
    """Lines to put in before a line."""

    start_line: int
    """The line of the text as it is now, counted from 1; one more than there are lines means at the end."""
    content: str
    """One or more whole lines; the line break behind the last one may be left out."""


@dataclass(frozen=True, slots=True)
class ReplaceInstruction:
    """A block to put in the place of another, which has to be found in exactly one place."""

    existing_block: str
    """What is in the text now, exactly."""
    new_block: str
    """What takes its place."""
    context_before: str | None = None
    """What stands right before it, to tell it from others like it."""
    context_after: str | None = None
    """What stands right behind it."""
    start_line_hint: int | None = None
    """The line near which it begins, counted from 1: of several like it, the nearest is meant."""


def insert(text: str, operations: Sequence[FileOperation]) -> str:
    """`text` with the lines put in; those for the same place in the order given. Raises EditRefused."""
    lines = _LINES.findall(text)
    newline = line_break(text)
    for operation in operations:
        if not 1 <= operation.start_line <= len(lines) + 1:
            raise EditRefused(f"there is no line {operation.start_line}: the file has {len(lines)}")
    put_in: dict[int, list[str]] = {}
    for operation in operations:
        content = with_line_breaks(operation.content, newline)
        put_in.setdefault(operation.start_line - 1, []).append(
            content if content.endswith(newline) else content + newline
        )
    if lines and len(lines) in put_in and not lines[-1].endswith("\n"):
        lines[-1] += newline
    parts: list[str] = []
    for index in range(len(lines) + 1):
        parts += put_in.get(index, ())
        parts += lines[index : index + 1]
    return "".join(parts)


def replace(text: str, instructions: Sequence[ReplaceInstruction]) -> str:
    """`text` with the blocks replaced; all are looked for in the text as it is now. Raises EditRefused for a block that
    is not there or is there more than once, and for blocks that overlap."""
    newline = line_break(text)
    changes: list[tuple[int, int, str]] = []
    for instruction in instructions:
        start = _find(text, instruction, newline)
        length = len(with_line_breaks(instruction.existing_block, newline))
        changes.append((start, start + length, with_line_breaks(instruction.new_block, newline)))
    changes.sort()
    parts: list[str] = []
    done = 0
    for start, end, new in changes:
        if start < done:
            raise EditRefused(f"two of the blocks overlap in line {_line(text, start)}")
        parts += text[done:start], new
        done = end
    return "".join(parts) + text[done:]


def _find(text: str, instruction: ReplaceInstruction, newline: str) -> int:
    block = with_line_breaks(instruction.existing_block, newline)
    if not block:
        raise EditRefused("the block to replace is empty")
    before = None if instruction.context_before is None else with_line_breaks(instruction.context_before, newline)
    after = None if instruction.context_after is None else with_line_breaks(instruction.context_after, newline)
    there = [match.start() for match in re.finditer(f"(?={re.escape(block)})", text)]
    if not there:
        raise EditRefused("the block to replace is not in the file")
    found = [
        start
        for start in there
        if (before is None or text.endswith((before, before + newline), 0, start))
        and (after is None or text.startswith((after, newline + after), start + len(block)))
    ]
    if not found:
        raise EditRefused(f"the block to replace is in {_places(text, there)}, but not with that context")
    if len(found) > 1 and (hint := instruction.start_line_hint) is not None:
        breaks = [match.start() for match in re.finditer("\n", text)]
        distances = {start: abs(bisect_left(breaks, start) + 1 - hint) for start in found}
        nearest = min(distances.values())
        found = [start for start in found if distances[start] == nearest]
    if len(found) > 1:
        raise EditRefused(f"the block to replace is in {_places(text, found)}: say which by context or a line")
    return found[0]


def _places(text: str, starts: Sequence[int]) -> str:
    numbers = [str(_line(text, start)) for start in starts[:_MOST_SHOWN]]
    more = ", ..." if len(starts) > _MOST_SHOWN else ""
    return f"line {numbers[0]}" if len(starts) == 1 else f"the lines {', '.join(numbers)}{more}"


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def line_break(text: str) -> str:
    """How the lines of `text` end: CR LF or LF, as the first one does."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def with_line_breaks(text: str, newline: str) -> str:
    """`text` with its lines ending like that."""
    return text if newline == "\n" else text.replace("\r\n", "\n").replace("\n", newline)

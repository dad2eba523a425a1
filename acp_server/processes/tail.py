"""The lines that a process writes to standard error: each as it comes, and the last of them kept.

It bounds what it keeps, so a talkative process costs nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_LONGEST_LINE: Final = 8 * 1024
_KEPT_LINES: Final = 20


class Tail:
    """Bytes in, lines out. A line of more than 8 KiB comes in pieces; the last 20 lines are kept."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes, as text without their ends. Bytes that are not UTF-8 are replaced."""
        *complete, self._rest = (self._rest + data).split(b"\n")
        lines = [piece for line in complete for piece in _pieces(line.rstrip(b"\r"))]
        if len(self._rest) > _LONGEST_LINE:
            *pieces, self._rest = _cut(self._rest)
            lines += [piece.decode(errors="replace") for piece in pieces]
        self._lines.extend(lines)
        return lines

    def finish(self) -> list[str]:
        """The last line, if it was left without an end."""
        lines = _pieces(self._rest.rstrip(b"\r")) if self._rest else []
        self._rest = b""
        self._lines.extend(lines)
        return lines

    @property
    def text(self) -> str:
        """The lines that are kept, one below the other."""
        return "\n".join(self._lines)


def _pieces(line: bytes) -> list[str]:
    return [piece.decode(errors="replace") for piece in _cut(line)]


def _cut(line: bytes) -> list[bytes]:
    return [line[start : start + _LONGEST_LINE] for start in range(0, max(len(line), 1), _LONGEST_LINE)]

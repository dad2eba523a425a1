"""Markdown that arrives piece by piece: what is complete, and what may still change.

It paints nothing.
"""

from __future__ import annotations

from typing import Final

from markdown_it import MarkdownIt

LONGEST: Final = 16_000
"""Characters that are kept back at most; of a block that is longer the lines so far are given out."""


class MarkdownStream:
    """Cuts a message into blocks (paragraphs, lists, code): the last one is open, since more of it may come."""

    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark").enable("table")
        self._fence: str | None = None
        """The line that opened the code block in which the text was cut."""
        self.open = ""
        """What has not been given out."""

    def feed(self, text: str) -> str:
        """What of the message is complete now."""
        self.open += text
        if "\n" not in text and len(self.open) <= LONGEST:
            return ""
        end = self._last_block()
        if end == 0 and len(self.open) > LONGEST:
            return self._cut()
        done, self.open = self.open[:end], self.open[end:]
        return done

    def finish(self) -> str:
        """The rest of the message."""
        done, self.open = self.open, ""
        return done

    def _last_block(self) -> int:
        """Where the last block begins."""
        starts = [token.map[0] for token in self._parser.parse(self.open) if token.level == 0 and token.map]
        if len(starts) < 2:
            return 0
        lines = self.open.split("\n")
        return sum(len(line) + 1 for line in lines[: starts[-1]])

    def _cut(self) -> str:
        end = self.open.rfind("\n") + 1 or len(self.open)
        done, rest = self.open[:end], self.open[end:]
        first = done.partition("\n")[0].strip()
        marker = first[:3]
        if marker in ("```", "~~~"):
            # What comes is code as before.
            fence = first[: len(first) - len(first.lstrip(marker[0]))]
            self.open = f"{first}\n{rest}"
            return f"{done}{fence}\n"
        self.open = rest
        return done

"""Text of any origin inside of Markdown, which nothing in it can end."""

from __future__ import annotations

import re


def block(text: str) -> str:
    """The text as a block of code, with a line break behind it."""
    fence = "~" * max(4, 1 + max(map(len, re.findall("~+", text)), default=0))
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}\n"


def code(text: str) -> str:
    """The text, on one line, as code inside of a line."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + max(map(len, re.findall("`+", text))))
    return f"{ticks} {text} {ticks}"

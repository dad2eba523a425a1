"""Text as Markdown for a client to show: blocks that nothing in them can end, and arguments that a user can read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from acp_server.wire import codec


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


_VALUE: Final = 4_000
"""Characters of one argument."""

_ARGUMENTS: Final = 50
"""How many are shown."""


def preview(arguments: Any) -> Iterator[str]:
    """One argument below the other, as a block of code, if there are any. Of a long one the beginning and the end are
    shown, and how much is left out; the client has all of it (`rawInput`)."""
    if not arguments:
        return
    if not isinstance(arguments, dict):
        yield block(_shortened(_text(arguments)))
        return
    named = list(cast("dict[str, Any]", arguments).items())
    lines = [f"{_shortened(name)}: {_shortened(_text(value))}" for name, value in named[:_ARGUMENTS]]
    if len(named) > _ARGUMENTS:
        lines.append(f"[{len(named) - _ARGUMENTS} more arguments]")
    yield block("\n".join(lines))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return codec.encode(value).decode().rstrip("\n")
    # Below its name, where it begins a line like any other.
    return "\n" + value if "\n" in value else value


def _shortened(text: str) -> str:
    if len(text) <= _VALUE:
        return text
    half = _VALUE // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"

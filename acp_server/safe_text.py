"""Makes untrusted text safe to show in error messages and in the log.

This module imports nothing of the package, and neither logs nor sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

_STEERING: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Control characters (including C1) except newline and tab, surrogates, characters that belong in no text, and
invisible tags."""

_TURNING: Final = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Line separators, and characters that change the direction of text."""

_UNSEEN: Final = (
    r"\u00ad\u034f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d"
    r"\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff"
    r"\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
)
"""Characters without width or visible form, and spaces other than the ordinary space. Normal texts need them: joiners
are used in Persian, Hindi and emoji."""

UNSAFE: Final = re.compile(f"[{_STEERING}{_TURNING}]")
"""Characters that untrusted text must not show, because they control a terminal, end a line invisibly or reverse it."""

SEQUENCE: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])")
"""Escape sequences: colours, cursor movements, window titles."""

_UNSAFE_EXACT: Final = re.compile(f"[{_STEERING}{_TURNING}{_UNSEEN}]")
"""Characters that a command, a path or a name must not show either, because two different names could look alike."""

_INDENT: Final = "\n    "
_LONGEST: Final = 300
"""The most characters that are shown of one member of the data, before they are escaped."""
_MOST_PROBLEMS: Final = 3
"""The most problems that are shown."""


def whole(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate, because few JSON parsers accept lone surrogates."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape(text: str, *, exact: bool = False) -> str:
    """Return `text` with unsafe characters as Python's escapes, so that it is safe to show and the characters stay
    visible. `exact`: whether it is a command, a path or a name, in which each character counts."""
    if text.isascii() and text.isprintable():
        return text
    table = _UNSAFE_EXACT if exact else UNSAFE
    return table.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def masked(text: str) -> str:
    """Return `text` with U+FFFD for each unsafe character, for texts whose width counts."""
    return text if text.isascii() and text.isprintable() else UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def indented(text: str) -> str:
    """Return `text` escaped, with each line but the first indented, so that no line looks like a log entry."""
    return escape(text.replace("\r\n", "\n")).replace("\n", _INDENT)


def one_line(text: str, most: int, *, exact: bool = False) -> str:
    """Return `text` escaped, on one line. If it has more than `most` characters, its middle is omitted. `exact`: see
    `escape`."""
    if len(text) > most:
        text = f"{text[: most // 2]}...{text[-(most // 2) :]}"
    return escape(text, exact=exact).replace("\n", "\\n").replace("\t", "\\t")


def in_short(data: Any) -> str:
    """Return the part of an error's data that may be shown. Other members may be secret, or mean nothing to a user.
    Agents in TypeScript put the cause into `details`, some agents into `message`, and agents in Rust send a text as the
    whole data."""
    if isinstance(data, str):
        return one_line(data, _LONGEST).strip()
    if not isinstance(data, dict):
        return ""
    known = cast("dict[str, Any]", data)
    told = {
        "problems": "; ".join(problems_of(data, _MOST_PROBLEMS)),
        "path": known.get("path"),
        "uri": known.get("uri"),
    }
    causes = [cause for name in ("details", "message") if type(cause := known.get(name)) is str and cause.strip()]
    named = [f"{name}: {one_line(text, _LONGEST)}" for name, text in told.items() if text and type(text) is str]
    return ", ".join([*(one_line(cause, _LONGEST) for cause in causes[:1]), *named])


def problems_of(data: Any, most: int | None = None) -> list[str]:
    """Return the problems that an error's data lists, each with its path, as in "prompt[0].text: Field required"."""
    problems: Any = cast("dict[str, Any]", data).get("problems") if isinstance(data, dict) else None
    return [
        f"{problem.get('path', '')}: {problem['message']}".lstrip(": ")
        for problem in cast("list[dict[str, Any]]", problems if isinstance(problems, list) else [])[:most]
        if isinstance(problem, dict) and "message" in problem  # pyright: ignore[reportUnnecessaryIsInstance]
    ]


def meant(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a wrong word, as the end of a message: the nearest of the known words, or all of them."""
    from difflib import get_close_matches  # imported here, since only a mistake needs it

    words = list(known)
    near = get_close_matches(word, words, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(words)}" if words else "it has none"


__all__ = ["SEQUENCE", "escape", "masked", "one_line", "whole"]

"""Texts of others, made harmless to show: for messages of errors, and for the log.

It imports nothing of the package. Nothing is logged or sent here.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What would steer a terminal, end a line unseen, or show text in another order than it has: control characters (C1 as
well) but newline and tab, line separators, what overrides the direction, surrogates and invisible tags."""

_INDENT: Final = "\n    "
_LONGEST: Final = 300
"""Characters of one member of the data that are shown, before they are escaped."""
_MOST_PROBLEMS: Final = 3
"""Problems that are shown."""


def escape(text: str) -> str:
    """`text` with `UNSAFE` characters as Python's escapes: harmless to show, and still to be seen."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def indented(text: str) -> str:
    """`text`, escaped, each of its lines but the first indented, so that none of them looks like an entry of a log."""
    return escape(text.replace("\r\n", "\n")).replace("\n", _INDENT)


def one_line(text: str, most: int) -> str:
    """`text`, escaped, in one line. Of more than `most` characters the beginning and the end are left."""
    if len(text) > most:
        text = f"{text[: most // 2]}...{text[-(most // 2) :]}"
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def in_short(data: Any) -> str:
    """What may be shown of an error's data: other members may be secret, or mean nothing to a user."""
    if not isinstance(data, dict):
        return ""
    known = cast("dict[str, Any]", data)
    told = {
        "problems": "; ".join(problems_of(data, _MOST_PROBLEMS)),
        "path": known.get("path"),
        "uri": known.get("uri"),
    }
    return ", ".join(f"{name}: {one_line(text, _LONGEST)}" for name, text in told.items() if text and type(text) is str)


def problems_of(data: Any, most: int | None = None) -> list[str]:
    """The problems that an error's data lists, each with its place, as in "prompt[0].text: Field required"."""
    problems: Any = cast("dict[str, Any]", data).get("problems") if isinstance(data, dict) else None
    return [
        f"{problem.get('path', '')}: {problem['message']}".lstrip(": ")
        for problem in cast("list[dict[str, Any]]", problems if isinstance(problems, list) else [])[:most]
        if isinstance(problem, dict) and "message" in problem  # pyright: ignore[reportUnnecessaryIsInstance]
    ]

"""Texts of others, made harmless to show: for messages of errors, and for the log.

It imports nothing of the package. Nothing is logged or sent here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

_STEERING: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Control characters (C1 as well) but newline and tab, surrogates, marks that belong in no text, invisible tags."""

_TURNING: Final = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Line separators, and what shows text in another order than it has."""

_UNSEEN: Final = (
    r"\u00ad\u034f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d"
    r"\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff"
    r"\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
)
"""What has no width or no look of its own, and spaces that are not the space. Texts need them: joiners belong to
Persian, Hindi and emoji."""

UNSAFE: Final = re.compile(f"[{_STEERING}{_TURNING}]")
"""What no text of others may hold where it is shown: it would steer a terminal, end a line unseen or turn it
around."""

_UNSAFE_EXACT: Final = re.compile(f"[{_STEERING}{_TURNING}{_UNSEEN}]")
"""What a command, a path or a name may not hold either: two that look alike would be different."""

_INDENT: Final = "\n    "
_LONGEST: Final = 300
"""Characters of one member of the data that are shown, before they are escaped."""
_MOST_PROBLEMS: Final = 3
"""Problems that are shown."""


def whole(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair that stands alone: few parsers of JSON take those."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape(text: str, *, exact: bool = False) -> str:
    """`text` with what is not safe as Python's escapes: harmless to show, and still to be seen. `exact`: it is a
    command, a path or a name, of which each character counts."""
    if text.isascii() and text.isprintable():
        return text
    table = _UNSAFE_EXACT if exact else UNSAFE
    return table.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def masked(text: str) -> str:
    """`text` with U+FFFD in place of each character that is not safe: where the width of a line counts."""
    return text if text.isascii() and text.isprintable() else UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def indented(text: str) -> str:
    """`text`, escaped, each of its lines but the first indented, so that none of them looks like an entry of a log."""
    return escape(text.replace("\r\n", "\n")).replace("\n", _INDENT)


def one_line(text: str, most: int, *, exact: bool = False) -> str:
    """`text`, escaped, in one line. Of more than `most` characters the beginning and the end are left. `exact`: see
    `escape`."""
    if len(text) > most:
        text = f"{text[: most // 2]}...{text[-(most // 2) :]}"
    return escape(text, exact=exact).replace("\n", "\\n").replace("\t", "\\t")


def in_short(data: Any) -> str:
    """What may be shown of an error's data: other members may be secret, or mean nothing to a user. Agents in
    TypeScript have the cause in `details`, some have it in `message`, those in Rust have a text in the place of the
    data."""
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
    """The problems that an error's data lists, each with its place, as in "prompt[0].text: Field required"."""
    problems: Any = cast("dict[str, Any]", data).get("problems") if isinstance(data, dict) else None
    return [
        f"{problem.get('path', '')}: {problem['message']}".lstrip(": ")
        for problem in cast("list[dict[str, Any]]", problems if isinstance(problems, list) else [])[:most]
        if isinstance(problem, dict) and "message" in problem  # pyright: ignore[reportUnnecessaryIsInstance]
    ]


def meant(word: str, known: Iterable[str]) -> str:
    """What a wrong word may stand for, as the end of a message: the nearest of the known words, or all of them."""
    from difflib import get_close_matches  # Here, because only a mistake needs it.

    words = list(known)
    near = get_close_matches(word, words, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(words)}" if words else "it has none"

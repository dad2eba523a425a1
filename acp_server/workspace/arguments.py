"""How the arguments of a command are written: as words, in quotation marks, or as blocks of lines.

`"..."` and `'...'` keep white space; inside them a quotation mark follows a backslash. A block stands between two lines
of three or more backticks or tildes. All other backslashes stay as they are, so that regular expressions and source
code are typed as they are. What an argument is good for is the matter of `commands`.
"""

from __future__ import annotations

import re

# Between quotation marks a backslash takes the next character with it, so that one of them can be inside.
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1|\\).)*)\1""", re.DOTALL)
_BLOCK = re.compile(r"(`{3,}|~{3,})[^\n`~]*\n(?:(.*?)\n)?\1[ \t]*(?=\n|\Z)", re.DOTALL)
_ARROW = re.compile(r"(?<!\S)=>(?!\S)")


class Mistyped(Exception):
    """The arguments are not understood; the text says what is wrong with them."""


def first_word(text: str) -> tuple[str, str]:
    """The first word of a text, perhaps in quotation marks, and what comes behind it, as it is. Raises Mistyped."""
    text = text.lstrip()
    found = _QUOTED.match(text)
    # A regular expression may itself begin with a quotation mark: "[^"]*" is one, and not "[^" with something
    # behind it.
    if found and text[found.end() :][:1].strip() == "":
        return _unquoted(found), text[found.end() :]
    word, *more = text.split(None, 1) or [""]
    if more and word[0] in "\"'" and (len(word) == 1 or not word.endswith(word[0])):
        raise Mistyped("A quotation mark is not closed")
    return word, text[len(word) :]


def path(text: str) -> str:
    """A path alone: it may have spaces, and quotation marks do not belong to it. Lines may come behind them."""
    found = _QUOTED.match(text)
    if found and (text[found.end() :] == "" or text[found.end()] == ":"):
        return _unquoted(found) + text[found.end() :]
    return text


def exactly(text: str) -> str | None:
    """What a text that is all in quotation marks, or all a block, stands for; None for any other."""
    text = text.strip()
    if (found := _BLOCK.fullmatch(text)) is not None:
        return found[2] or ""
    found = _QUOTED.fullmatch(text)
    return None if found is None else _unquoted(found)


def is_block(text: str) -> bool:
    """Whether a text is a block of lines."""
    return _BLOCK.fullmatch(text.strip()) is not None


def replacement(text: str) -> tuple[str, str]:
    """What `OLD => NEW` stands for. Raises Mistyped."""
    text = text.strip()
    begin = _BLOCK.match(text) or _QUOTED.match(text)
    arrow = _ARROW.search(text)
    if begin and (behind := text[begin.end() :].lstrip()) and _ARROW.match(behind):
        return exactly(begin[0]) or "", _side(behind[2:])
    if arrow is None:
        raise Mistyped("There is no `=>` between what to replace and what to put in its place")
    arrows = list(_ARROW.finditer(text))
    if len(arrows) > 1:
        # One of them is what parts the two, if the rest is one text.
        arrows = [arrow for arrow in arrows if exactly(text[arrow.end() :]) is not None]
    if len(arrows) != 1:
        raise Mistyped("There is more than one `=>`: the texts go in quotes")
    return text[: arrows[0].start()].strip(), _side(text[arrows[0].end() :])


def _side(text: str) -> str:
    found = exactly(text)
    return text.strip() if found is None else found


def _unquoted(found: re.Match[str]) -> str:
    return found[2].replace("\\" + found[1], found[1])

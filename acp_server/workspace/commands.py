"""The commands of the built-in agent: what there is, and what a line that a user typed means.

It touches no files: whether a path exists is found out by whoever carries the command out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .refusal import Refusal
from .shown import quoted


@dataclass(frozen=True, slots=True)
class SearchCommand:
    """`/search`: a regular expression, and where to look for it if not everywhere."""

    pattern: str
    path: str | None


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """`/read`: a path, perhaps with lines; `acp_server.workspace.read` knows the forms."""

    target: str


@dataclass(frozen=True, slots=True)
class ScanCommand:
    """`/scan`: what to count, if not everything."""

    path: str | None


@dataclass(frozen=True, slots=True)
class HelpCommand:
    """`/help`."""


Command = SearchCommand | ReadCommand | ScanCommand | HelpCommand


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A command as it is advertised (ACP, Slash Commands).

    Attributes:
        name: without the slash.
        description: one sentence.
        hint: what comes after the name, empty if nothing does.
        examples: lines that a user could type.
    """

    name: str
    description: str
    hint: str
    examples: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"/{self.name} {self.hint}".rstrip()


COMMANDS = (
    CommandInfo(
        "search",
        "Search the files for a regular expression; hits are shown as they are found.",
        "PATTERN [PATH]",
        (r"/search \bTODO\b", r"/search (?i)class\s+\w+Error src", r'/search "def main" src/app.py'),
    ),
    CommandInfo(
        "read",
        "Show a file or some of its lines.",
        "PATH[:LINES]",
        ("/read README.md", "/read src/app.py:10-20", "/read src/app.py:10-"),
    ),
    CommandInfo(
        "scan",
        "Count files, lines by language, the largest files, and what is still to do.",
        "[PATH]",
        ("/scan", "/scan src"),
    ),
    CommandInfo("help", "Say what this agent can do.", ""),
)


def parse_command(text: str) -> Command | None:
    """What a prompt asks for; None if it is no command.

    A command is a slash and a name, in any case, at the beginning of the text. White space around an argument
    does not belong to it. `"..."` or `'...'` around a whole argument keep white space; inside them a
    quotation mark follows a backslash. All other backslashes stay as they are, so a regular expression is
    typed as it is: `/search \\bfoo\\b`.

    Raises:
        Refusal: the command does not exist or its arguments are not understood; the text says how to type it.
    """
    text = text.strip()
    if not text.startswith("/"):
        return None
    name, *more = text[1:].split(None, 1)[:2] or [""]
    rest = more[0] if more else ""
    match name.lower():
        case "search":
            return _search(rest)
        case "read":
            if not rest:
                raise _wrong("A path is missing", "read")
            return ReadCommand(_path(rest))
        case "scan":
            return ScanCommand(_path(rest) if rest else None)
        case "help":
            return HelpCommand()
        case _:
            known = ", ".join(f"/{command.name}" for command in COMMANDS)
            raise Refusal(f"No such command: /{quoted(name)}. There is {known}.")


def help_text() -> str:
    """What the agent can do, as Markdown."""
    lines: list[str] = []
    for command in COMMANDS:
        lines.append(f"- `{command.usage}`: {command.description}")
        lines += [f"    - `{example}`" for example in command.examples]
    return "\n".join(lines)


# Between quotation marks a backslash takes the next character with it, so that one of them can be inside.
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1|\\).)*)\1""", re.DOTALL)


def _search(rest: str) -> SearchCommand:
    if not rest:
        raise _wrong("A pattern is missing", "search")
    found = _QUOTED.match(rest)
    # A regular expression may itself begin with a quotation mark: "[^"]*" is one, and not "[^" with something
    # behind it.
    if found and rest[found.end() :][:1].strip() == "":
        pattern, rest = _unquoted(found), rest[found.end() :].strip()
    else:
        pattern, *more = rest.split(None, 1)
        rest = more[0] if more else ""
        if rest and pattern[0] in "\"'" and not pattern.endswith(pattern[0]):
            raise _wrong("A quotation mark is not closed", "search")
    if not pattern:
        raise _wrong("The pattern is empty", "search")
    if len(rest.split()) > 1 and not _QUOTED.fullmatch(rest):
        raise _wrong("Too many words: a pattern or a path with spaces goes in quotes", "search")
    return SearchCommand(pattern, _path(rest) if rest else None)


def _path(rest: str) -> str:
    """A path may have spaces; it needs no quotation marks, and they are no part of it. Lines may come behind them."""
    found = _QUOTED.match(rest)
    if found and (rest[found.end() :] == "" or rest[found.end()] == ":"):
        return _unquoted(found) + rest[found.end() :]
    return rest


def _unquoted(found: re.Match[str]) -> str:
    return found[2].replace("\\" + found[1], found[1])


def _wrong(what: str, name: str) -> Refusal:
    command = next(command for command in COMMANDS if command.name == name)
    examples = " or ".join(f"`{example}`" for example in command.examples)
    return Refusal(f"{what}. It is typed as `{command.usage}`, for example {examples}")

"""The commands of the built-in agent: their descriptions, and parsing a user's message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from acp_server.apps.coder.roots import Refusal, quoted

# Between quotation marks a backslash takes the next character with it, so that a quotation mark can be inside.
_QUOTED = re.compile(r"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+["]""", re.DOTALL)
_BLOCK = re.compile(r"(`{3,}|~{3,})[^\n`~]*\n(?:(.*?)\n)?\1[ \t]*(?=\n|\Z)", re.DOTALL)
_ARROW = re.compile(r"(?<!\S)=>(?!\S)")

# Each arrow is tried separately, and all paths are searched at the same time.
_MOST_ARROWS = 100
_MOST_PATHS = 100


class Mistyped(Exception):
    """Raised for arguments that cannot be parsed. The text says why."""


def first_word(text: str) -> tuple[str, str]:
    """Return the first word of a text, which may be quoted, and the unchanged rest. Raises Mistyped."""
    text = text.lstrip()
    found = _QUOTED.match(text)
    # A regular expression may itself begin with a quotation mark: "[^"]*" is one, and not "[^" followed by a rest.
    if found and text[found.end() :][:1].strip() == "":
        return _unquoted(found), text[found.end() :]
    word, *more = text.split(None, 1) or [""]
    if more and word[0] in "\"'" and (len(word) == 1 or not word.endswith(word[0])):
        raise Mistyped("A quotation mark is not closed")
    return word, text[len(word) :]


def path_argument(text: str) -> str:
    """Return a single path. The argument may have spaces, and quotation marks around it are removed. A range of lines
    may follow it."""
    found = _QUOTED.match(text)
    if found and (text[found.end() :] == "" or text[found.end()] == ":"):
        return _unquoted(found) + text[found.end() :]
    return text


def exactly(text: str) -> str | None:
    """Return the content of a text that is entirely quoted, or entirely a block of code; None for any other text."""
    text = text.strip()
    if (found := _BLOCK.fullmatch(text)) is not None:
        return found[2] or ""
    found = _QUOTED.fullmatch(text)
    return None if found is None else _unquoted(found)


def is_block(text: str) -> bool:
    """Whether a text is a block of code."""
    return _BLOCK.fullmatch(text.strip()) is not None


def replacement(text: str) -> tuple[str, str]:
    """Return the two texts of `OLD => NEW`. Raises Mistyped."""
    text = text.strip()
    begin = _BLOCK.match(text) or _QUOTED.match(text)
    arrow = _ARROW.search(text)
    if begin and (behind := text[begin.end() :].lstrip()) and _ARROW.match(behind):
        return exactly(begin[0]) or "", _side(behind[2:])
    if arrow is None:
        raise Mistyped("There is no `=>` between the old and the new text")
    arrows = list(islice(_ARROW.finditer(text), _MOST_ARROWS + 1))
    if 1 < len(arrows) <= _MOST_ARROWS:
        # An arrow is the separator if the rest after it is a single text.
        arrows = [arrow for arrow in arrows if exactly(text[arrow.end() :]) is not None]
    if len(arrows) != 1:
        raise Mistyped("There is more than one `=>`; put the texts in quotes")
    return text[: arrows[0].start()].strip(), _side(text[arrows[0].end() :])


def _side(text: str) -> str:
    found = exactly(text)
    return text.strip() if found is None else found


def _unquoted(found: re.Match[str]) -> str:
    quote = found[0][0]
    return found[0][1:-1].replace("\\" + quote, quote)


@dataclass(frozen=True, slots=True)
class SearchCommand:
    """`/search`: a regular expression, and the paths to search. Without paths, everything is searched."""

    pattern: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """`/read`: a path, which lines may follow. `acp_server.apps.coder.read` describes the forms."""

    target: str


@dataclass(frozen=True, slots=True)
class ScanCommand:
    """`/scan`: the path to count. Without a path, everything is counted."""

    path: str | None


@dataclass(frozen=True, slots=True)
class EditCommand:
    """`/edit`: a file, the text to replace, and the replacement."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class WriteCommand:
    """`/write`: a file and its new content. The content is None if the text does not have it."""

    path: str
    content: str | None


@dataclass(frozen=True, slots=True)
class RunCommand:
    """`/run`: one or several lines for the shell."""

    command: str


@dataclass(frozen=True, slots=True)
class HelpCommand:
    """`/help`."""


Command = SearchCommand | ReadCommand | ScanCommand | EditCommand | WriteCommand | RunCommand | HelpCommand


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A command as it is advertised (ACP, Slash Commands).

    Attributes:
        name: without the slash.
        description: one sentence.
        hint: the arguments; empty for a command without arguments.
        examples: lines that a user could type.
        more: more about its arguments.
    """

    name: str
    description: str
    hint: str
    examples: tuple[str, ...] = ()
    more: str = ""

    @property
    def usage(self) -> str:
        """Return the line that a user types."""
        return f"/{self.name} {self.hint}".rstrip()


COMMANDS = (
    CommandInfo(
        "search",
        "Search the files for a regular expression; hits are shown as they are found.",
        "PATTERN [PATH ...]",
        (r"/search \bTODO\b", r"/search (?i)class\s+\w+Error src tests", r'/search "def main" src/app.py'),
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
    CommandInfo(
        "edit",
        "Replace a text that is in a file exactly once, after you have seen the change and allowed it.",
        "PATH OLD => NEW",
        ("/edit README.md teh => the", '/edit src/app.py "retries = 3" => "retries = 5"', "/edit a.txt superfluous =>"),
        "Texts of several lines go in quotes, or between lines of three backticks, with the arrow on a line of its own",
    ),
    CommandInfo(
        "write",
        "Make a file, or replace all of it, after you have seen the change and allowed it.",
        "PATH TEXT",
        ("/write notes.txt Buy milk.", '/write "my notes.txt" Buy milk.', '/write empty.txt ""'),
        "The text may begin on the line below the path, be between lines of three backticks, or be an attached file",
    ),
    CommandInfo(
        "run",
        "Run a command of the shell in the session's directory, after you have allowed it.",
        "COMMAND",
        ("/run git status", "/run python -m pytest -x 2>&1 | tail"),
    ),
    CommandInfo("help", "Say what this agent can do.", ""),
)


def find_command(texts: Sequence[str]) -> Command | None:
    """Return the command in the last message that has one; None without a command. A message after it may have the
    content of a file. Raises like `parse_command`."""
    slashed = [index for index, text in enumerate(texts) if text.lstrip().startswith("/")]
    known = [index for index in slashed if _name(texts[index]) in {command.name for command in COMMANDS}]
    chosen = known or slashed
    if not chosen:
        return None
    command = parse_command(texts[chosen[-1]])
    if isinstance(command, WriteCommand) and command.content is None:
        return parse_command("\n".join(texts[chosen[-1] :]))
    return command


def parse_command(text: str) -> Command | None:
    """Return the command in a message; None if the message is not a command.

    A command is a slash and a name, in any case, at the beginning of the text. White space around an argument does not
    belong to it. An argument itself is not changed: `/search \\bfoo\\b` needs no escapes.

    Raises:
     Refusal: the command does not exist or its arguments cannot be parsed; the text shows its usage.
    """
    text = text.strip()
    if not text.startswith("/"):
        return None
    name, *more = text[1:].split(None, 1)[:2] or [""]
    rest = more[0] if more else ""
    try:
        match name.lower():
            case "search":
                return _search(rest)
            case "read":
                return ReadCommand(path_argument(_needed(rest, "A path")))
            case "scan":
                return ScanCommand(path_argument(rest) if rest else None)
            case "edit":
                return _edit(rest)
            case "write":
                return _write(rest)
            case "run":
                return _run(rest)
            case "help":
                return HelpCommand()
            case _:
                known = ", ".join(f"/{command.name}" for command in COMMANDS)
                raise Refusal(f"No such command: {quoted('/' + name)}. There is {known}.")
    except Mistyped as error:
        raise wrong(f"{error}", name.lower()) from None


def _name(text: str) -> str:
    return (text.lstrip()[1:].split(None, 1) or [""])[0].lower()


def help_text() -> str:
    """Return the list of commands, as Markdown."""
    lines: list[str] = []
    for command in COMMANDS:
        more = f" {command.more}." if command.more else ""
        lines.append(f"- `{command.usage}`: {command.description}{more}")
        lines += [f"    - `{example}`" for example in command.examples]
    return "\n".join(lines)


def wrong(what: str, name: str) -> Refusal:
    """Return the refusal of a command that was typed wrongly."""
    command = next(command for command in COMMANDS if command.name == name)
    examples = " or ".join(f"`{example}`" for example in command.examples)
    return Refusal(f"{what}. Usage: `{command.usage}`, for example {examples}")


def _search(rest: str) -> SearchCommand:
    pattern, rest = first_word(_needed(rest, "A pattern"))
    if not pattern:
        raise Mistyped("The pattern is empty")
    paths: list[str] = []
    while rest.strip():
        path, rest = first_word(rest)
        paths.append(path)
        if len(paths) > _MOST_PATHS:
            raise Mistyped(f"There are more than {_MOST_PATHS} paths")
    return SearchCommand(pattern, tuple(paths))


def _edit(rest: str) -> EditCommand:
    path, rest = first_word(_needed(rest, "A path"))
    old, new = replacement(rest)
    return EditCommand(path, _needed(old, "What to replace"), new)


def _write(rest: str) -> WriteCommand:
    path, rest = first_word(_needed(rest, "A path"))
    if not rest.strip():
        return WriteCommand(path, None)
    content = exactly(rest)
    if content is not None:
        return WriteCommand(path, content + "\n" if content and is_block(rest) else content)
    line, _, below = rest.partition("\n")
    # The lines below the path keep their indentation.
    return WriteCommand(path, (rest.strip() if line.strip() else below.rstrip()) + "\n")


def _run(rest: str) -> RunCommand:
    found = exactly(rest) if is_block(rest) else None
    return RunCommand(_needed(rest if found is None else found, "A command"))


def _needed(argument: str, what: str) -> str:
    if not argument.strip():
        raise Mistyped(f"{what} is missing")
    return argument

"""The commands of the built-in agent: what there is, what a message of a user means, and how arguments are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from acp_server.apps.coder.roots import Refusal, quoted

# Between quotation marks a backslash takes the next character with it, so that one of them can be inside.
_QUOTED = re.compile(r"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+["]""", re.DOTALL)
_BLOCK = re.compile(r"(`{3,}|~{3,})[^\n`~]*\n(?:(.*?)\n)?\1[ \t]*(?=\n|\Z)", re.DOTALL)
_ARROW = re.compile(r"(?<!\S)=>(?!\S)")

# Each is tried by itself, and each path is searched at the same time as the others.
_MOST_ARROWS = 100
_MOST_PATHS = 100


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


def path_argument(text: str) -> str:
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
    arrows = list(islice(_ARROW.finditer(text), _MOST_ARROWS + 1))
    if 1 < len(arrows) <= _MOST_ARROWS:
        # One of them is what parts the two, if the rest is one text.
        arrows = [arrow for arrow in arrows if exactly(text[arrow.end() :]) is not None]
    if len(arrows) != 1:
        raise Mistyped("There is more than one `=>`: the texts go in quotes")
    return text[: arrows[0].start()].strip(), _side(text[arrows[0].end() :])


def _side(text: str) -> str:
    found = exactly(text)
    return text.strip() if found is None else found


def _unquoted(found: re.Match[str]) -> str:
    quote = found[0][0]
    return found[0][1:-1].replace("\\" + quote, quote)


@dataclass(frozen=True, slots=True)
class SearchCommand:
    """`/search`: a regular expression, and where to look for it if not everywhere."""

    pattern: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """`/read`: a path, perhaps with lines; `acp_server.apps.coder.read` knows the forms."""

    target: str


@dataclass(frozen=True, slots=True)
class ScanCommand:
    """`/scan`: what to count, if not everything."""

    path: str | None


@dataclass(frozen=True, slots=True)
class EditCommand:
    """`/edit`: a file, what to replace in it, and what to put in its place."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class WriteCommand:
    """`/write`: a file and all that is to be in it; None, if the message has that outside of its text."""

    path: str
    content: str | None


@dataclass(frozen=True, slots=True)
class RunCommand:
    """`/run`: a line, or several, for the shell."""

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
        hint: what comes after the name, empty if nothing does.
        examples: lines that a user could type.
        more: what else there is to know of its arguments.
    """

    name: str
    description: str
    hint: str
    examples: tuple[str, ...] = ()
    more: str = ""

    @property
    def usage(self) -> str:
        """How it is typed."""
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
    """The last of the messages that is a command; None if there is none. What a file is to hold may be the messages
    behind. Raises as `parse_command`."""
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
    """What a message asks for; None if it is not a command.

    A command is a slash and a name, in any case, at the beginning of the text. White space around an argument does not
    belong to it. Inside of an argument nothing is changed: `/search \\bfoo\\b` is typed as it is.

    Raises:
        Refusal: the command does not exist or its arguments are not understood; the text says how to type it.
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
    """What the agent can do, as Markdown."""
    lines: list[str] = []
    for command in COMMANDS:
        more = f" {command.more}." if command.more else ""
        lines.append(f"- `{command.usage}`: {command.description}{more}")
        lines += [f"    - `{example}`" for example in command.examples]
    return "\n".join(lines)


def wrong(what: str, name: str) -> Refusal:
    """The refusal of a command that is not typed as it should be."""
    command = next(command for command in COMMANDS if command.name == name)
    examples = " or ".join(f"`{example}`" for example in command.examples)
    return Refusal(f"{what}. It is typed as `{command.usage}`, for example {examples}")


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

"""Slash commands of an agent (ACP, Slash Commands). The words after the command's name become the arguments of a
function.

A command arrives as the text of a prompt. Clients put files and notes around the typed text, so each text block that
the user may have typed is searched for a command, the last one first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from acp_server.agent.handlers import check_first
from acp_server.errors import InvalidParams, UsageError
from acp_server.session.sayable import is_command
from acp_server.session.typed import typed
from acp_server.signatures import signature_of
from acp_server.tools.parameters import Parameters, annotation_of, name_of

if TYPE_CHECKING:
    from acp_server.schema.updates import AvailableCommand
    from acp_server.session.definition import PromptHandler
    from acp_server.session.turn import Turn

Answering = Awaitable[Any] | AsyncGeneratorType[Any]


class Command:
    """One command. `function` takes the turn, followed by the words that the user types.

    A single text parameter gets all text after the command. With several parameters, each gets a word or a quoted
    string. If the last parameter is text, it gets the rest of the text unsplit. Words are validated against the
    annotations. Raises UsageError if the function cannot be called with such arguments.
    """

    def __init__(self, name: str, function: Callable[..., Any], hint: str | None, description: str | None) -> None:
        if not is_command(name):
            raise UsageError(f"the name of a command must be one word without a slash, such as 'notes', not {name!r}")
        self.name: Final = name
        for what, text in {"hint": hint, "description": description}.items():
            if not isinstance(text, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"the {what} of a command must be a string, not {text!r}")
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            raise UsageError(f"the function of the command /{name} must be `async def`")
        takes = list(signature_of(function).parameters.values())
        if not takes:
            raise UsageError(f"the function of the command /{name} must take the turn")
        first, *self._takes = takes
        check_first(function, first, "turn")
        self._function = function
        self._parameters = Parameters(function, lambda parameter: parameter.name == first.name)
        self._parameters.check()
        self._rest_is_text = bool(self._takes) and _is_text(annotation_of(function, self._takes[-1]))
        self.hint: Final = " ".join(map(_shown, self._takes)) if hint is None else hint
        doc = (inspect.getdoc(function) or "").partition("\n")[0].strip()
        self.description: Final = description or doc or name_of(function)

    def listed(self) -> AvailableCommand:
        """Return the command in the form that is sent to clients."""
        from acp_server.schema.updates import AvailableCommand, UnstructuredCommandInput

        takes = UnstructuredCommandInput(hint=self.hint) if self._takes else None
        return AvailableCommand(name=self.name, description=self.description, input=takes)

    def run(self, turn: Turn, typed: str) -> Answering:
        """Answer a turn. `typed`: the text after the command's name. If validation fails, the user sees the error."""
        try:
            arguments = self._parameters.read(self._arguments(typed))
        except (InvalidParams, ValueError) as error:
            return turn.say(f"{_why(error)} Type: {f'/{self.name} {self.hint}'.rstrip()}")
        return self._function(turn, **arguments)

    def _arguments(self, typed: str) -> dict[str, str]:
        names = [each.name for each in self._takes]
        if not names:
            if typed:
                raise ValueError(f"/{self.name} takes no arguments.")
            return {}
        words = _words(typed, len(names) if self._rest_is_text else None)
        if len(words) > len(names):
            raise ValueError(f"/{self.name} takes {len(names)} words, not {len(words)}.")
        return dict(zip(names, words, strict=False))


class Commands:
    """The commands of an agent, by name."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}

    def __bool__(self) -> bool:
        return bool(self._commands)

    def add(self, command: Command) -> None:
        """Add a command. Raises UsageError if there is a command with that name."""
        if command.name.lower() in self._commands:
            raise UsageError(f"there are two commands with the name {command.name!r}")
        self._commands[command.name.lower()] = command

    def listed(self) -> list[AvailableCommand]:
        """Return all commands in the form that is sent to clients."""
        return [command.listed() for command in self._commands.values()]

    def before(self, handler: PromptHandler | None) -> PromptHandler:
        """Return a prompt handler that answers commands and passes all other prompts to `handler`."""

        def prompt(turn: Turn) -> Answering:
            for text in reversed(typed(turn)):
                name, _, rest = _split(text)
                if (command := self._commands.get(name)) is not None:
                    return command.run(turn, rest)
            return self._unknown(turn) if handler is None else handler(turn)

        return prompt

    def _unknown(self, turn: Turn) -> Awaitable[None]:
        names = ", ".join(f"/{command.name}" for command in self._commands.values())
        return turn.say(f"I understand commands: {names}.")


def _split(text: str) -> tuple[str, str, str]:
    """Split a message into the command's name in lower case, the separator, and the rest. The name is empty if the
    message is not a command."""
    text = text.strip()
    if not text.startswith("/"):
        return "", "", text
    name, *rest = text[1:].split(None, 1) or [""]
    return name.lower(), " ", rest[0].strip() if rest else ""


_WORD: Final = re.compile(r"""\s*(?:"([^"]*)"(?=\s|\Z)|'([^']*)'(?=\s|\Z)|(\S+))""")
"""A word or a quoted text. An apostrophe within a word is a part of it."""


def _words(typed: str, most: int | None) -> list[str]:
    """Split a text into words, and remove quotes. `most`: the maximum number of words. If it is reached, the last item
    is the rest of the text as typed."""
    words: list[str] = []
    place = 0
    while (word := _WORD.match(typed, place)) is not None:
        if most is not None and len(words) == most - 1:
            return [*words, typed[place:].strip()]
        words.append(next(part for part in word.groups() if part is not None))
        place = word.end()
    return words


def _shown(parameter: inspect.Parameter) -> str:
    name = parameter.name.upper()
    return name if parameter.default is parameter.empty else f"[{name}]"


def _is_text(annotation: Any) -> bool:
    return annotation in (str, Any) or (str in get_args(annotation) and "Literal" not in str(annotation))


def _why(error: Exception) -> str:
    if not isinstance(error, InvalidParams):
        return str(error)
    problems = cast("dict[str, list[Mapping[str, str]]]", error.data)["problems"]
    return " ".join(f"{each['path'].upper()}: {each['message'].rstrip('.')}." for each in problems)

"""Slash commands of the chat itself, about modes, options, sessions and help. All other slash commands belong to the
agent."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from acp_server.apps.cli.chat import opening
from acp_server.client import RemoteSession
from acp_server.errors import AcpError, ConnectionClosed, UsageError
from acp_server.schema import (
    AvailableCommand,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionInfo,
    UnstructuredCommandInput,
)

if TYPE_CHECKING:
    from acp_server.apps.cli.chat.conversation import Conversation

_ARGUMENTS: Final = {"mode": "[MODE]", "config": "[OPTION [VALUE]]", "resume": "[SESSION]"}
_WORDS: Final = {
    "help": "List the commands.",
    "mode": "Show the modes, or enter one.",
    "config": "Show the options of the session, or set one.",
    "sessions": "List the sessions of this folder.",
    "resume": "Go on with a session: by its number in the list, its id, or the last one.",
    "new": "Begin a new session.",
    "quit": "Leave.",
}
OFFERED: Final = [
    AvailableCommand(
        name=name,
        description=words,
        input=UnstructuredCommandInput(hint=_ARGUMENTS[name]) if name in _ARGUMENTS else None,
    )
    for name, words in _WORDS.items()
]
_TRUE: Final = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


class LocalCommands:
    """Runs the commands of the chat, which are lines that begin with `/`. A line that begins with `//` goes to the
    agent, with one slash."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._screen = conversation.user.screen
        self._listed: list[SessionInfo] = []
        self._run: dict[str, Callable[[list[str]], Awaitable[None]]] = {
            "help": self._help,
            "mode": self._mode,
            "config": self._config,
            "sessions": self._sessions,
            "resume": self._resume,
            "new": self._new,
        }

    def of_agent(self, commands: Iterable[AvailableCommand]) -> list[AvailableCommand]:
        """Return the commands of the agent, as they are typed. A command that has the name of a command of the chat
        takes two slashes."""
        return [
            command.model_copy(update={"name": f"/{command.name}"}) if command.name in _WORDS else command
            for command in commands
        ]

    async def run(self, text: str) -> bool:
        """Run a command; returns False if the text is not a command of the chat. An error is shown, unless the agent is
        gone."""
        if text.startswith("//"):
            await self._conversation.turn(text[1:])
            return True
        name, *words = text.split()
        if not name.startswith("/"):
            return False
        if name in ("/quit", "/exit"):
            self._conversation.leave()
            return True
        act = self._run.get(name[1:])
        if act is None:
            return False
        try:
            await act(words)
        except ConnectionClosed:
            raise
        except AcpError as error:
            self._screen.error(error)
        return True

    @property
    def _session(self) -> RemoteSession:
        assert self._conversation.session is not None
        return self._conversation.session

    async def _help(self, _words: list[str]) -> None:
        self._screen.line("Enter sends, Alt-Enter begins a new line.")
        self._screen.line("Ctrl-C stops a turn, Ctrl-D leaves.")
        self._screen.commands(OFFERED)
        if commands := self.of_agent(self._session.available_commands):
            self._screen.line("Of the agent:")
            self._screen.commands(commands)

    async def _mode(self, words: list[str]) -> None:
        modes = self._session.modes
        if modes is None:
            self._screen.line("  the session has no modes")
            return
        if words:
            known = [mode.id for mode in modes.available_modes]
            await self._session.set_mode(_meant("mode", words[0], known))
        for mode in modes.available_modes:
            mark = "*" if mode.id == modes.current_mode_id else " "
            self._screen.line(
                f"  {mark} {mode.id}", f"  {mode.name}{f': {mode.description}' if mode.description else ''}", fg="cyan"
            )

    async def _config(self, words: list[str]) -> None:
        options = {str(getattr(option, "id", "")): option for option in self._session.config_options}
        if not options:
            self._screen.line("  the session has no options")
            return
        if not words:
            for option in options.values():
                self._option(option)
            return
        option = options[_meant("option", words[0], list(options))]
        if len(words) > 1:
            id = str(getattr(option, "id", ""))
            changed = await self._session.set_config_option(id, _value(option, " ".join(words[1:])))
            option = next((each for each in changed.config_options if getattr(each, "id", None) == id), option)
        self._option(option)
        for value in _values(option):
            self._screen.line(f"      {value.value}", f"  {value.name}", dim=True)

    def _option(self, option: SessionConfigOption) -> None:
        value: Any = getattr(option, "current_value", None)
        shown = {True: "on", False: "off"}.get(value, value)
        self._screen.line(f"  {getattr(option, 'id', '?')} = {shown}", f"  {getattr(option, 'name', '')}", fg="cyan")

    async def _sessions(self, _words: list[str]) -> None:
        assert self._conversation.agent is not None
        self._listed = await opening.sessions(self._conversation.agent, self._conversation.wishes.cwd)
        show_sessions(self._screen, self._listed, self._session.id)

    async def _resume(self, words: list[str]) -> None:
        assert self._conversation.agent is not None
        which = words[0] if words else opening.LAST
        if which.isdecimal() and 0 < int(which) <= len(self._listed):
            info = self._listed[int(which) - 1]
        else:
            info = await opening.find_session(self._conversation.agent, which, self._conversation.wishes.cwd)
        await self._conversation.load(info)
        self._screen.line(f"  session {info.session_id}", f"  {info.title or ''}", fg="cyan")

    async def _new(self, _words: list[str]) -> None:
        await self._conversation.load(None)
        self._screen.line(f"  session {self._session.id}", fg="cyan")


def show_sessions(
    screen: Any, sessions: Sequence[SessionInfo], current: str | None = None, now: datetime | None = None
) -> None:
    """Show a line for each session, with a number and the time since its last change. `now` replaces the present
    moment."""
    now = now or datetime.now(UTC)
    if not sessions:
        screen.line("  there are no sessions of this folder")
    width = len(str(len(sessions)))
    for number, info in enumerate(sessions, 1):
        mark = "*" if info.session_id == current else " "
        when = f"  {_age(info.updated_at, now)}" if info.updated_at else ""
        title = f"  {info.title}" if info.title else ""
        screen.line(f"  {mark} {number:>{width}}) {info.session_id}{when}", title)


_UNITS: Final = (("min", 60, 60), ("h", 3_600, 24), ("days", 86_400, 14))
"""Each unit with its seconds, and the first number that is not shown in it."""


def _age(moment: str, now: datetime) -> str:
    """Return the time since a moment, in words. After two weeks it is the date. An unreadable moment is returned
    unchanged."""
    try:
        seconds = (now - datetime.fromisoformat(moment).astimezone(UTC)).total_seconds()
    except (ValueError, OverflowError):
        seconds = math.inf
    if seconds < 60:
        return "just now"
    for unit, length, most in _UNITS:
        if seconds < length * most:
            return f"{seconds // length:.0f} {unit} ago"
    return moment[:16].replace("T", " ")


def _meant(what: str, word: str, known: list[str]) -> str:
    """Return the id that equals `word` or begins with it. Raises UsageError."""
    found = [id for id in known if id == word] or [id for id in known if id.startswith(word)]
    if len(found) != 1:
        raise UsageError(f"there is no {what} {word!r}; known: {', '.join(known)}")
    return found[0]


def _values(option: SessionConfigOption) -> list[SessionConfigSelectOption]:
    if not isinstance(option, SessionConfigSelect):
        return []
    values: list[SessionConfigSelectOption] = []
    for each in option.options:
        values += each.options if isinstance(each, SessionConfigSelectGroup) else [each]
    return values


def _value(option: SessionConfigOption, word: str) -> str | bool:
    if isinstance(option, SessionConfigBoolean):
        if word.lower() not in _TRUE:
            raise UsageError(f"{word!r} is not a value of this option; use on or off")
        return _TRUE[word.lower()]
    return _meant("value", word, [value.value for value in _values(option)])

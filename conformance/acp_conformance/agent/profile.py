"""The prompts of one agent: profiles map the situations that cases need to prompt texts.

    name = "my agent"

    [setup]                               # all optional
    cwd_files = {"a.txt" = "hello"}       # written into the working directory of each session
    env = {MY_AGENT_MODEL = "scripted"}   # for the agent's process
    mode = "code"                         # session/set_mode after each session/new
    options = {model = "scripted"}        # session/set_config_option after each session/new
    authenticate = "api-key"              # the method of `authenticate` after each initialize
    answers = {color = "red"}             # the user's input for the forms of elicitations

    [situations.read]
    prompt = "read {cwd}/a.txt"           # `{cwd}` is the working directory of the session
    mode = "auto"                         # instead of the mode of [setup]
    hold = ["terminal/wait_for_exit"]     # methods of the client that stay unanswered meanwhile
    says = "hello"                        # the whole text of the turn, if it is constant

This module only reads files. The cases give situations their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_conformance.core import tables
from acp_conformance.core.schema import methods
from acp_conformance.core.tables import ProfileError

INCLUDED = Path(__file__).parent / "profiles"

SITUATIONS: Mapping[str, str] = {
    "quick": "ends at once",
    "stream": "streams several chunks, then ends",
    "hang": "sends at least one chunk, then runs until it is cancelled",
    "stubborn": "sends at least one chunk, then runs until it is cancelled, and is slow to stop",
    "permission": "requests permission and waits for the response",
    "read": "reads a file through the client",
    "write": "writes a file through the client",
    "terminal": "runs a command in a terminal of the client",
    "nested": "has one request to the client in flight until it is cancelled",
    "tool": "reports tool calls",
    "plan": "reports a plan",
    "fails": "ends with an error",
    "reports": "reports its other features: its usage, a title, another mode or option",
    "cancellable": "runs a tool call that can be cancelled by itself, until it is cancelled (version 2)",
    "shell": "runs a command in its own terminal, until it is cancelled (version 2)",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """How to bring the agent into one situation."""

    prompt: str
    mode: str | None = None
    hold: tuple[str, ...] = ()
    """Methods that the client leaves unanswered in it."""
    says: str | None = None
    """The whole text of the turn, if that is always the same."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts about one agent. With an empty profile the cases without situations run."""

    name: str = ""
    situations: Mapping[str, Situation] = field(default_factory=dict)
    cwd_files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Values of config options, set in each session."""
    authenticate: str | None = None
    """The way to log in, if sessions require it."""
    answers: Mapping[str, Any] | None = None
    """The user's input for forms, by the names of their fields; without it the client shows no forms."""


def load(name: str) -> Profile:
    """Return the profile of a file, or the included profile of that name.

    Raises:
        ProfileError: The profile does not exist or is malformed; the text names the place.
    """
    data, where = tables.document(name, INCLUDED)
    return parse(data, where=where)


def parse(data: Mapping[str, Any], *, where: str = "profile") -> Profile:
    """Return the profile that a TOML document describes.

    Raises:
        ProfileError: A key that does not exist, or a value of another type.
    """
    top = tables.read(data, {"name": tables.text, "setup": tables.table, "situations": tables.table}, where)
    keys = {
        "cwd_files": _files,
        "env": tables.strings,
        "mode": tables.text,
        "options": tables.strings,
        "authenticate": tables.text,
        "answers": tables.table,
    }
    setup = tables.read(top.get("setup", {}), keys, f"{where}: [setup]")
    situations: dict[str, Situation] = {}
    for name, entry in top.get("situations", {}).items():
        here = f"{where}: [situations.{name}]"
        if name not in SITUATIONS:
            raise ProfileError(f"{here}: no such situation; there are {', '.join(SITUATIONS)}")
        keys = {"prompt": tables.text, "mode": tables.text, "hold": _methods, "says": tables.text}
        values = tables.read(tables.table(entry, here), keys, here)
        if not values.get("prompt"):
            raise ProfileError(f"{here}: no prompt")
        situations[name] = Situation(**values)
    return Profile(name=top.get("name", ""), situations=situations, **setup)


def _files(value: Any, where: str) -> Mapping[str, str]:
    files = tables.strings(value, where)
    for file in files:
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise ProfileError(f"{where}: {file!r} is not below the working directory")
    return files


def _methods(value: Any, where: str) -> tuple[str, ...]:
    for name in (names := tables.texts(value, where)):
        known = methods().get(name)
        if known is None or known["receiver"] != "client" or known["kind"] != "request":
            raise ProfileError(f"{where}: {name!r} is not a request to a client")
    return names

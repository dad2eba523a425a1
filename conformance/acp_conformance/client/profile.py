"""Describes the user's input to one client: the lines to type, the signals to send, the arguments to add.

    name = "my client"
    arguments = ["--plain"]            # added to the command
    env = {MY_CLIENT_CONFIG = "none"}  # added to the environment
    stdin = ["/quiet"]                 # lines typed at the start

    [situations.prompt]                # makes the client prompt; without it the client prompts by itself
    stdin = ["hello"]

    [situations.again]                 # makes it prompt once more, after a prompt that has ended
    stdin = ["go on"]

    [situations.cancel]                # the user stops the turn that is running
    signal = "SIGINT"

    [situations.approve]               # the user approves a permission request
    stdin = ["{number}"]

    [situations.reject]
    stdin = ["{number}"]

    [situations.leave]                 # without it the client's input is closed
    stdin = ["/exit"]

A situation may have `stdin` (lines to type) and `signal` (sent to the client's process group, as by a terminal). Its
`arguments` are added to the command in cases that need the situation. `automatic = true` says that the client does this
by itself. `closes = true` says that the client's input is closed after the lines. In lines for `approve` and `reject`,
`{number}` is the number of the right option, from 1, `{option}` its id and `{name}` its name.

This module only reads files. The cases give situations their meaning.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_conformance.core import tables
from acp_conformance.core.tables import ProfileError

INCLUDED = Path(__file__).parent / "profiles"

SITUATIONS: Mapping[str, str] = {
    "prompt": "the client sends a prompt",
    "again": "the user types a second prompt, when the first has ended or while it runs",
    "cancel": "the user stops the turn that is running",
    "approve": "the user approves a permission request",
    "reject": "the user rejects a permission request",
    "leave": "the user leaves",
    "resume": "version 2: the user resumes an earlier session",
}


@dataclass(frozen=True, slots=True)
class Action:
    """The user's input in one situation."""

    stdin: Sequence[str] = ()
    signal: signal.Signals | None = None
    arguments: Sequence[str] = ()
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts about one client. A client with an empty profile prompts by itself, and ends when its input is
    closed."""

    name: str = ""
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: Sequence[str] = ()
    situations: Mapping[str, Action] = field(default_factory=lambda: {"prompt": Action()})

    @property
    def types(self) -> bool:
        """Whether the profile has lines to type."""
        return bool(self.stdin) or any(action.stdin for action in self.situations.values())


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
    keys = {
        "name": tables.text,
        "arguments": tables.texts,
        "env": tables.strings,
        "stdin": tables.texts,
        "situations": tables.table,
    }
    values = tables.read(data, keys, where)
    situations = {"prompt": Action()}
    for name, entry in values.pop("situations", {}).items():
        here = f"{where}: [situations.{name}]"
        if name not in SITUATIONS:
            raise ProfileError(f"{here}: no such situation; there are {', '.join(SITUATIONS)}")
        situations[name] = _action(tables.table(entry, here), here)
    return Profile(situations=situations, **values)


def _action(data: Mapping[str, Any], where: str) -> Action:
    keys = {
        "stdin": tables.texts,
        "signal": _signal,
        "arguments": tables.texts,
        "closes": tables.flag,
        "automatic": tables.flag,
    }
    values = tables.read(data, keys, where)
    if values.pop("automatic", False):
        if values.keys() - {"arguments"}:
            raise ProfileError(f"{where}: what is automatic is neither typed nor signalled")
    elif not values:
        raise ProfileError(f"{where}: nothing is done; say automatic = true if nothing has to be")
    return Action(**values)


def _signal(value: Any, where: str) -> signal.Signals:
    try:
        return signal.Signals[tables.text(value, where)]
    except KeyError:
        raise ProfileError(f"{where}: no signal {value!r}") from None

"""How the user of one client is played: what to type, which signal to send, which arguments to add.

    name = "my client"
    arguments = ["--plain"]            # added to the command
    env = {MY_CLIENT_CONFIG = "none"}  # added to the environment
    stdin = ["/quiet"]                 # lines typed at the start

    [situations.prompt]                # makes the client prompt; without it the client prompts by itself
    stdin = ["hello"]

    [situations.cancel]                # the user stops the turn that is running
    signal = "SIGINT"

    [situations.approve]               # the user says yes to a permission request
    stdin = ["{number}"]

    [situations.reject]
    stdin = ["{number}"]

    [situations.leave]                 # without it the client's input is closed
    stdin = ["/exit"]

Each situation is any of `stdin` (lines, typed when it is time), `signal` (sent to the client's process group, as a
terminal does it), `arguments` (added to the command of the cases that need the situation), `automatic = true` (the
client does it by itself), `closes = true` (its input is closed after the lines). In lines for `approve` and `reject`,
`{number}` is the number of the option that is meant, from 1, `{option}` its id and `{name}` its name.

Reads files only; what a situation means for a case is the case's own business.
"""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.profile import ProfileError

INCLUDED = Path(__file__).parent / "profiles"

SITUATIONS: Mapping[str, str] = {
    "prompt": "the client sends a prompt",
    "cancel": "the user stops the turn that is running",
    "approve": "the user says yes to a permission request",
    "reject": "the user says no to a permission request",
    "leave": "the user leaves",
}


@dataclass(frozen=True, slots=True)
class Action:
    """What the user does in one situation."""

    stdin: Sequence[str] = ()
    signal: signal.Signals | None = None
    arguments: Sequence[str] = ()
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one client. The empty profile: it prompts by itself, and leaves when its input is closed."""

    name: str = ""
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: Sequence[str] = ()
    situations: Mapping[str, Action] = field(default_factory=lambda: {"prompt": Action()})

    @property
    def types(self) -> bool:
        """Whether anything is ever typed."""
        return bool(self.stdin) or any(action.stdin for action in self.situations.values())


def included() -> list[str]:
    """The names of the profiles that come with the suite."""
    return sorted(path.stem for path in INCLUDED.glob("*.toml"))


def load(name: str) -> Profile:
    """The profile of a file, or the included one of that name.

    Raises:
        ProfileError: There is none, or it is malformed; the text says where.
    """
    path = Path(name)
    if not path.is_file():
        path = INCLUDED / f"{name}.toml"
    if not path.is_file():
        raise ProfileError(
            f"no profile {name!r}: not a file, and not one of {', '.join(included()) or 'none included'}"
        )
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path}: {error}") from error
    return parse(data, where=str(path))


def parse(data: Mapping[str, Any], *, where: str = "profile") -> Profile:
    """The profile that a TOML document describes.

    Raises:
        ProfileError: A key that does not exist, or a value of another type.
    """
    keys = {"name": _text, "arguments": _texts, "env": _environment, "stdin": _texts, "situations": _table}
    values = _read(data, keys, where)
    situations = {"prompt": Action()}
    for name, entry in values.pop("situations", {}).items():
        here = f"{where}: [situations.{name}]"
        if name not in SITUATIONS:
            raise ProfileError(f"{here}: no such situation; there are {', '.join(SITUATIONS)}")
        situations[name] = _action(_table(entry, here), here)
    return Profile(situations=situations, **values)


def _action(data: Mapping[str, Any], where: str) -> Action:
    keys = {"stdin": _texts, "signal": _signal, "arguments": _texts, "closes": _flag, "automatic": _flag}
    values = _read(data, keys, where)
    if values.pop("automatic", False):
        if values.keys() - {"arguments"}:
            raise ProfileError(f"{where}: what is automatic is neither typed nor signalled")
    elif not values:
        raise ProfileError(f"{where}: nothing is done; say automatic = true if nothing has to be")
    return Action(**values)


def _read(data: Mapping[str, Any], keys: Mapping[str, Any], where: str) -> dict[str, Any]:
    for key in data:
        if key not in keys:
            raise ProfileError(f"{where}: unknown key {key!r}; known are {', '.join(keys)}")
    return {key: keys[key](value, f"{where}: {key}") for key, value in data.items()}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ProfileError(f"{where} must be a string")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ProfileError(f"{where} must be true or false")
    return value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ProfileError(f"{where} must be a list of strings")
    return tuple(_text(each, where) for each in value)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ProfileError(f"{where} must be a table")
    return value


def _environment(value: Any, where: str) -> Mapping[str, str]:
    return {key: _text(each, f"{where}: {key}") for key, each in _table(value, where).items()}


def _signal(value: Any, where: str) -> signal.Signals:
    try:
        return signal.Signals[_text(value, where)]
    except KeyError:
        raise ProfileError(f"{where}: no signal {value!r}") from None

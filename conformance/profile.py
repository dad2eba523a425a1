"""What a prompt makes an agent do: profiles map the situations that cases need to prompt texts for one agent.

    name = "my agent"

    [setup]                               # all optional
    cwd_files = {"a.txt" = "hello"}       # written into the working directory of each session
    env = {MY_AGENT_MODEL = "scripted"}   # for the agent's process
    mode = "code"                         # session/set_mode after each session/new

    [situations.read]
    prompt = "read {cwd}/a.txt"           # `{cwd}` is the working directory of the session
    mode = "auto"                         # instead of the mode of [setup]
    hold = ["terminal/wait_for_exit"]     # methods of the client that are left unanswered meanwhile
    says = "hello"                        # the whole text of the turn, where it is always the same

Reads files only; what a situation means for a case is the case's own business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .schema import methods

_KINDS: Mapping[type, str] = {str: "a string", dict: "a table", list: "a list"}

INCLUDED = Path(__file__).parent / "profiles"

SITUATIONS: Mapping[str, str] = {
    "quick": "ends at once",
    "stream": "streams several chunks, then ends",
    "hang": "says at least one chunk, then runs until it is cancelled",
    "stubborn": "says at least one chunk, then runs until it is cancelled, and is slow to stop",
    "permission": "asks for permission and waits for the answer",
    "read": "reads a file through the client",
    "write": "writes a file through the client",
    "terminal": "runs a command in a terminal of the client",
    "nested": "has one request to the client in flight until it is cancelled",
    "tool": "reports tool calls",
    "plan": "reports a plan",
    "fails": "fails: the turn ends with an error",
}


class ProfileError(Exception):
    """A profile that is not there, or says something that no profile says."""


@dataclass(frozen=True, slots=True)
class Situation:
    """How to bring the agent into one situation."""

    prompt: str
    mode: str | None = None
    hold: tuple[str, ...] = ()
    """Methods that the client leaves unanswered in it."""
    says: str | None = None
    """The whole text that the turn says, where that is always the same."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one agent. The empty profile knows nothing, and lets the generic cases run."""

    name: str = ""
    situations: Mapping[str, Situation] = field(default_factory=dict)
    cwd_files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None


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
    top = _table(data, where, {"name": str, "setup": dict, "situations": dict})
    setup = _table(top.get("setup", {}), f"{where}: [setup]", {"cwd_files": dict, "env": dict, "mode": str})
    for key in ("cwd_files", "env"):
        _strings(setup.get(key, {}), f"{where}: [setup] {key}")
    for file in setup.get("cwd_files", {}):
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise ProfileError(f"{where}: [setup] cwd_files: {file!r} is not below the working directory")
    situations: dict[str, Situation] = {}
    for name, entry in top.get("situations", {}).items():
        here = f"{where}: [situations.{name}]"
        if name not in SITUATIONS:
            raise ProfileError(f"{here}: no such situation; there are {', '.join(SITUATIONS)}")
        if not isinstance(entry, Mapping):
            raise ProfileError(f"{here}: not a table")
        values = _table(entry, here, {"prompt": str, "mode": str, "hold": list, "says": str})
        if not values.get("prompt"):
            raise ProfileError(f"{here}: no prompt")
        situations[name] = Situation(
            values["prompt"], values.get("mode"), _methods(values.get("hold", []), here), values.get("says")
        )
    return Profile(
        name=top.get("name", ""),
        situations=situations,
        cwd_files=setup.get("cwd_files", {}),
        env=setup.get("env", {}),
        mode=setup.get("mode"),
    )


def _table(data: Mapping[str, Any], where: str, keys: Mapping[str, type]) -> Mapping[str, Any]:
    for key, value in data.items():
        if key not in keys:
            raise ProfileError(f"{where}: unknown key {key!r}; known are {', '.join(keys)}")
        if not isinstance(value, keys[key]):
            raise ProfileError(f"{where}: {key} must be {_KINDS[keys[key]]}")
    return data


def _methods(names: Sequence[object], where: str) -> tuple[str, ...]:
    for name in names:
        known = methods().get(name) if isinstance(name, str) else None
        if known is None or known["receiver"] != "client" or known["kind"] != "request":
            raise ProfileError(f"{where}: hold: {name!r} is no request to a client")
    return tuple(str(name) for name in names)


def _strings(data: Mapping[str, Any], where: str) -> None:
    for key, value in data.items():
        if not isinstance(value, str):
            raise ProfileError(f"{where}: {key!r} must be a string")

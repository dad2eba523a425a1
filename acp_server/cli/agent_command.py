"""Which process an agent is, from what the user calls it: a file, a module's attribute, or a command.

It starts nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acp_server.cli.options import COMMAND
from acp_server.errors import UsageError

_SERVE: Final = COMMAND
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")
_OURS: Final = re.compile(r"^\s*(?:from|import)\s+acp_server\b", re.MULTILINE)
_PROGRAM: Final = re.compile(r"^if __name__ ==", re.MULTILINE)
_EXPECTED: Final = "expected FILE.py, module:attribute or a command"


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """How to start an agent from any folder."""

    words: Sequence[str]
    name: str
    """What the user calls it."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """To be added to our own environment."""

    @property
    def is_served_here(self) -> bool:
        """Whether `acp-server serve` serves it, rather than a program of its own."""
        return tuple(self.words[: len(_SERVE)]) == _SERVE


def agent_command(words: Sequence[str]) -> AgentCommand:
    """The agent that `words` mean; without any, the built-in one.

    The first word is a Python file (with `:attribute` or without), a module (`module:attribute`), or else a program
    that is found as a shell finds it. Paths are those of the present folder, wherever the agent is started. What stands
    behind a file or a module are options of `acp-server serve`, or the program's own. Raises UsageError if there is no
    such thing.
    """
    if not words:
        return AgentCommand(COMMAND, "the built-in agent")
    first, *rest = words
    file, attribute = _file(first)
    if file is not None:
        return _python_file(file, attribute, rest, first)
    if (program := shutil.which(first)) is not None:
        # A path is one of the folder that the user is in; a name is found again.
        return AgentCommand([os.path.abspath(program) if os.path.dirname(first) else first, *rest], first)
    if _MODULE.fullmatch(first) and (":" in first or _is_module(first)):
        return AgentCommand([*_SERVE, first, *rest], first, _with_this_folder())
    raise UsageError(f"{first} cannot be started: {_why_not(first)}")


def _file(word: str) -> tuple[Path | None, str | None]:
    if word.endswith(".py"):
        return Path(word), None
    place, colon, attribute = word.rpartition(":")
    if colon and place.endswith(".py"):
        return Path(place), attribute
    return None, None


def _python_file(path: Path, attribute: str | None, rest: Sequence[str], name: str) -> AgentCommand:
    try:
        source = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    absolute = str(path.absolute())
    if attribute is None and not _OURS.search(source) and _PROGRAM.search(source):
        # A program of its own, written with another library.
        return AgentCommand([sys.executable, absolute, *rest], name)
    return AgentCommand([*_SERVE, f"{absolute}:{attribute}" if attribute else absolute, *rest], name)


def _is_module(name: str) -> bool:
    place = Path(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def _with_this_folder() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([os.getcwd(), *([before] if before else [])])}


def _why_not(word: str) -> str:
    path = Path(word)
    if path.is_dir():
        return "it is a folder"
    if path.is_file():
        return "it is a file that may not be executed"
    if os.path.dirname(word):
        return f"there is no such file ({_EXPECTED})"
    return f"there is no such program ({_EXPECTED})"

"""Finds the agent that a word of the user means. `load` returns an object to be served in this process, `agent_command`
a command that starts a process.

The word is a module or a Python file, with an attribute or without, an address, or else a command. No process is
started here.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Final

import acp_server
from acp_server.agent.serve import CapturedRun, Servable, capture_run
from acp_server.apps.cli.program import ProgramLoader, arguments_of, find, with_program
from acp_server.errors import UsageError
from acp_server.paths import here
from acp_server.signatures import signature_of

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

COMMAND: Final = (sys.executable, "-m", "acp_server", "serve")
"""The command that serves an agent in a separate process."""
CONNECT: Final = (sys.executable, "-m", "acp_server", "connect")
"""The command that connects to an agent on another machine."""
_ADDRESS: Final = ("http://", "https://", "ws://", "wss://", "unix:", "keep:")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")
_OURS: Final = re.compile(r"^[ \t]*(?:from|import)[ \t]+acp_server\b", re.MULTILINE)
_PROGRAM: Final = re.compile(r"^if __name__ ==", re.MULTILINE)
_EXPECTED: Final = "expected FILE.py, module:attribute or a command"
_FOLDER: Final = "is a folder, which cannot be served: expected FILE.py or module:attribute"


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """How to start an agent from any folder."""

    words: Sequence[str]
    name: str
    """The name that the user has given."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables besides the environment of this process."""

    @property
    def is_served_here(self) -> bool:
        """Whether `acp-server serve` serves it. Otherwise it is a program by itself."""
        return tuple(self.words[: len(COMMAND)]) == COMMAND


def agent_command(words: Sequence[str]) -> AgentCommand:
    """The agent that `words` mean. Without words, it is the built-in agent.

    The first word is a Python file (with `:attribute` or without), a module (`module:attribute`), an address, or a
    program, which is found as a shell finds it. Paths are relative to the current folder, wherever the agent is
    started. The words after a file or a module are options of `acp-server serve`, after an address options of
    `acp-server connect`, and otherwise arguments of the program. Raises UsageError if there is no such thing.
    """
    if not words:
        return AgentCommand(COMMAND, "the built-in agent")
    import shutil  # Not at the top: it takes its time, and who serves an agent has no use for it.

    first, *rest = words
    if not first:
        raise UsageError(f"the name of the agent is empty: {_EXPECTED}")
    if is_address(first):
        return AgentCommand([*CONNECT, *rest, "--", _absolute(first)], _without_secrets(first))
    file, attribute = _file(first)
    if file is not None:
        return _python_file(file, attribute, rest, first)
    if (program := shutil.which(first)) is not None:
        # A path is relative to the user's folder. A bare name is searched when the program is started.
        return AgentCommand([os.path.abspath(program) if os.path.dirname(first) else first, *rest], first)
    if _MODULE.fullmatch(first) and (":" in first or _is_module(first)):
        return AgentCommand([*COMMAND, first, *rest], first, python_path(os.getcwd()))
    raise not_started(first, _why_not(first))


def is_address(word: str) -> bool:
    """Whether a word means an agent on another machine, or an agent that `acp-server keep` runs."""
    return word.startswith(_ADDRESS)


def not_started(name: str, why: str | None) -> UsageError:
    """Return the error for an agent whose program does not exist or cannot be run."""
    return UsageError(f"{name} cannot be started: {why}")


def _absolute(address: str) -> str:
    path = address.removeprefix("unix:")
    return address if path == address or not path else f"unix:{os.path.abspath(path)}"


def _without_secrets(address: str) -> str:
    """Return an address for a message, without its path and its query, which may be secrets."""
    scheme, slashes, rest = address.partition("//")
    return f"{scheme}{slashes}{rest.partition('/')[0].rpartition('@')[2]}" if slashes else address


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
        raise UsageError(f"{path.absolute()} cannot be read: {error.strerror}") from None
    absolute = str(path.absolute())
    if attribute is None and not _OURS.search(source) and _PROGRAM.search(source):
        # A separate program, written with another library.
        return AgentCommand([sys.executable, absolute, *rest], name)
    return AgentCommand([*COMMAND, f"{absolute}:{attribute}" if attribute else absolute, *rest], name)


def _is_module(name: str) -> bool:
    place = Path(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def python_path(*folders: str) -> dict[str, str]:
    """Return the environment variable PYTHONPATH with these folders before its present folders."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*folders, *([before] if before else [])])}


def _why_not(word: str) -> str:
    path = Path(word)
    if path.is_dir():
        return "it is a folder"
    if path.is_file():
        return "it is a file that may not be executed"
    if os.path.dirname(word):
        return f"there is no such file ({_EXPECTED})"
    return f"there is no such program ({_EXPECTED})"


_ATTRIBUTE = "agent"
_PACKAGE = os.path.dirname(os.path.abspath(acp_server.__file__)) + os.sep


def load(target: str) -> tuple[Servable, dict[str, Any]]:
    """The agent of `module:attribute` or `file.py:attribute`, and its options (`CapturedRun.options`).

    A program that calls `run`, also under `if __name__ == "__main__":`, is loaded up to that call. The agent of the
    call is served if no attribute is named. Raises UsageError, with the reason in one line.
    """
    place, attribute = _split(target)
    folder = here()
    if folder is not None:
        sys.path.insert(0, folder)
    elif not os.path.isabs(place):
        raise UsageError(f"cannot find {place}, because the current folder has been removed")
    with capture_run() as noted:
        module = _from_file(Path(place), noted) if _is_file(place) else _from_name(place, noted)
    if attribute is None and noted.agent is not None:
        return noted.agent, noted.options
    attribute = attribute or _ATTRIBUTE
    agent, options = _servable(_attribute(module, place, attribute, noted), f"{place}:{attribute}")
    return agent, noted.options if noted.agent is agent else options


def place_of(target: str) -> Path | None:
    """Return the file that the target names; None for a module."""
    place, _ = _split(target)
    return Path(place) if _is_file(place) else None


def _split(target: str) -> tuple[str, str | None]:
    place, colon, attribute = target.rpartition(":")
    # The colon after a drive's letter is not a separator.
    if not colon or "/" in attribute or "\\" in attribute:
        return target, None
    return place, attribute or None


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place


def _from_name(name: str, noted: CapturedRun) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is neither a module nor a file whose name ends in .py")
    try:
        module = _imported(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {error.name!r}, here or among the installed packages") from None
        raise _failed(name, error) from None
    except (Exception, SystemExit, BaseExceptionGroup) as error:
        if not noted.is_stop(error):
            raise _failed(name, error) from None
        # Python drops the module if another module imported it.
        return sys.modules.get(name) or ModuleType(name)
    spec = module.__spec__
    if spec is not None and spec.origin is None and spec.submodule_search_locations is not None:
        # Python accepts any folder as a part of a namespace package.
        raise UsageError(f"{name} {_FOLDER}")
    return module


def _imported(name: str) -> ModuleType:
    """Import the module, run as a program (`acp_server.apps.cli.program`), and return it. If it stops at `run`, it
    stays imported."""
    if name in sys.modules or (spec := find(name)) is None or not isinstance(spec.loader, ProgramLoader):
        return importlib.import_module(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with arguments_of(spec.loader.path):
            spec.loader.exec_module(module)
    except Exception:
        del sys.modules[name]
        raise
    return module


def _from_file(path: Path, noted: CapturedRun) -> ModuleType:
    if path.is_dir():
        raise UsageError(f"{path} {_FOLDER}")
    if not path.is_file():
        raise UsageError(f"there is no file {path.absolute()}")
    # As `python path/to/file.py` does it, so that modules beside the file can be imported.
    sys.path.insert(0, str(path.resolve().parent))
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_served"
    spec = with_program(importlib.util.spec_from_file_location(name, path))
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with arguments_of(str(path)):
            spec.loader.exec_module(module)
    except (Exception, SystemExit, BaseExceptionGroup) as error:
        if not noted.is_stop(error):
            raise _failed(str(path), error) from None
    return module


def _attribute(module: ModuleType, place: str, attribute: str, noted: CapturedRun) -> Any:
    value: Any = module
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            if noted.agent is not None:
                raise UsageError(
                    f"{place} calls run() before it defines {attribute!r}; "
                    'put the call of run() under `if __name__ == "__main__":`'
                ) from None
            agents = [key for key, other in vars(module).items() if _is_agent(other)]
            hint = f"; did you mean {place}:{agents[0]}?" if agents else ""
            raise UsageError(f"{place} has no attribute {name!r}{hint}") from None
    return value


def _is_agent(value: object) -> bool:
    # A class has the methods as well, but no instance to call them on.
    return isinstance(value, Servable) and not isinstance(value, type)


def _servable(value: Any, name: str) -> tuple[Servable, dict[str, Any]]:
    options: dict[str, Any] = {}
    if not _is_agent(value) and callable(value):
        if inspect.iscoroutinefunction(value):
            raise UsageError(f"{name} is an async function; expected an agent or a function that returns one")
        try:
            signature_of(value).bind()
        except TypeError:
            raise UsageError(f"{name} is neither an agent nor a function without arguments that returns one") from None
        with capture_run() as noted:
            try:
                value = value()
            except (Exception, SystemExit, BaseExceptionGroup) as error:
                if not noted.is_stop(error):
                    raise _failed(f"{name}()", error) from None
                value, options = noted.agent, noted.options
        name += "()"
    if not _is_agent(value):
        raise UsageError(f"{name} is of type {type(value).__name__}; expected an agent")
    return value, options


def _failed(what: str, error: BaseException) -> UsageError:
    logger.debug("%s failed", what, exc_info=error)
    said = str(error.msg if isinstance(error, SyntaxError) else error)
    return UsageError(f"{what} failed: {type(error).__name__}: {' '.join(said.split())}{_where(error)}")


def _where(error: BaseException) -> str:
    """Return the place in the user's code where the error was raised, which is the line that was executed last, or the
    line with the syntax error. If that is in another file, the line in the file of the agent that led there follows.
    The result is empty if no line is in the user's code."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in frames if not file.startswith(("<", _PACKAGE)) and not _is_library(file)]
    if isinstance(error, SyntaxError) and error.filename and os.path.isfile(error.filename):
        own.append((error.filename, error.lineno or 1))
    if not own:
        return ""
    last_of_agent = [(file, line) for file, line in own if file == own[0][0]][-1]
    places = [own[-1]] if own[-1][0] == own[0][0] else [own[-1], last_of_agent]
    return f" ({', from '.join(_place(file, line) for file, line in places)})"


def _place(file: str, line: int) -> str:
    folder = here()
    is_here = folder is not None and file.startswith(folder + os.sep)
    return f"{os.path.relpath(file) if is_here else file}, line {line}"


def _is_library(file: str) -> bool:
    return any(file.startswith(sysconfig.get_path(name) + os.sep) for name in ("stdlib", "purelib", "platlib"))

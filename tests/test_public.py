"""What is public: applications take nothing else, and each type in a public signature can be imported from there.

A module is public if it has an `__all__`. That `docs/api.md` has each public name is held by `tests/docs/test_site.py`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CLI_TAKES = {
    "agent.log": "LogHandler LogStream UnblockedLog drain entry standard_error",
    "agent.process": "StandardIO",
    "agent.record": "LONGEST_LINE RecordedStream Recorder",
    "agent.serve": "CapturedRun capture_run run say_if_terminal",
    "agent.signals": "Signals own_signals",
    "agent.until_signal": "run_until_signal",
    "errors": "AUTH_REQUIRED INTERNAL_ERROR REQUEST_CANCELLED UnsupportedProtocolVersion",
    "http.tls": "server_context",
    "paths": "here open_private",
    "processes": "ProcessGroup own_group",
    "remote.address": "is_websocket",
    "remote.bridge": "Bridge",
    "remote.client": "RemoteStream stream_to",
    "remote.keeper": "KeptAgent until_idle",
    "safe_text": "UNSAFE meant",
    "schema": "export",
    "session.hunks": "hunks",
    "session.settings": "choices",
    "store": "lax_rights",
    "store.sqlite_store": "StoreBusy",
    "wire": "codec",
    "wire.framing": "Line LineFramer TooLong",
    "wire.messages": "Notification Request Response classify is_request_id",
}
"""What `cli` takes of the runtime that is not public, as the launcher that belongs to it. The list does not grow."""

MADE_BY_THE_RUNTIME = (
    *("Call", "Client", "Connection", "Initialization", "Session", "Subagent", "Terminal", "ToolContext", "Turn"),
    *("RemoteAgent", "RemoteSession", "RemoteSubagent", "RemoteTurn", "MemoryStream", "Settings", "Compaction"),
    *("Step", "ChildProcess", "Peer"),
)
"""Classes whose objects authors get and do not make: what they are made of is not for authors."""

INSIDE = {
    "Call": "Node Request",
    "ChildProcess": "ProcessStream",
    "Connection": "Endpoint Node Watchdog Writer",
    "Peer": "Endpoint Node Watchdog Writer",
    "RemoteAgent": "Subagents",
    "Session": "LiveTurn Updates",
    "TurnRecord": "Transcript",
    "Unfinished": "WebSocketExchange",
}
"""Types of attributes of these classes that the runtime alone uses, and no page names. The list does not grow."""

VARIABLES = ("TypeVar", "ParamSpec")


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


@cache
def offered() -> dict[str, Any]:
    """Each public name, with its module, and what it means."""
    found: dict[str, Any] = {}
    for path in sorted((ROOT / "acp_server").rglob("*.py")):
        if "__all__" in path.read_text("utf-8"):
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
            found |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    return found


# Applications


@pytest.mark.parametrize("room", ["apps/gateway", "apps/coder", "apps/assistant", "integrations"])
def test_applications_take_public_names_alone(room: str) -> None:
    assert _taken(room) == {}


def test_the_command_line_takes_no_more_of_the_runtime_than_is_listed() -> None:
    assert _taken("apps/cli") == {module: set(names.split()) for module, names in CLI_TAKES.items()}


def _taken(room: str) -> dict[str, set[str]]:
    """What the files of a room import of the package that no public module offers, by module. Inside of a room all is
    its own, and `cli` starts the other applications."""
    own = ("acp_server.apps.",) if room == "apps/cli" else (f"acp_server.{room.replace('/', '.')}.",)
    public = [(name.rpartition(".")[2], value) for name, value in offered().items()]
    taken: dict[str, set[str]] = {}
    for path in sorted((ROOT / "acp_server" / room).rglob("*.py")):
        for node in ast.walk(_tree(path.as_posix())):
            if isinstance(node, ast.Import):
                assert not [alias.name for alias in node.names if alias.name.startswith("acp_server.")], path
            if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "acp_server":
                continue
            module = str(node.module)
            if f"{module}.".startswith(own):
                continue
            home = import_module(module)
            allowed = {"__version__", *getattr(home, "__all__", ())}
            if room == "apps/cli":  # It takes public names from where they are, for its start has no time for more.
                allowed |= {name for name, value in public if getattr(home, name, None) is value}
            if others := {alias.name for alias in node.names} - allowed:
                taken.setdefault(module.removeprefix("acp_server."), set()).update(others)
    return taken


# Signatures


def test_each_type_in_a_public_signature_isoffered() -> None:
    known = {id(value) for value in offered().values()}
    hidden: set[str] = set()
    for full, value in offered().items():
        if full.startswith("acp_server.schema.") or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        name = full.rpartition(".")[2]
        inside = INSIDE.get(name, "").split()
        for each in inspect.getmro(value) if inspect.isclass(value) else [inspect.unwrap(value)]:
            if each.__module__.startswith("acp_server."):
                hidden |= {
                    f"{full}: {module}.{word}"
                    for module, word, meant in _named(each, name in MADE_BY_THE_RUNTIME)
                    if id(meant) not in known and word not in inside and type(meant).__name__ not in VARIABLES
                }
    assert not hidden, "\n".join(sorted(hidden))


def test_what_is_said_to_be_inside_of_a_class_is_used_there() -> None:
    for name, words in INSIDE.items():
        (value,) = {id(value): value for full, value in offered().items() if full.endswith(f".{name}")}.values()
        ours = [each for each in inspect.getmro(value) if each.__module__.startswith("acp_server.")]
        named = {word for each in ours for _, word, _ in _named(each, True)}
        assert set(words.split()) <= named, name


def _named(value: Any, made_by_the_runtime: bool) -> Iterator[tuple[str, str, Any]]:
    """The names of the package in the annotations of a class or a function: module, name, and what it means."""
    module = sys.modules[value.__module__]
    assert module.__file__
    tree = _tree(module.__file__)
    homes = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        homes.update((name, (module.__name__, name)) for name in _defined(node))
    for node in tree.body:
        if getattr(node, "name", None) == value.__name__:
            for annotation in _annotations(node, made_by_the_runtime):
                for word in _words(annotation):
                    home, name = homes.get(word, ("", ""))
                    if home.startswith("acp_server"):
                        yield home, name, getattr(import_module(home), name)


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _annotations(node: ast.AST, made_by_the_runtime: bool) -> Iterator[ast.expr]:
    match node:
        case ast.ClassDef():
            for each in node.body:
                yield from _of_member(each, made_by_the_runtime)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            of = node.args
            given = (*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg)
            yield from (each.annotation for each in given if each is not None and each.annotation is not None)
            if node.returns is not None:
                yield node.returns
        case _:
            pass


def _of_member(node: ast.stmt, made_by_the_runtime: bool) -> Iterator[ast.expr]:
    match node:
        case ast.FunctionDef(name="__init__"):
            if not made_by_the_runtime:
                yield from _annotations(node, False)
            for each in ast.walk(node):
                match each:
                    case ast.AnnAssign(target=ast.Attribute(attr=name)) if not name.startswith("_"):
                        yield each.annotation
                    case _:
                        pass
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if not re.match(r"_(?!_(a?iter|a?enter|call)__)", node.name):
                yield from _annotations(node, False)
        case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
            yield node.annotation
        case _:
            pass


def _words(annotation: ast.AST) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from _words(ast.parse(node.value, mode="eval"))
            except SyntaxError:
                continue

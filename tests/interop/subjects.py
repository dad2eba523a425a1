"""The agents that the clients drive, each as a command, and what holds for its process once a client has left it.

A client starts a process that stands for a fork, see `tests.prefork`, in a block of `started_by_forks`.
"""

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.prefork import RUNTIME, Prefork, prefork

HERE = Path(__file__).parent
COMMAND = str(Path(sys.executable).with_name("acp-server"))
_MARK = "ACP_INTEROP_RUN"
_PATIENCE = 5.0


_OF_THE_WORKSPACE = (
    "acp_server.apps.cli.commands",
    "acp_server.apps.cli.store",
    "acp_server.store.sqlite_store",
    "acp_server.apps.coder",
    "glob",
    "platformdirs.unix",
    "sqlite3",
)
_forks: Prefork | None = None


@contextmanager
def started_by_forks() -> Iterator[None]:
    """In this block the commands are of forks of a process that has imported what our agents need."""
    global _forks
    with prefork(*RUNTIME, *_OF_THE_WORKSPACE) as _forks:
        yield
    _forks = None


def workspace(*options: str) -> tuple[str, ...]:
    """The agent that comes with the package."""
    command = (COMMAND, *options)
    return command if _forks is None else _forks.stand_in(command)


def nested(backend: str) -> tuple[str, ...]:
    """The agent of `agents/nested.py` on one of anyio's backends."""
    return _served("nested.py", backend)


def remembering(backend: str) -> tuple[str, ...]:
    """The agent of `agents/remembering.py` on one of anyio's backends."""
    return _served("remembering.py", backend)


def working(backend: str) -> tuple[str, ...]:
    """The agent of `agents/working.py` on one of anyio's backends."""
    return _served("working.py", backend)


def delegating(backend: str) -> tuple[str, ...]:
    """The agent of `agents/delegating.py` on one of anyio's backends."""
    return _served("delegating.py", backend)


def _served(file: str, backend: str) -> tuple[str, ...]:
    return workspace("serve", str(HERE / "agents" / file), "--backend", backend)


@contextmanager
def no_orphans() -> Iterator[dict[str, str]]:
    """Variables for a subject's environment; on leaving, no process that has inherited them is alive."""
    mark = uuid.uuid4().hex
    yield {_MARK: mark}
    _, left = psutil.wait_procs(_marked(mark), timeout=_PATIENCE)
    for process in left:
        process.kill()
    assert not left, f"still alive: {left}"


def assert_quiet(stderr: str) -> None:
    """A subject may log; it has no reason to show a traceback or a warning of Python's."""
    for sign in ("Traceback", "Warning:", "Task was destroyed", "never retrieved"):
        assert sign not in stderr, stderr


def _marked(mark: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found

"""A gateway as a process of its own, the official Python client for it, and a look at what its agents do."""

import os
import select
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import psutil

from tests.prefork import RUNTIME, Forked, Prefork, prefork

with warnings.catch_warnings(record=True):
    # A library that it uses warns of itself, whatever the filters say.
    import cozepy

BUSY = [sys.executable, str(Path(__file__).parent / "agents" / "busy.py")]
TOKEN = "pat_of_ada"
OTHER_TOKEN = "pat_of_bob"
TOKENS = f"ada {TOKEN}\nbob {OTHER_TOKEN}\nreader pat_of_reader getChat getConversation listMessage\n"
_IMPORTED = (
    "acp_server.apps.cli.commands",
    "acp_server.apps.gateway.server",
    "acp_server.apps.gateway.postgres_engine",
    *RUNTIME,
)
PATIENCE = 20.0
"""Seconds after which a test that waits has failed. None ever waits that long."""


class Ear:
    """A named pipe through which the agents tell what they do, one line each."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "ear")
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self.heard: list[str] = []

    def listen(self, seconds: float) -> None:
        """Take what is told within this time, until there is something."""
        if select.select([self._fd], [], [], seconds)[0]:
            *lines, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
            self.heard += [line.decode() for line in lines]

    def wait(self, line: str) -> None:
        """Until an agent has told this."""
        end = time.monotonic() + PATIENCE
        while line not in self.heard:
            assert time.monotonic() < end, (line, self.heard)
            self.listen(0.1)

    def after(self, line: str) -> str:
        """What was told right after this."""
        self.wait(line)
        index = self.heard.index(line) + 1
        end = time.monotonic() + PATIENCE
        while len(self.heard) <= index:
            assert time.monotonic() < end, self.heard
            self.listen(0.1)
        return self.heard[index]

    def clear(self) -> None:
        """Forget what was told."""
        while select.select([self._fd], [], [], 0)[0]:
            os.read(self._fd, 65536)
        self._rest = b""
        self.heard.clear()

    def close(self) -> None:
        os.close(self._fd)


class NoEar(Ear):
    """For agents that tell more than a test listens to."""

    def __init__(self) -> None:
        self.path = os.devnull
        self.heard = []

    def close(self) -> None:
        """There is nothing to close."""


class Server:
    """A gateway that listens."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked, url: str, log: Path, ear: Ear, drains: bool) -> None:
        self.process = process
        self.drains = drains
        self.killed = False
        self.url = url
        self.log = log
        self.ear = ear

    def agents(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []  # it has just ended

    def kill(self) -> None:
        """End it by force; its agents are gone with it."""
        agents = self.agents()
        self.killed = True
        self.process.kill()
        self.process.wait()
        gone(agents)


def gone(processes: list[psutil.Process]) -> None:
    """Fail if one of these does not end. One that only waits to be collected by its parent has ended."""
    end = time.monotonic() + PATIENCE
    while any(_runs(process) for process in processes):
        assert time.monotonic() < end, processes
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError):  # It may end while it is looked at.
        return False


_forks: Prefork | None = None
"""Starts gateways, if they need not be interpreters of their own."""


@contextmanager
def started_by_forks() -> Iterator[None]:
    """In this block gateways are forks of a process that has imported what they need, which is most of a short life."""
    global _forks
    with prefork(*_IMPORTED) as _forks:
        yield
    _forks = None


def _start(words: list[str], env: dict[str, str]) -> subprocess.Popen[bytes] | Forked:
    if _forks is None:
        return subprocess.Popen(words, stderr=subprocess.PIPE, env=env)
    with open(os.devnull, "r+b") as nothing:
        return _forks.popen(words, env=env, cwd=None, stdin=nothing.fileno(), stdout=nothing.fileno())


@contextmanager
def serving(
    folder: Path,
    *options: str,
    agent: list[str] | None = None,
    token_file: bool = True,
    env: dict[str, str] | None = None,
    errors: bool = False,
    ear: Ear | None = None,
    log: Path | None = None,
) -> Iterator[Server]:
    """Run a gateway; at the end see it leave properly, with nothing left of it and no fault in its log, or at least no
    traceback if `errors`."""
    folder.mkdir(parents=True, exist_ok=True)
    own_ear = None if ear is not None else Ear(folder)
    ear, log, tokens = ear or own_ear, log or folder / "log", folder / "tokens"
    assert ear is not None
    tokens.write_text(TOKENS)
    words = [sys.executable, "-m", "acp_server", "gateway", "--port", "0", "--drain", "0", "--log-file", str(log)]
    words += ["--agent", " ".join(agent or BUSY)] if agent != [] else []
    words += [*(["--token-file", str(tokens)] if token_file else []), *options]
    process = _start(words, {**os.environ, **(env or {}), "EAR": ear.path})
    assert process.stderr is not None
    try:
        line = process.stderr.readline().decode()
        assert line.startswith("Listening on http://"), line + process.stderr.read().decode()
        server = Server(process, line.split()[-1], log, ear, "drain" in options)
        yield server
        if not server.killed:
            agents = server.agents() if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
            gone(agents)
        text = log.read_text()
        assert "\nTraceback" not in text, text
        assert errors or " ERROR " not in text, text
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        if own_ear is not None:
            own_ear.close()


@contextmanager
def client(server: Server, token: str = TOKEN) -> Iterator[cozepy.Coze]:
    """The official client, unchanged but for its patience: it asks ten times a second whether a chat is over."""
    hurry = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 10))
    with patch("cozepy.chat.time", hurry), cozepy.SyncHTTPClient() as http:
        yield cozepy.Coze(auth=cozepy.TokenAuth(token), base_url=server.url, http_client=http)


def ask(text: str) -> dict[str, Any]:
    """What most calls for a chat need."""
    return {"bot_id": "1", "user_id": "u", "additional_messages": [cozepy.Message.build_user_question_text(text)]}


def until(condition: Any) -> Any:
    """Ask over and over, as clients of this API do, until there is something."""
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return result

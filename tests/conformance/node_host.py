"""Agents of one Node.js process, for the suite: each conversation has a fresh agent, without a fresh start of Node.js.

An agent's file is evaluated anew for each conversation, and what it imports is shared: the SDK, which takes most of
each start. What is about the process itself has to be tried on a real one.
"""

import itertools
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio

from acp_conformance.core.process import Process, Start, ended_with

NOT_IN_A_HOST = ("closing",)
"""The groups of cases that are about the process."""

_HOST = Path(__file__).parent / "real_world" / "node" / "host.js"


class Hosted(Process):
    """A conversation with an agent of the host."""

    def __init__(self, streams: Mapping[str, Any]) -> None:
        super().__init__(cast("subprocess.Popen[bytes]", SimpleNamespace(pid=0, **streams)))
        self._over = anyio.Event()

    @property
    def returncode(self) -> int | None:
        return 0 if self._over.is_set() else None

    async def drain_stderr(self) -> None:
        await super().drain_stderr()
        self._over.set()

    async def wait(self) -> int:
        await self._over.wait()
        return 0

    def signal(self, number: int) -> None:
        self.end_input()
        self.close_output()

    def company(self) -> list[int]:
        return []

    async def end(self, grace: float) -> None:
        self.end_input()
        with anyio.move_on_after(grace):
            await self.wait()
        self.kill()


@contextmanager
def node_host(folder: Path) -> Iterator[Start]:
    """Replaces `acp_conformance.core.process.spawn` for commands `node FILE`. `folder`: where its socket is."""
    path = str(folder / "host")
    numbers = itertools.count()

    def connect(number: int, half: str, file: str) -> Any:
        line = socket.socket(socket.AF_UNIX)
        line.connect(path)
        line.sendall(f"{number} {half} {file}\n".encode())
        return os.fdopen(line.detach(), "wb" if half == "input" else "rb", buffering=0)

    @asynccontextmanager
    async def start(
        command: Sequence[str], *, env: Mapping[str, str], grace: float = 1.0, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        number, (_, file) = next(numbers), command
        halves = {"stdin": "input", "stdout": "output", "stderr": "end"}
        process = Hosted({name: connect(number, half, file) for name, half in halves.items()})
        async with ended_with(process, grace):
            yield process

    words = ["node", str(_HOST), path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as host:
        assert host.stdout is not None
        assert host.stdin is not None
        try:
            assert host.stdout.readline() == b"listening\n"
            yield start
        finally:
            host.stdin.close()

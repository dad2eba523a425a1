"""For tests with real processes: hearing from them without guessing at times, and seeing that they are gone."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from acp_server.client import Patience, RemoteAgent, spawn_agent

PATIENCE = 15.0
"""Seconds after which a test that waits for a process has failed. None ever waits that long."""


class Ear:
    """A named pipe through which a process, which is given its `path`, tells the test where it is."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "ear")
        os.mkfifo(self.path)
        # Also for writing, so that it neither waits for a writer nor ends with one.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""

    async def line(self) -> str:
        """The next line that somebody has written."""
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._rest:
                await anyio.wait_readable(self._fd)
                self._rest += os.read(self._fd, 4096)
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()

    async def pids(self) -> list[int]:
        """The next line, as process ids."""
        return [int(word) for word in (await self.line()).split()]

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    ear = Ear(tmp_path)
    yield ear
    ear.close()


def gone(*pids: int) -> None:
    """Fail if one of these processes does not end. One that only waits to be collected by its parent has ended."""
    end = time.monotonic() + PATIENCE
    for pid in pids:
        while _runs(pid):
            assert time.monotonic() < end, f"process {pid} still runs"
            os.sched_yield()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError):  # It may end while it is looked at.
        return False


FAKE = str(Path(__file__).parent / "agents" / "fake.py")
HURRY = Patience(closed=0.1, terminated=0.1)

Spawn = Callable[..., AbstractAsyncContextManager[RemoteAgent]]


@pytest.fixture
def spawn(ear: Ear) -> Spawn:
    """Start the fake agent in one of its modes."""

    def spawn(mode: str = "good", **options: Any) -> AbstractAsyncContextManager[RemoteAgent]:
        return spawn_agent([sys.executable, "-S", "-E", FAKE, mode, ear.path], **options)

    return spawn

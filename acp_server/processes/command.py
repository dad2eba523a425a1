"""A command without a terminal device. It has no input, its output is read, and its children end with it."""

from __future__ import annotations

import codecs
import errno
import logging
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import Process

from acp_server.processes import ProcessGroup, own_group
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner

logger: logging.Logger = logging.getLogger("acp_server.processes")

STARTING: Final = 30.0
"""Seconds that a command may take to start."""
_LINGER: Final = 0.5
"""Seconds for which a command's output may stay open after the command has ended. After that the output counts as
complete, because a child that still runs may hold it open for ever."""
_TERMINATED: Final = 1.0
_KILLED: Final = 2.0
ENDING: Final = _TERMINATED + 1 + 2 * _KILLED
"""The most seconds that the end of a command takes."""


class CommandOutput:
    """Collects output bytes and returns them as text. It keeps at most `limit` bytes of UTF-8. Bytes that are not UTF-8
    are replaced."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.truncated = False
        """Whether older output has been dropped."""

    def feed(self, data: bytes, final: bool = False) -> str:
        """Add the command's output, and return it as text. `final`: no more output will come, so an incomplete
        character is replaced."""
        text = self._decoder.decode(data, final)
        self._kept += text.encode()
        excess = len(self._kept) - self._limit
        if excess <= 0:
            return text
        self.truncated: bool = True
        # The bytes of a character after its first are 10xxxxxx.
        while excess < len(self._kept) and self._kept[excess] & 0xC0 == 0x80:
            excess += 1
        del self._kept[:excess]
        return text

    @property
    def text(self) -> str:
        """Return the kept output."""
        return self._kept.decode()


async def open_command(words: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> Process:
    """Start a command, with both of its outputs in one pipe. Raises OSError, including TimeoutError, and ValueError."""
    # A cancel during the start would leave a process without an owner.
    with grace(STARTING):
        return await anyio.open_process(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=cwd, env=env, **own_group()
        )
    raise TimeoutError(errno.ETIMEDOUT, "it takes too long")


class Command(ABC):
    """A running command."""

    def __init__(self, process: Process) -> None:
        self.ended: anyio.Event = anyio.Event()
        """Set when the command has ended and its output is complete."""
        self._process = process
        self._exited = anyio.Event()
        self._read_out = anyio.Event()
        self._group = ProcessGroup(process, self._exited)
        self._tasks = Spawner(_crashed)
        self._tasks.spawn(self._read)
        self._tasks.spawn(self._wait)

    @abstractmethod
    async def take(self, data: bytes) -> None:
        """Called with the command's output, and with b"" at the end."""

    @property
    def exit(self) -> tuple[int | None, str | None]:
        """Return the exit code of the command, or the name of the signal that ended it; neither while it runs."""
        code = self._process.returncode
        if code is None or code >= 0:
            return code, None
        try:
            return None, signal.Signals(-code).name
        except ValueError:  # a real-time signal has only a number
            return None, f"SIG{-code}"

    async def kill(self) -> None:
        """Terminate the command and its children, and kill them if that does not help. A cancel does not interrupt
        it."""
        try:
            with grace(_TERMINATED + 1):
                self._group.terminate()
                await self._group.gone(_TERMINATED)
        finally:
            if self._group.is_there:
                self._group.kill()
            with grace(_KILLED):
                await self._process.wait()
                await self.ended.wait()

    async def end(self) -> None:
        """Kill the command and release its resources."""
        try:
            await self.kill()
        finally:
            with grace(_KILLED):
                if self._process.returncode is not None:
                    await self._process.aclose()
                    await self._tasks.wait_idle()
                else:
                    logger.error("the command %d does not end although it was killed", self._process.pid)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for data in self._process.stdout:
                    await self.take(data)
            await self.take(b"")
        finally:
            self._read_out.set()

    async def _wait(self) -> None:
        try:
            await self._process.wait()
        except anyio.get_cancelled_exc_class():
            # When `asyncio.run` ends, it cancels every task: `kill`, which may run now, still needs this one.
            self._tasks.spawn(self._wait)
            raise
        self._exited.set()
        with anyio.move_on_after(_LINGER):
            await self._read_out.wait()
        self.ended.set()


def _crashed(error: BaseException) -> None:
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        logger.error("the task that waits for the end of a command failed", exc_info=error)


__all__ = ["Command", "CommandOutput", "open_command"]

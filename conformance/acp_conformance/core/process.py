"""Runs the subject as a process with three pipes and a process group. The end of the subject takes limited time and
leaves no process behind.

Before each read or write the suite waits until the descriptor of the pipe is ready. So a subject, or its children,
cannot block the suite by keeping a pipe open, by not reading, or by not ending. This module knows no lines and no JSON.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.lowlevel
from anyio import to_thread

from .result import TEXT_LIMIT

MARK = "ACP_CONFORMANCE_RUN"
"""The environment variable that every process of a run inherits. By it, processes that left their group are found."""

_CHUNK = 65_536
_POLL = 0.005


class CannotStart(Exception):
    """Raised if the command does not exist, or cannot be executed."""


class Process:
    """A running subject. `spawn` creates the object."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._popen = popen
        self._stdin, self._stdout, self._stderr = popen.stdin, popen.stdout, popen.stderr
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._errors = b""
        self.signalled = False
        """Whether the suite has sent the process a signal while it ran. The signal may have cut the line that the
        process was writing."""

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of the group."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        return self._popen.poll()

    @property
    def stderr(self) -> str:
        """Return the end of the standard error, at most `TEXT_LIMIT` characters."""
        return self._errors.decode("utf-8", "replace")[-TEXT_LIMIT:]

    async def send(self, data: bytes) -> None:
        """Write all of `data` to the standard input of the process.

        Raises:
         BrokenPipeError: The process has closed its standard input.
         anyio.ClosedResourceError: `end_input` was called.
        """
        rest = memoryview(data)
        while rest:
            if self._stdin.closed:
                raise anyio.ClosedResourceError
            try:
                rest = rest[os.write(self._stdin.fileno(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._stdin.fileno())
            except ConnectionResetError as error:
                raise BrokenPipeError from error

    async def receive(self) -> bytes:
        """Return the next bytes of the standard output; empty at EOF."""
        await anyio.lowlevel.checkpoint()
        return b"" if self._stdout.closed else await _read(self._stdout.fileno())

    async def drain_stderr(self) -> None:
        """Read the standard error to the end, keeping only the last part."""
        while data := await _read(self._stderr.fileno()):
            self._errors = (self._errors + data)[-4 * TEXT_LIMIT :]
            await anyio.lowlevel.checkpoint()

    def end_input(self) -> None:
        """Close the standard input of the process, which then reads EOF."""
        if not self._stdin.closed:
            anyio.notify_closing(self._stdin.fileno())
            self._stdin.close()

    def close_output(self) -> None:
        """Close the suite's end of the standard output. The next write of the process then fails with a broken pipe."""
        if not self._stdout.closed:
            anyio.notify_closing(self._stdout.fileno())
            self._stdout.close()

    async def wait(self) -> int:
        """Wait for the end of the process, and return the exit status, negative for a signal."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or it has ended
            while (status := self._popen.poll()) is None:  # noqa: ASYNC110 - nothing else tells
                await anyio.sleep(_POLL)
            return status
        try:
            if self._popen.poll() is None:
                await anyio.wait_readable(pidfd)
        finally:
            os.close(pidfd)
        return self._popen.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group. Nothing happens if the group is gone."""
        self.signalled = self.signalled or self._popen.poll() is None
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def company(self) -> list[int]:
        """Return the other living processes of the group. The result is empty except on Linux."""
        found: list[int] = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = stat.read_text().rpartition(") ")[2].split()[:3]
            except OSError:
                continue
            if int(group) == self.pid and state != "Z" and int(stat.parent.name) != self.pid:
                found.append(int(stat.parent.name))
        return found

    def kill(self) -> None:
        """Send SIGKILL to the whole group."""
        self.signal(signal.SIGKILL)

    async def end(self, grace: float) -> None:
        """End all processes of the group: by EOF and SIGTERM, and after `grace` seconds by SIGKILL."""
        self.end_input()
        if self._popen.poll() is None:
            self.signal(signal.SIGTERM)
            with anyio.move_on_after(grace):
                await self.wait()
        self.kill()
        with anyio.CancelScope(shield=True):
            await self.wait()

    def close(self) -> None:
        """Close the suite's ends of the pipes."""
        for pipe in (self._stdin, self._stdout, self._stderr):
            if not pipe.closed:
                anyio.notify_closing(pipe.fileno())
                pipe.close()


@asynccontextmanager
async def spawn(
    command: Sequence[str], *, env: Mapping[str, str], grace: float = 1.0, cwd: str | None = None
) -> AsyncIterator[Process]:
    """Start `command` in its own process group. At the end of the block the group is ended.

    Args:
     env: Added to the environment of the suite.
     grace: Seconds between SIGTERM and SIGKILL.
     cwd: The folder in which the command starts; by default the folder of the suite.

    Raises:
     CannotStart: The command cannot be executed.
    """
    try:
        popen = subprocess.Popen(  # noqa: ASYNC220 - returns once it runs; the pipes must be ours
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env={**os.environ, **env},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CannotStart(f"{command[0] if command else 'no command'}: {error}") from error
    process = Process(popen)
    async with ended_with(process, grace):
        yield process


@asynccontextmanager
async def ended_with(process: Process, grace: float) -> AsyncIterator[None]:
    """End the process and its group at the end of the block."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await process.end(grace)
        process.close()


class Start(Protocol):
    """The interface of `spawn`. Tests replace `spawn` if they need no process."""

    def __call__(
        self, command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AbstractAsyncContextManager[Process]:
        """See `spawn`."""
        ...


def processor_time(pid: int) -> float | None:
    """Return the seconds of processor time that a process has used, without the time of its children. Linux only."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def end_strays(token: str) -> int:
    """Kill the processes that are still alive although their group was ended, and whose `MARK` begins with `token`.
    Returns the number of these processes.

    Elsewhere than on Linux the result is 0, because the system does not show the environment of a process.
    """
    return await to_thread.run_sync(_end_strays, token)


def _end_strays(token: str) -> int:
    found = strays(token)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(found)


def strays(token: str) -> list[int]:
    """Return the living processes whose `MARK` begins with `token`, in any group. Linux only."""
    marked = f"{MARK}={token}".encode()
    found: list[int] = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if any(each.startswith(marked) for each in environ.read_bytes().split(b"\0")):
                found.append(int(environ.parent.name))
        except OSError:  # not readable, or gone meanwhile
            continue
    return found


async def _read(fd: int) -> bytes:
    try:
        while True:
            try:
                return os.read(fd, _CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(fd)
    except (OSError, anyio.ClosedResourceError):
        return b""

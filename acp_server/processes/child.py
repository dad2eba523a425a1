"""A child process. It has its own process group, its output is read, and it ends without leaving processes behind."""

from __future__ import annotations

import logging
import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio
from anyio.abc import Process

from acp_server.errors import UsageError
from acp_server.processes import ProcessGroup, own_group
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner

logger: logging.Logger = logging.getLogger("acp_server.processes")

_LONGEST_LINE: Final = 8 * 1024
_KEPT_LINES: Final = 20


class Tail:
    """Splits bytes into lines, and keeps the last 20. A line of more than 8 KiB is split."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes, as text without line ends. Bytes that are not UTF-8 are replaced."""
        *complete, self._rest = (self._rest + data).split(b"\n")
        lines = [piece for line in complete for piece in _pieces(line.rstrip(b"\r"))]
        if len(self._rest) > _LONGEST_LINE:
            *pieces, self._rest = _cut(self._rest)
            lines += [piece.decode(errors="replace") for piece in pieces]
        self._lines.extend(lines)
        return lines

    def finish(self) -> list[str]:
        """Return the last line, if it has no line end."""
        lines = _pieces(self._rest.rstrip(b"\r")) if self._rest else []
        self._rest = b""
        self._lines.extend(lines)
        return lines

    @property
    def text(self) -> str:
        """Return the kept lines, joined by newlines."""
        return "\n".join(self._lines)


def _pieces(line: bytes) -> list[str]:
    return [piece.decode(errors="replace") for piece in _cut(line)]


def _cut(line: bytes) -> list[bytes]:
    return [line[start : start + _LONGEST_LINE] for start in range(0, max(len(line), 1), _LONGEST_LINE)]


Command: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
"""A program, or a program with its arguments. It is never run by a shell."""

_LINGER: Final = 1.0
"""Seconds in which output is still read after the process has ended, because a child of the process may hold the pipe
open."""
_STARTING: Final = 30.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a process has to end before the next stronger step."""

    closed: float = 5.0
    """Seconds after the standard input was closed. Closing it ends an agent or a tool server."""
    terminated: float = 2.0
    """Seconds after SIGTERM to the process group."""
    killed: float = 2.0
    """Seconds after SIGKILL. Then the wait ends, which is logged."""


class ProcessStream:
    """Gives a process's standard output and input as a `acp_server.peer.stream.Stream`."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._ended = False
        # On asyncio a second reading task, such as `_discard_output`, could keep the first from being woken.
        self._reading = anyio.ResourceGuard("reading from")

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`. Raises anyio's BusyResourceError while another task receives."""
        try:
            with self._reading:
                return await self._stdout.receive()
        except anyio.EndOfStream:
            return b""
        except anyio.ClosedResourceError:
            if self._ended:
                return b""
            raise

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stdin.send(data)

    async def aclose(self) -> None:
        """Close only the process's standard input, because the process may still write."""
        await self._stdin.aclose()

    async def end_input(self) -> None:
        """Read nothing more, as if the process had closed its output."""
        self._ended = True
        await self._stdout.aclose()


class ChildProcess:
    """A running program. `start` makes it, `aclose` ends it."""

    def __init__(
        self,
        process: Process,
        on_stderr: Callable[[str], object] | None = None,
        stderr_log: logging.Logger = logger,
    ) -> None:
        self.stream: ProcessStream = ProcessStream(process)
        self._process = process
        self._on_stderr = on_stderr
        self._stderr_log = stderr_log
        self._tail = Tail()
        self._exited = anyio.Event()
        self._group = ProcessGroup(process, self._exited)
        self._heard_out = anyio.Event()
        self._closed = False
        self._watching = anyio.CancelScope()
        self._house = Spawner(_crashed)
        self._house.spawn(self._watch)
        self._house.spawn(self._listen)

    @classmethod
    async def start(
        cls,
        command: Command,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        user: int | None = None,
        on_stderr: Callable[[str], object] | None = None,
        stderr_log: logging.Logger = logger,
    ) -> ChildProcess:
        """Start `command` in the folder `cwd`, with `env` as its whole environment; by default with this process's.
        With `user` it runs with that user id and group id, which only root may request.

        `on_stderr` gets each line of its standard error; by default the lines go to `stderr_log`. Raises OSError if
        there is no such program or folder, or it must not be started.
        """
        words = [command] if isinstance(command, str | os.PathLike) else list(command)
        if not words:
            raise UsageError("the command is empty")
        # A cancel during the start would leave a process without an owner.
        with grace(_STARTING):
            process = await anyio.open_process(
                [os.fspath(word) for word in words],
                cwd=cwd,
                env=env,
                stderr=subprocess.PIPE,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                **own_group(),
            )
            return cls(process, on_stderr, stderr_log)
        raise TimeoutError(f"the process could not be started within {_STARTING:g} s")

    @property
    def pid(self) -> int:
        """Return the id of the process, which is also the id of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit status of the process, or minus the number of the signal that ended it; None while it
        runs."""
        return self._process.returncode

    @property
    def stderr(self) -> str:
        """Return the last part of the process's standard error."""
        return self._tail.text

    def kill(self) -> None:
        """Kill the process group now. `aclose` then need not wait."""
        if self._group.is_there:
            self._group.kill()

    async def last_words(self, patience: float = _LINGER) -> None:
        """Wait at most `patience` seconds until the process has ended and its standard error was read completely."""
        with anyio.move_on_after(patience):
            await self._process.wait()
            await self._heard_out.wait()

    async def aclose(self, patience: Patience | None = None) -> None:
        """End the process: close its input, wait, terminate its group, wait, kill its group. No process of the group is
        left.

        A cancel does not interrupt this, since its time is limited by `patience`. Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        patience = patience or Patience()
        try:
            with grace(patience.closed + patience.terminated + 1):
                await self.stream.aclose()
                # A program that is blocked in a write sees the end of its input only when its output is read.
                self._house.spawn(self._discard_output)
                with anyio.move_on_after(patience.closed):
                    await self._process.wait()
                if self._group.is_there:
                    self._group.terminate()
                    await self._group.gone(patience.terminated)
        finally:
            # Also reached if the embedding task is cancelled natively meanwhile.
            if self._group.is_there:
                self._group.kill()
            with grace(patience.killed + _LINGER + 1):
                await self._group.gone(patience.killed)
                if self.exit_code is not None:
                    await self.last_words()
                    self._watching.cancel()
                    await self._process.aclose()
                    await self._house.wait_idle()
                else:
                    logger.error("the process %d does not end although it was killed", self.pid)

    async def _watch(self) -> None:
        with self._watching:
            await self._process.wait()
            self._exited.set()
            await anyio.sleep(_LINGER)
            await self.stream.end_input()

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        try:
            async for data in self._process.stderr:
                for line in self._tail.feed(data):
                    self._heard(line)
        except anyio.ClosedResourceError:
            pass
        finally:
            for line in self._tail.finish():
                self._heard(line)
            self._heard_out.set()

    def _heard(self, line: str) -> None:
        if self._on_stderr is None:
            self._stderr_log.info("%d: %s", self.pid, line)
            return
        try:
            self._on_stderr(line)
        except Exception:
            logger.exception("the callback for the standard error of a process failed")

    async def _discard_output(self) -> None:
        try:
            while await self.stream.receive():
                pass
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.BusyResourceError, OSError):
            pass


def _crashed(error: BaseException) -> None:
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        logger.error("the task that waits for the end of a process failed", exc_info=error)

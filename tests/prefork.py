"""Python programs as processes that start within milliseconds: forks of a process that has imported what they need.

A fork is a process like any other, with a session, pipes, environment, folder and default signals of its own, and it
ends as an interpreter ends. Only the imports are not done again, which is most of what a short program does. It cannot
be told by its environment from outside (`/proc/PID/environ` is that of the process that forked).
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

_NUMBER = struct.Struct(">i")
_FILES = 4
"""The three standard ones, and one to tell the process id and the exit status through."""

RUNTIME = (
    "acp_server.agent.serve",
    "acp_server.agent.loop_watch",
    "acp_server.schema",
    "acp_server.session.prompting",
    "acp_server.tools.runner",
    "acp_server.tools.parameters",
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "anyio._core._subprocesses",
    "jsonrpcserver.async_main",
    "pkgutil",
)
"""What a program on this library loads, also when it is wanted for the first time only."""

# Of the process that asks for programs.


class Forked:
    """A running program, with the face of a `subprocess.Popen`. Streams that are not pipes are None."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], told: IO[bytes]) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._told = told
        self.pid = _NUMBER.unpack(told.read(_NUMBER.size))[0]
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            # It may end in this moment. Its parent waits for it, so its id is gone then.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it by force."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked program", cast("float", timeout))
            self.returncode = _NUMBER.unpack(self._told.read(_NUMBER.size))[0]
            self._told.close()
        return cast("int", self.returncode)


class Prefork:
    """Starts programs; made by `prefork`."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def popen(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> Forked:
        """Start what `command` names: a Python script, or an interpreter with options and a script or `-m MODULE`.

        Without a descriptor a standard stream is a pipe. A terminal as standard input controls the program.
        """
        words = list(command)
        if words[0] == sys.executable:
            del words[0]
            while words[0] in ("-S", "-E"):
                del words[0]
        order = json.dumps({"words": words, "env": dict(env), "cwd": str(cwd or os.getcwd())}).encode()
        given = (stdin, stdout, stderr, None)
        pipes = [None if fd is not None else os.pipe()[:: -1 if not n else 1] for n, fd in enumerate(given)]
        theirs = [pipe[1] if pipe else cast("int", fd) for fd, pipe in zip(given, pipes, strict=True)]
        ours = [os.fdopen(pipe[0], "rb" if n else "wb", buffering=0) if pipe else None for n, pipe in enumerate(pipes)]
        try:
            socket.send_fds(self._line, [_NUMBER.pack(len(order))], theirs)
            self._line.sendall(order)
        finally:
            for pipe in filter(None, pipes):
                os.close(pipe[1])
        return Forked(*cast("list[IO[bytes]]", ours))

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        text: str = "",
        stdout: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, with `text` as its input. Raises subprocess.TimeoutExpired after 30 s."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            stdout = out.fileno() if stdout is None else stdout
            program = self.popen(command, env=env, cwd=cwd, stdout=stdout, stderr=errors.fileno())
            with program.stdin, suppress(BrokenPipeError):
                program.stdin.write(text.encode())
            try:
                code = program.wait(30)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
                raise
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(command, code, out.read().decode(), errors.read().decode())

    @asynccontextmanager
    async def start(
        self, command: Sequence[str], *, env: Mapping[str, str], grace: float = 1.0, cwd: str | None = None
    ) -> AsyncIterator[Any]:
        """Stands in for `conformance.core.process.spawn`."""
        from conformance.core.process import Process, ended_with

        process = Process(cast("subprocess.Popen[bytes]", self.popen(command, env={**os.environ, **env}, cwd=cwd)))
        async with ended_with(process, grace):
            yield process


@contextmanager
def prefork(*modules: str, path: Path | None = None, env: Mapping[str, str] | None = None) -> Iterator[Prefork]:
    """A process that has imported `modules`, also those in `path`, and forks a program whenever it is asked to.

    `env`: its environment in the place of ours, for what an interpreter reads there once, such as warnings.
    """
    near, far = socket.socketpair()
    env = {**(env or os.environ), **({"PYTHONPATH": str(path)} if path else {})}
    root = str(Path(__file__).parents[1])
    words = [sys.executable, "-m", "tests.prefork", str(far.fileno()), *modules]
    with subprocess.Popen(words, pass_fds=[far.fileno()], cwd=root, env=env, start_new_session=True):
        far.close()
        with near:
            yield Prefork(near)


# Of the process that forks.


def _order(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    header, files, _, _ = socket.recv_fds(line, _NUMBER.size, _FILES)
    if not header:
        return None
    (size,) = _NUMBER.unpack(header)
    content = b""
    while len(content) < size:
        content += line.recv(size - len(content))
    return json.loads(content), files


def _serve(line: socket.socket) -> dict[str, Any] | None:
    """Fork for each order until there are no more; what it returns in a fork is the order to follow."""
    running: dict[int, int] = {}
    ended, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([line, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 1000)
            _reap(running)
        if line in ready:
            if (order := _order(line)) is None:
                return None
            words, files = order
            pid = os.fork()
            if not pid:
                _become(words, files)
                return words
            *given, running[pid] = files
            os.write(running[pid], _NUMBER.pack(pid))
            for fd in given:
                os.close(fd)


def _reap(running: dict[int, int]) -> None:
    while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
        pid, status = found
        told = running.pop(pid)
        os.write(told, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(told)


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Make this fork what it would be if it had been started by itself."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, fd in enumerate(files[:3]):
        os.dup2(fd, number)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 - stays
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115 - stays
    stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - stays
    sys.stderr = sys.__stderr__ = stderr
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])


def main() -> None:
    """Import, serve orders, and be the program of an order in each fork."""
    line = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        import_module(name)
    gc.collect()
    gc.freeze()
    if (order := _serve(line)) is None:
        line.close()
        return
    line.detach()
    words = order["words"]
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(words[0]))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()

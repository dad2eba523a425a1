"""Python programs as processes that start within milliseconds: forks of a process that has imported what they need.

A fork is a process like any other, with a session, pipes, environment, folder and default signals of its own, and it
ends as an interpreter ends. Only the imports are not done again, which is most of what a short program does, and not
taken down at its end, which would copy every page that the forks share. It cannot be told by its environment from
outside (`/proc/PID/environ` is that of the process that forked).
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import marshal
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
_FILES = 5
"""The three standard ones, one more if there is, and one to tell the process id and the exit status through."""

RUNTIME = (
    "acp_server.agent.fd_stream",
    "acp_server.agent.loop_watch",
    "acp_server.agent.serve",
    "acp_server.apps.cli.target",
    "acp_server.schema",
    "acp_server.schema.client_methods",
    "acp_server.schema.config_options",
    "acp_server.schema.initialization",
    "acp_server.schema.session",
    "acp_server.schema.updates",
    "acp_server.session.lifecycle",
    "acp_server.session.prompting",
    "acp_server.session.setup",
    "acp_server.tools.parameters",
    "acp_server.tools.runner",
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "anyio._core._subprocesses",
    "encodings.ascii",
    "importlib.metadata",
    "jsonrpcserver.async_main",
    "pkgutil",
    "pydantic.type_adapter",
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

    def __init__(self, line: socket.socket, door: str) -> None:
        self._line = line
        self._door = door

    def stand_in(self, command: Sequence[str]) -> tuple[str, ...]:
        """A command for others to start in the place of this one: it is a process that stands for a fork."""
        return (sys.executable, "-I", "-S", str(Path(__file__).with_name("stand_in.py")), self._door, *_plain(command))

    def popen(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        fourth: int | None = None,
    ) -> Forked:
        """Start what `command` names: a Python script, or an interpreter with options and a script or `-m MODULE`.

        Without a descriptor a standard stream is a pipe. A terminal as standard input controls the program. `fourth` is
        its descriptor 3.
        """
        words = _plain(command)
        order = marshal.dumps({"words": words, "env": dict(env), "cwd": str(cwd or os.getcwd())})
        given = (stdin, stdout, stderr, None)
        pipes = [None if fd is not None else os.pipe()[:: -1 if not n else 1] for n, fd in enumerate(given)]
        theirs = [pipe[1] if pipe else cast("int", fd) for fd, pipe in zip(given, pipes, strict=True)]
        ours = [os.fdopen(pipe[0], "rb" if n else "wb", buffering=0) if pipe else None for n, pipe in enumerate(pipes)]
        try:
            more = [] if fourth is None else [fourth]
            socket.send_fds(self._line, [_NUMBER.pack(len(order))], [*theirs[:3], *more, theirs[3]])
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
        """Stands in for `acp_conformance.core.process.spawn`."""
        from acp_conformance.core.process import Process, ended_with

        process = Process(cast("subprocess.Popen[bytes]", self.popen(command, env={**os.environ, **env}, cwd=cwd)))
        async with ended_with(process, grace):
            yield process


def _plain(command: Sequence[str]) -> list[str]:
    """Without the interpreter and its options."""
    words = list(command)
    if words[0] == sys.executable:
        del words[0]
        while words[0] in ("-S", "-E"):
            del words[0]
    return words


@contextmanager
def prefork(*modules: str, path: Path | None = None, env: Mapping[str, str] | None = None) -> Iterator[Prefork]:
    """A process that has imported `modules`, also those in `path`, and forks a program whenever it is asked to.

    `env`: its environment in the place of ours, for what an interpreter reads there once, such as warnings.
    """
    near, far = socket.socketpair()
    door = socket.socket(socket.AF_UNIX)
    env = {**(env or os.environ), **({"PYTHONPATH": str(path)} if path else {})}
    root = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as folder, door:
        door.bind(f"{folder}/door")
        door.listen()
        files = [far.fileno(), door.fileno()]
        words = [sys.executable, "-m", "tests.prefork", *map(str, files), *modules]
        with subprocess.Popen(words, pass_fds=files, cwd=root, env=env, start_new_session=True):
            far.close()
            with near:
                yield Prefork(near, f"{folder}/door")


# Of the process that forks.


def _order(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    header, files, _, _ = socket.recv_fds(line, _NUMBER.size, _FILES)
    if not header:
        return None
    (size,) = _NUMBER.unpack(header)
    content = b""
    while len(content) < size:
        content += line.recv(size - len(content))
    return marshal.loads(content), files


def _serve(line: socket.socket, door: socket.socket) -> dict[str, Any] | None:
    """Fork for each order until there are no more; what it returns in a fork is the order to follow."""
    running: dict[int, int] = {}
    standing: dict[socket.socket, int] = {}
    """The lines of what stands for forks, and which: none before the order has come."""
    ended, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([line, ended, door, *standing], [], [])[0]
        if ended in ready:
            os.read(ended, 1000)
            _reap(running)
        if door in ready:
            standing[door.accept()[0]] = 0
        for one in [each for each in (line, *standing) if each in ready]:
            if standing.get(one) or (order := _order(one)) is None:
                if one is line:
                    return None
                # Who stands for it has ended.
                if (pid := standing.pop(one)) in running:
                    os.kill(pid, signal.SIGKILL)
                one.close()
                continue
            words, files = order
            pid = os.fork()
            if not pid:
                for each in (line, door, *standing):
                    each.detach()
                _become(words, files)
                return words
            *given, running[pid] = files
            if one is not line:
                standing[one] = pid
            _tell(running[pid], pid)
            for fd in given:
                os.close(fd)


def _tell(told: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the test that started it has ended
        os.write(told, _NUMBER.pack(number))


def _reap(running: dict[int, int]) -> None:
    while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
        pid, status = found
        told = running.pop(pid)
        _tell(told, os.waitstatus_to_exitcode(status))
        os.close(told)


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Make this fork what it would be if it had been started by itself."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    # None of them is below 4, where what was open before has its own.
    for number, fd in enumerate(files[:-1]):
        os.dup2(fd, number)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.closerange(len(files) - 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 - stays
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115 - stays
    stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - stays
    sys.stderr = sys.__stderr__ = stderr
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])


class _End:
    """The end of a fork. Threads are joined and what was registered for the exit has run, as this was registered first.

    What the program itself left is finalized still; the modules that all forks share are not.
    """

    status: int | None = None
    """The exit status, if nothing but the exit itself is left to be done by the interpreter."""

    def leave(self) -> None:
        if self.status is None or "coverage" in sys.modules:
            return
        gc.collect()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                return  # the interpreter says what that means
        os._exit(self.status)


def _run(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def _build(kind: Any) -> None:
    """Build now the models of the library that are built when they are wanted for the first time."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("acp_server."):
            each.model_rebuild(raise_errors=False)
        _build(each)


def main() -> None:
    """Import, serve orders, and be the program of an order in each fork."""
    end = _End()
    atexit.register(end.leave)
    line, door = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    for name in sys.argv[3:]:
        import_module(name)
    if "acp_server.schema" in sys.argv:
        _build(import_module("pydantic").BaseModel)
    gc.collect()
    gc.freeze()
    if (order := _serve(line, door)) is None:
        line.close()
        door.close()
        return
    try:
        _run(order["words"])
    except SystemExit as error:
        code = 0 if error.code is None else error.code
        end.status = code if isinstance(code, int) else 1
        raise
    except Exception:
        end.status = 1
        raise
    end.status = 0


if __name__ == "__main__":
    main()

"""Starts a real process and talks JSON-RPC with it over its standard input and output, each wait bounded."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.prefork import RUNTIME, Prefork, prefork

ROOT = Path(__file__).resolve().parents[3]
PLAIN = str(Path(__file__).with_name("plain.py"))
PATIENCE = 20.0

Message = dict[str, Any]


def environment(**more: str) -> dict[str, str]:
    """As a client would start it: nothing that makes Python behave out of the ordinary."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    # jsonrpcserver reads a file of its own with functions that are deprecated.
    known = ("open_text is deprecated", "read_text is deprecated")
    warnings = ",".join(["error", *(f"ignore:{text}:DeprecationWarning" for text in known)])
    return env | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": warnings} | more


class Driven:
    """The client's end of an agent process."""

    def __init__(self, process: "subprocess.Popen[bytes]", into: int | None, out_of: int | None, log: Any) -> None:
        self.process = process
        self._into = into
        self._out_of = out_of
        self._log = log
        self._rest = bytearray()
        self._lines: list[bytes] = []
        self._poll = select.poll()
        if out_of is not None:
            self._poll.register(out_of, select.POLLIN)

    # -- talking

    def send(self, *messages: Message | bytes) -> None:
        """Write messages in one go, as far as they fit into the pipe, then the rest."""
        data = memoryview(b"".join(m if isinstance(m, bytes) else line(m) for m in messages))
        assert self._into is not None
        while data:
            data = data[os.write(self._into, data) :]

    def request(self, id: int, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def call(self, id: int, method: str, **params: Any) -> Any:
        """A request and its result, passing over notifications."""
        self.request(id, method, **params)
        return self.answer(id)["result"]

    def begin(self, id: int, method: str) -> None:
        """A request whose handler says that it runs."""
        self.request(id, method)
        assert self.next() == {"jsonrpc": "2.0", "method": "started"}

    def next(self) -> Message:
        """The next message. EOFError if there is none any more."""
        return json.loads(self.next_line())

    def next_line(self) -> bytes:
        end = time.monotonic() + PATIENCE
        assert self._out_of is not None
        while not self._lines:
            if not self._poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise TimeoutError(f"nothing to read; stderr: {self.stderr}")
            data = os.read(self._out_of, 1 << 20)
            if not data:
                raise EOFError(f"left over: {self._rest[:200]!r}; stderr: {self.stderr}")
            self._rest += data
            if b"\n" in data:
                *self._lines, rest = bytes(self._rest).split(b"\n")
                self._rest = bytearray(rest)
        return self._lines.pop(0)

    def answer(self, id: int) -> Message:
        while True:
            message = self.next()
            if message.get("id") == id and "method" not in message:
                return message

    def rest(self) -> list[Message]:
        """All that is still to come until the output ends."""
        messages: list[Message] = []
        try:
            while True:
                messages.append(self.next())
        except EOFError:
            assert not self._rest
            return messages

    # -- ending

    def close_input(self) -> None:
        if self._into is not None:
            os.close(self._into)
            self._into = None

    def close_output(self) -> None:
        if self._out_of is not None:
            self._poll.unregister(self._out_of)
            os.close(self._out_of)
            self._out_of = None

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_for_signals(self, number: int) -> None:
        """Wait until the process has taken note of a signal that was sent, so that the next one is another one."""
        mask = 1 << (number - 1)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                status = Path(f"/proc/{self.process.pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                return  # it has ended
            pending = [text.split()[1] for text in status.splitlines() if text.startswith(("SigPnd", "ShdPnd"))]
            if not any(int(word, 16) & mask for word in pending):
                return
            assert time.monotonic() < end

    def exit_code(self, patience: float = PATIENCE) -> int:
        """Wait for the end."""
        return self.process.wait(patience)

    def finish(self) -> int:
        """End the input, and wait for the end."""
        self.close_input()
        return self.exit_code()

    @property
    def stderr(self) -> str:
        # The process has the same open file: to move in it would move where the process writes.
        log = self._log.fileno()
        return os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace")

    def wait_for_stderr(self, text: str, after: int = 0) -> None:
        """Wait until it has written this, behind the first `after` characters."""
        end = time.monotonic() + PATIENCE
        while text not in self.stderr[after:]:
            assert time.monotonic() < end, self.stderr
            select.select([], [], [], 0.01)


def line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


@contextmanager
def started(
    command: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    stderr_too: bool = False,
    env: dict[str, str] | None = None,
    popen: Callable[..., Any] = subprocess.Popen[bytes],
    **options: Any,
) -> Iterator[Driven]:
    """A running process. `stdin`, `stdout`, `stderr`: descriptors to use instead of our own; they stay the caller's.
    `popen`: what starts it, for example that of a `Prefork`."""
    into = out_of = None
    theirs: list[int] = []
    if stdin is None:
        stdin, into = os.pipe()
        theirs.append(stdin)
    if stdout is None:
        out_of, stdout = os.pipe()
        theirs.append(stdout)
    with tempfile.TemporaryFile() as log:
        process = popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT if stderr_too else log.fileno() if stderr is None else stderr,
            env=env or environment(),
            **options,
        )
        for fd in theirs:
            os.close(fd)
        driven = Driven(process, into, out_of, log)
        try:
            yield driven
        finally:
            driven.close_input()
            driven.close_output()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


_forks: Prefork | None = None
"""Starts the plain agent, if it need not be an interpreter of its own."""


@contextmanager
def started_by_forks() -> Iterator[None]:
    """In this block plain agents are forks of a process that has imported the runtime."""
    global _forks
    with prefork(*RUNTIME, env=environment()) as _forks:
        yield
    _forks = None


def plain(backend: str, *more: str, **options: Any) -> Any:
    """The plain agent."""
    command = [sys.executable, PLAIN, backend, *more]
    if _forks is None or "stderr_too" in options:
        return started(command, **options)
    return started(command, popen=_forks.popen, cwd=None, **options)

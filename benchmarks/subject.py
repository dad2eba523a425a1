"""One agent process at the other end of two pipes, driven with the benchmark's own framing.

Duty: start the process, write and read newline-delimited JSON-RPC without ever blocking on a full pipe, measure the
cost of the process, and end it. It knows no workload. Every wait is bounded: `PATIENCE` seconds without a message from
the subject are a failure, with the end of its stderr in the message.
"""

import os
import select
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import orjson

from . import clock

Message: TypeAlias = dict[str, Any]

PATIENCE = 60.0
_READ = 1 << 20
_STDERR_TAIL = 2000


class SubjectError(Exception):
    """The agent died, sent nothing in time, or gave an unexpected response."""


class Subject:
    """A running agent. Use it as a context manager: leaving it closes stdin and waits for the exit."""

    def __init__(self, command: Sequence[str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._unsent = bytearray()
        self._partial = b""
        self._inbox: deque[Message] = deque()
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(expect_exit=error is None)

    @property
    def cpu_seconds(self) -> float:
        return clock.cpu_seconds(self._process.pid)

    @property
    def resident_bytes(self) -> int:
        return clock.resident_bytes(self._process.pid)

    def request(self, method: str, params: Message) -> int:
        """Queue a request and return its id; it is sent with the next read."""
        self._last_id += 1
        self._queue({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, params: Message) -> None:
        self._queue({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request: Message, result: Message) -> None:
        self._queue({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def messages(self) -> Iterator[Message]:
        """Every message of the agent as it arrives, without end; queued messages are written in between."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            self._exchange()

    def call(self, method: str, params: Message) -> Message:
        """Send one request and return its result, passing over notifications."""
        wanted = self.request(method, params)
        for message in self.messages():
            if message.get("id") == wanted and "method" not in message:
                return self.result(message)
        raise AssertionError("unreachable")

    def settle(self) -> None:
        """Return when the agent has read and begun everything sent before, and has run all tasks that were ready to
        run.

        Requests with a handler begin in order of arrival, so the response to a later one is a barrier; the second one
        waits for tasks that the first one only saw started. A request for an unknown method would not do: an agent may
        refuse it as it reads, before handlers that have not begun.
        """
        for _ in range(2):
            self.call("session/new", {"cwd": "/project", "mcpServers": []})

    def result(self, answer: Message) -> Message:
        if "result" not in answer:
            raise self._failure(f"expected a result, got {answer}")
        return answer["result"]

    def _queue(self, message: Message) -> None:
        self._unsent += orjson.dumps(message)
        self._unsent += b"\n"

    def _exchange(self) -> None:
        self._write()
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._unsent:
            poll.register(self._input, select.POLLOUT)
        ready = dict(poll.poll(PATIENCE * 1000))
        if not ready:
            raise self._failure(f"silent for {PATIENCE:.0f} s")
        if self._output in ready:
            self._read()

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._input, self._unsent)]
        except BlockingIOError:
            pass  # the rest is sent when the pipe has room again
        except BrokenPipeError:
            raise self._failure("closed its stdin") from None

    def _read(self) -> None:
        data = os.read(self._output, _READ)
        if not data:
            raise self._failure("closed its stdout")
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._inbox.extend(map(orjson.loads, lines))

    def _failure(self, what: str) -> SubjectError:
        self._stderr.seek(0)
        tail = self._stderr.read()[-_STDERR_TAIL:].decode(errors="replace")
        return SubjectError(f"{self._process.args}: {what}\n{tail}".rstrip())

    def _end(self, *, expect_exit: bool) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10 if expect_exit else 0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            if expect_exit:
                raise self._failure("still alive 10 s after its stdin ended") from None
        finally:
            self._process.stdout.close()
            self._stderr.close()

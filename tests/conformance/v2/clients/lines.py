"""A small client in the place of a process, for the suite: it takes part in the conversation over the suite's socket.

It is the client and the program that a client starts as its agent in one, so that nothing has to be started.
"""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from acp_conformance.client.link import PROGRAM
from acp_conformance.core.process import Process, Start

HEADER = struct.Struct(">cI")


class Client(Protocol):
    """What is told of everything that happens, and answers by the `Lines` that it was made with."""

    def begin(self) -> None: ...

    def receive(self, message: Any) -> None: ...

    def typed(self, line: str) -> None: ...

    def interrupted(self) -> None: ...

    def lost(self) -> None: ...


class Lines:
    """One client, with the face of a `acp_conformance.core.process.Process`."""

    pid = 0
    stderr = ""

    def __init__(self, make: Callable[[Lines], Client], arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self.returncode: int | None = None
        self._ended = anyio.Event()
        self._outbox, self._queue = anyio.create_memory_object_stream[bytes](20_000)
        self._client = make(self)

    def write(self, message: Any) -> None:
        """Write one JSON value as a line to the agent."""
        self.write_line(json.dumps(message).encode())

    def write_line(self, line: bytes) -> None:
        """Write a line to the agent."""
        if self.returncode is None:
            self._outbox.send_nowait(HEADER.pack(b"I", len(line) + 1) + line + b"\n")

    def leave(self) -> None:
        """Close the agent's input, and end."""
        if self.returncode is None:
            self._outbox.send_nowait(HEADER.pack(b"E", 0))
            self.kill()

    async def run(self, stream: SocketStream, secret: str) -> None:
        """Take part until the client or the agent ends."""
        await stream.send(HEADER.pack(b"H", len(secret)) + secret.encode())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all, stream)
            self._client.begin()
            await self._read(stream)
            self._client.lost()
            self._outbox.close()

    async def _send_all(self, stream: SocketStream) -> None:
        try:
            async for frame in self._queue:
                await stream.send(frame)
            await stream.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async def _read(self, stream: SocketStream) -> None:
        buffered, rest = BufferedByteReceiveStream(stream), b""
        try:
            while True:
                kind, length = HEADER.unpack(await buffered.receive_exactly(HEADER.size))
                content = await buffered.receive_exactly(length) if length else b""
                if kind in (b"C", b"X"):
                    return
                *lines, rest = (rest + content).split(b"\n")
                for line in lines:
                    self._client.receive(json.loads(line))
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    # What the suite does with a process.

    async def send(self, data: bytes) -> None:
        for line in data.decode().splitlines():
            self._client.typed(line)

    def signal(self, number: int) -> None:
        self._client.interrupted()

    def end_input(self) -> None:
        """It reads no further."""

    async def receive(self) -> bytes:
        await self._ended.wait()
        return b""

    async def drain_stderr(self) -> None:
        """There is none."""

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    def kill(self) -> None:
        self.returncode = 0
        self._outbox.close()
        self._ended.set()

    async def end(self, grace: float) -> None:
        self.kill()

    def close(self) -> None:
        self._queue.close()


def starting(make: Callable[[Lines], Client]) -> Start:
    """Stands in for `acp_conformance.core.process.spawn`: each case has a fresh client."""

    @asynccontextmanager
    async def start(
        command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        program = command.index(str(PROGRAM))
        host, port, secret, *arguments = command[program + 1 :]
        lines = Lines(make, arguments)
        async with await anyio.connect_tcp(host, int(port)) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(lines.run, stream, secret)
            try:
                yield cast("Process", lines)
            finally:
                lines.kill()
                tasks.cancel_scope.cancel()
                lines.close()

    return start

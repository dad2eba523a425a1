"""A small agent in the place of a process, for the suite: lines go in, and what it writes comes out at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import anyio

from acp_conformance.core.process import Process, Start


class Agent(Protocol):
    """What is told of each message, and answers by what it was made with."""

    def receive(self, message: Any) -> None:
        """A message of the client."""
        ...

    def unreadable(self) -> None:
        """A line of the client that is not JSON."""
        ...


Write = Callable[[Any], None]
"""Writes one JSON value as a line."""


class Lines:
    """One agent, with the face of a `acp_conformance.core.process.Process`."""

    pid = 0
    stderr = ""
    signalled = False

    def __init__(self, make: Callable[[Write], Agent]) -> None:
        self.returncode: int | None = None
        self._ended = anyio.Event()
        self._said, self._output = anyio.create_memory_object_stream[bytes](10_000)
        self._rest = b""
        self._agent = make(self._write)

    def _write(self, message: Any) -> None:
        if self.returncode is None:
            self._said.send_nowait(json.dumps(message).encode() + b"\n")

    async def send(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                self._agent.unreadable()
            else:
                self._agent.receive(message)

    async def receive(self) -> bytes:
        try:
            return await self._output.receive()
        except anyio.EndOfStream:
            return b""

    async def drain_stderr(self) -> None:
        """There is none."""

    def end_input(self) -> None:
        self.kill()

    def close_output(self) -> None:
        self.kill()

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    def signal(self, number: int) -> None:
        self.kill()

    def company(self) -> list[int]:
        return []

    def kill(self) -> None:
        self.returncode = 0
        self._said.close()
        self._ended.set()

    async def end(self, grace: float) -> None:
        self.kill()

    def close(self) -> None:
        self._output.close()


def starting(make: Callable[[Write], Agent]) -> Start:
    """Stands in for `acp_conformance.core.process.spawn`: each conversation has a fresh agent."""

    @asynccontextmanager
    async def start(
        command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        lines = Lines(make)
        try:
            yield cast("Process", lines)
        finally:
            lines.kill()
            lines.close()

    return start

"""An agent of ours in the place of a process, for the suite: the same messages, without half a second of start-up.

Only what a conversation needs is there. What is about the process itself (signals, its exit, its children, standard
error) has to be tried on a real one.
"""

import runpy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio

from acp_conformance.core.process import Process, Start
from acp_server import Agent
from acp_server.tasks.cause import Cause
from acp_server.testing import FaultyStream, memory_pair

NOT_IN_MEMORY = ("closing/*", "session-cancel/idle-behind-the-answer")
"""The cases that are about the process."""


class InMemory:
    """A connection to one agent, with the face of a `acp_conformance.core.process.Process`."""

    pid = 0
    stderr = ""
    signalled = False

    def __init__(self, agent: Agent) -> None:
        ours, self._stream = memory_pair()
        self._faults = FaultyStream(ours)
        self._connection = agent.connect(self._faults)
        self._scope = anyio.CancelScope()
        self._input_ended = False
        self.returncode: int | None = None

    async def run(self) -> None:
        """Serve until the end."""
        try:
            with self._scope:
                await self._connection.run()
        finally:
            self.returncode = 0
            await self._stream.aclose()

    async def send(self, data: bytes) -> None:
        if self._input_ended:
            raise anyio.ClosedResourceError
        try:
            await self._stream.send(data)
        except anyio.BrokenResourceError as error:
            raise BrokenPipeError from error

    async def receive(self) -> bytes:
        return await self._stream.receive()

    async def drain_stderr(self) -> None:
        """There is none."""

    def end_input(self) -> None:
        self._input_ended = True
        self._stream.send_eof()

    def close_output(self) -> None:
        self._faults.break_sending()

    async def wait(self) -> int:
        await self._connection.wait_closed()
        return 0

    def signal(self, number: int) -> None:
        self._connection.close(Cause.SHUTDOWN)

    def company(self) -> list[int]:
        return []

    def kill(self) -> None:
        self._scope.cancel()

    async def end(self, grace: float) -> None:
        self.end_input()
        with anyio.move_on_after(grace):
            await self.wait()
        self.kill()
        with anyio.CancelScope(shield=True):
            await self.wait()

    def close(self) -> None:
        """Nothing is left to close."""


def starting(make: Callable[[], Agent]) -> Start:
    """Stands in for `acp_conformance.core.process.spawn`: each conversation has a fresh agent."""

    @asynccontextmanager
    async def start(
        command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        process = InMemory(make())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            try:
                yield cast("Process", process)
            finally:
                with anyio.CancelScope(shield=True):
                    await process.end(grace)

    return start


def from_file(path: Path) -> Callable[[], Agent]:
    """Makes the agent that a file defines, anew each time."""
    return lambda: cast("dict[str, Any]", runpy.run_path(str(path)))["agent"]

"""Adapts streams for programs that use asyncio to start or reach an agent."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio.subprocess

_CHUNK: Final = 64 * 1024


class AsyncioStream:
    """Makes a stream for `connect_agent` from a pair of asyncio streams, such as `asyncio.open_connection` returns."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    def of(cls, process: asyncio.subprocess.Process) -> AsyncioStream:
        """Return a stream over the standard output and input of a process that was started with pipes for both
        (`subprocess.PIPE`). The program still owns the process: closing the stream only closes the process's input.
        Raises ValueError without pipes."""
        if process.stdout is None or process.stdin is None:
            raise ValueError("start the process with stdin=PIPE and stdout=PIPE")
        return cls(process.stdout, process.stdin)

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        return await self._reader.read(_CHUNK)

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._writer.close()
        # The other side may be gone already; the next send raises that.
        with suppress(OSError):
            await self._writer.wait_closed()

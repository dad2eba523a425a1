"""Replaces the stream of `acp_server.agent.fd_stream` where the loop cannot wait for a pipe, as on Windows. It has one
thread for each direction.

The threads are daemons, so that a read that never returns blocks neither the loop nor the end of the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.agent.fd_stream import is_gone

_READ_SIZE: Final = 64 * 1024


class ThreadedStream:
    """A stream (see `acp_server.peer.stream.Stream`) over two descriptors, which the caller owns."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._reader = _Worker("acp_server reader")
        self._writer = _Worker("acp_server writer")
        self.problem: OSError | None = None
        """See `acp_server.agent.fd_stream.FdStream`."""

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        return await self._reader.call(lambda: os.read(self._source, _READ_SIZE))

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        try:
            await self._writer.call(lambda: self._write(data))
        except OSError as error:
            self.problem = None if is_gone(error) else error
            raise

    async def unread(self) -> None:
        """See `acp_server.agent.fd_stream.FdStream`. Here only `send` can notice that the client no longer reads, so
        this call does not return."""
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`. A read or write that hangs keeps its thread."""
        self._reader.stop()
        self._writer.stop()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._sink, rest) :]


class _Call:
    """One blocking call. Its result or exception is set before `done`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = anyio.Event()
        self.result: Any = None
        self.error: BaseException | None = None


class _Worker:
    """Makes the blocking calls of one task in a daemon thread, which starts at the first call.

    If the caller is cancelled, its call continues, and the next caller gets the result."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = False
        self._stopped = False
        self._pending: _Call | None = None

    async def call(self, function: Callable[[], Any]) -> Any:
        if self._stopped:
            raise anyio.ClosedResourceError
        if not self._started:
            self._started = True
            loop: Any = anyio.lowlevel.current_token().native_token
            # asyncio's and trio's functions to schedule a callback without waiting for it: waiting for a loop that no
            # longer runs would block the thread for ever.
            soon = loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon
            threading.Thread(target=self._run, args=(soon,), name=self._name, daemon=True).start()
        if self._pending is None:
            self._pending = _Call(function)
            self._calls.put(self._pending)
        call = self._pending
        await call.done.wait()
        self._pending = None
        if call.error is not None:
            raise call.error
        return call.result

    def stop(self) -> None:
        self._stopped = True
        self._calls.put(None)

    def _run(self, soon: Callable[[Callable[[], None]], object]) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call.result = call.function()
            except OSError as error:
                call.error = error
            try:
                soon(call.done.set)
            except RuntimeError:
                return  # the loop has ended without it

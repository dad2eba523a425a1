"""The connection to an agent. It sends requests with typed results and notifications, and handles the loss and the end
of the connection."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import anyio

from acp_server.errors import CapabilityMissing, ConnectionClosed
from acp_server.peer.call import Routes
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.peer.outbound import OnOver, OnResult
from acp_server.peer.stream import Stream
from acp_server.schema import AgentCapabilities, PromptRequest
from acp_server.schema.methods import METHODS, is_announced
from acp_server.schema.reading import read_result
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner

if TYPE_CHECKING:
    from acp_server.client.dialect import Dialect

logger: logging.Logger = logging.getLogger("acp_server.client")

_HEAD: Final = 1024
_UPDATE: Final = re.compile(rb'"method"\s*:\s*"session/update"')
_SESSION: Final = re.compile(rb'"sessionId"\s*:\s*"([^"\\]*)"')


class MeasuredStream:
    """Wraps `stream` and calls `on_loss` with the beginning of each line of more than `limit` bytes."""

    def __init__(self, stream: Stream, limit: int, on_loss: Callable[[bytes], None]) -> None:
        self.error: Exception | None = None
        """Why reading failed. Callers of requests get the end of the connection before the reader raises this."""
        self.heard: int = 0
        """The number of received bytes."""
        self._stream = stream
        self._limit = limit
        self._on_loss = on_loss
        self._head = b""
        self._length = 0

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stream.send(data)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stream.aclose()

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        try:
            data = await self._stream.receive()
        except Exception as error:
            self.error = error
            raise
        self.heard += len(data)
        self._measure(data)
        return data

    def _measure(self, data: bytes) -> None:
        if self._length + len(data) <= self._limit:
            # No line can exceed the limit within these bytes, so only the last line is measured.
            start = data.rfind(b"\n") + 1
            if start:
                self._begin()
            self._add(data[start : start + _HEAD], len(data) - start)
            return
        first, *others = data.split(b"\n")
        self._add(first[:_HEAD], len(first))
        for line in others:
            self._begin()
            self._add(line[:_HEAD], len(line))

    def _begin(self) -> None:
        self._head = b""
        self._length = 0

    def _add(self, head: bytes, length: int) -> None:
        self._head += head[: _HEAD - len(self._head)]
        if self._length <= self._limit < self._length + length:
            self._on_loss(self._head)
        self._length += length


def lost_update(head: bytes) -> tuple[bool, str | None]:
    """Return whether the line with this beginning is an update, and the update's session id, if the beginning contains
    one."""
    session = _SESSION.search(head)
    return _UPDATE.search(head) is not None, None if session is None else session[1].decode(errors="replace")


Explain = Callable[[ConnectionClosed], Awaitable[ConnectionClosed]]
"""Converts the loss of a connection to an error with more details."""


class Link:
    """A connection that runs in its own task. `on_lost` is called once, when the connection has ended. `on_loss` is
    called with the beginning of each line that was too long to be read."""

    def __init__(
        self,
        stream: Stream,
        routes: Routes,
        limits: Limits | None,
        explain: Explain,
        on_lost: Callable[[], None],
        on_loss: Callable[[bytes], None],
    ) -> None:
        limits = limits or Limits()
        self._stream = MeasuredStream(stream, limits.line, on_loss)
        self.connection: Connection = Connection(self._stream, routes, limits)
        self.capabilities: AgentCapabilities | None = None
        """The agent's capabilities; None before `initialize`."""
        self.dialect: Dialect | None = None
        """Translates requests of version 1 if the connection uses a later version; else None."""
        self._explain = explain
        self._on_lost = on_lost
        self._tasks = Spawner(self._crashed)
        self._ending: BaseException | None = None
        self._closing = False
        self._is_lost = False
        """Whether the connection ended before it was closed here."""

    def start(self) -> None:
        """Begin to read."""
        self._tasks.spawn(self._run)

    @property
    def heard(self) -> int:
        """The number of bytes that the agent has sent."""
        return self._stream.heard

    def time(self) -> float:
        """Return the event loop's time in seconds. May be called in a plain callback."""
        return self._tasks.time()

    async def aclose(self) -> None:
        """Close the connection. Running handlers are cancelled, and pending requests fail. Idempotent.

        A cancel does not interrupt this call, since its time is bounded by the connection's limits.
        """
        self._closing = True
        self.connection.close()
        limits = self.connection.limits
        with grace(limits.drain + 4 * limits.end_grace + 2 * limits.flush):
            await self.connection.wait_closed()
            await self._tasks.wait_idle()
        if self._ending is not None:
            raise self._ending

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a task that `aclose` waits for."""
        self._tasks.spawn(function, *args)

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        on_result: OnResult | None = None,
        on_late: OnResult | None = None,
        on_over: OnOver | None = None,
    ) -> Any:
        """See `Peer.request`."""
        try:
            return await self.connection.request(
                method, params, timeout=timeout, on_result=on_result, on_late=on_late, on_over=on_over
            )
        except ConnectionClosed:
            raise await self.loss(method) from self._stream.error

    async def loss(self, method: str) -> ConnectionClosed:
        """Return the exception for a request `method` whose response was lost with the connection."""
        error = ConnectionClosed(method)
        # A caller may notice the loss only after the connection was closed because of it.
        by_us = self._closing and not self._is_lost
        return error if by_us else await self._explain(error)

    async def call(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        on_late: OnResult | None = None,
        on_over: OnOver | None = None,
    ) -> Any:
        """Send a request of the protocol. Its parameters are given as a model. Returns its result as a model."""
        known = METHODS[method]
        self.need(method, known.capability)
        if self.dialect is not None:
            if isinstance(params, PromptRequest):
                return await self.dialect.prompt(params, on_over)
            return await self.dialect.call(method, params, timeout, on_late)
        result = await self.request(method, params, timeout=timeout, on_late=on_late, on_over=on_over)
        return read_result(known.result_type, method, result)

    async def open(self, method: str, params: dict[str, Any], on_late: OnResult) -> Any:
        """Send a request whose result opens a session. Returns the result, with the settings in it in the form of
        version 1."""
        if self.dialect is not None:
            return await self.dialect.open(method, params, on_late)
        return await self.request(method, params, on_late=on_late)

    def announced(self, capability: str | None) -> bool:
        """Whether the agent has announced `capability`, which is written as in `acp_server.schema.methods`. True for
        None."""
        return is_announced(capability, agent=self.capabilities, client=None)

    def need(self, method: str, capability: str | None) -> None:
        """Raise CapabilityMissing unless the agent has announced the `capability` that `method` needs."""
        if not self.announced(capability):
            raise CapabilityMissing(method, str(capability))

    async def _run(self) -> None:
        try:
            await self.connection.run()
        except Exception as error:
            logger.info("the connection to the agent broke: %r", error)
        except (KeyboardInterrupt, SystemExit) as error:
            # A handler wants to end the program; `aclose` raises it in the program's task.
            self._ending = error
        finally:
            self._is_lost = not self._closing
            self._on_lost()

    def _crashed(self, error: BaseException) -> None:
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            logger.error("an internal task of the client failed", exc_info=error)
            self.connection.close()

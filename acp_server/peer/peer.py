"""The peer as handlers see it: outgoing requests and notifications, background tasks, callbacks for the end.

Handlers get it as `Call.connection`. Reading and shutdown are in `acp_server.peer.connection`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio

from acp_server.errors import ConnectionClosed
from acp_server.peer.limits import Limits
from acp_server.peer.notifications import NotificationQueue
from acp_server.peer.observer import Observers
from acp_server.peer.outbound import OnOver, OnResult, PendingRequests
from acp_server.peer.outcome import report
from acp_server.peer.shares import Share
from acp_server.peer.stream import SharingStream, Stream
from acp_server.peer.tracing import with_tracing
from acp_server.peer.writer import Writer
from acp_server.tasks.cause import Cause, is_cancellation, program_end
from acp_server.tasks.grace import Watchdog
from acp_server.tasks.running import Spawner
from acp_server.tasks.threads import Threads
from acp_server.tasks.tree import Node, Scopes
from acp_server.wire.state_machine import Endpoint


class Peer(ABC):
    """The other side of a connection."""

    def __init__(self, stream: Stream, limits: Limits, observers: Observers | None) -> None:
        self.limits = limits
        self.share: Final = stream.share if isinstance(stream, SharingStream) else None
        """The connection's share of the bounds of its server; None if the connection shares none."""
        self.turns: Final = Share(limits.turns, self.share)
        """The bytes of the records of running turns, see `Limits.turns`."""
        self.endpoint: Endpoint = Endpoint(limits.line, limits.batches)
        self.threads: Final = Threads.current()
        """The worker threads of its event loop."""
        self.observers: Final = with_tracing(observers)
        self.work: Final = Spawner(self._crashed)
        """Tasks of requests. Each must run in a node of the tree, where a cancel reaches it."""
        self.lasting: Final = Spawner(self._crashed)
        """Tasks that outlive their request. Each must run in a node below `cleanups`."""
        self._cleaning = Spawner(self._crashed)
        self._house = Spawner(self._crashed)
        self.scopes: Final = Scopes()
        self.tree: Final = Node(None, "connection", self.scopes)
        """The root of the task tree. Each request of the peer is a node below it."""
        self.cleanups: Final = Node(None, "cleanups", self.scopes)
        """The node above cleanup and other work that outlives requests. The owner of such work ends it in an `on_close`
        callback at the latest; after the callbacks it is cancelled."""
        on_sent = None if self.observers is None else self.observers.sent
        self.writer: Writer = Writer(stream, self._writer_broken, on_sent)
        self.watchdog: Watchdog = Watchdog(limits.patience, self._house)
        """The watchdog of requests, whose grace period is `Limits.grace`."""
        self.watchdogs: Final[dict[float, Watchdog]] = {limits.patience: self.watchdog}
        """The watchdogs by their grace period, since a watchdog has one grace period for all of its entries."""
        self._notifications = NotificationQueue(self.scopes, self.work.spawn, limits.notifications)
        self._pending = PendingRequests(self.endpoint, self.writer, self.scopes, self._notifications.deliver)
        self._fatal: BaseException | None = None
        self._closed = anyio.Event()
        self.leaked = 0
        """The number of tasks that did not end and were abandoned when the connection closed."""
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @abstractmethod
    def close(self, cause: Cause = Cause.SHUTDOWN) -> None:
        """Begin to close. In-flight requests are cancelled and answered, and later requests are refused. Idempotent.
        Does not wait. May be called in any thread."""

    @abstractmethod
    def _writer_broken(self) -> None:
        """Called when the peer stopped reading."""

    def request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        on_result: OnResult | None = None,
        on_late: OnResult | None = None,
        on_over: OnOver | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Send a request when awaited, and wait for its result (JSON-RPC 2.0, section 4).

        If the caller is cancelled, the request is withdrawn. The peer then gets one `$/cancel_request`, unless it has
        not seen the request or has responded. `timeout`: seconds until the request is withdrawn and RequestTimeout is
        raised.

        `on_result` gets the result in order with the notifications: before the caller continues, and before the next
        notification is handled. `on_late` gets the result of a withdrawn request, to release what it created. `on_over`
        is called when nothing more will come of a withdrawn request. None of them may wait.

        Raises RpcError for the peer's error answer (RequestCancelled for -32800), ConnectionClosed, RequestTimeout,
        MalformedResponse, and EncodeError for params that JSON cannot express.
        """
        return self._pending.request(method, params, timeout, on_result, on_late, on_over)

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification. This never waits, because the frame is buffered. Raises ConnectionClosed and
        EncodeError."""
        self._pending.notify(method, params)

    async def send_room(self) -> None:
        """Wait while the peer has not read enough of the output. This is backpressure for a caller that sends much.
        Raises ConnectionClosed."""
        await self.writer.room()

    def background(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start cleanup that outlives its request. Closing waits for the cleanup within the grace period and then
        cancels it. Exceptions are logged. On a closed connection the cleanup is not started."""
        self._cleaning.spawn(self._clean_up, function, args)

    def cancel(self, node: Node, cause: Cause) -> bool:
        """Cancel a node of this connection, from any thread. Returns False if the node is closed or was cancelled."""
        if node.closed or node.cause is not None:
            return False
        self.threads.soon(lambda: node.cancel(cause))
        return True

    @property
    def is_lost(self) -> bool:
        """Whether the peer will not respond any more, because its output has ended or the connection is closing."""
        return self._pending.is_lost

    async def wait_closed(self) -> None:
        """Wait until the connection and its stream are closed."""
        await self._closed.wait()

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Register `closer`, which is called at the end of the connection, after all handlers and outgoing requests.
        Callbacks run in order behind a shield, all of them within one grace period. Exceptions are logged. Raises
        ConnectionClosed if the callbacks have already run."""
        if self.cleanups.cause is not None:
            raise ConnectionClosed
        self._closers.append(closer)

    def _fail(self, error: BaseException) -> None:
        """Close the connection and raise `error`, a SystemExit or KeyboardInterrupt of a handler, from `run`."""
        self._fatal = self._fatal or error
        self.close()

    async def _clean_up(self, function: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
        node = self.cleanups.child(getattr(function, "__qualname__", repr(function)))
        _, error = await node.run(function, *args)
        node.close()
        if error is not None:
            self._failed(f"the cleanup {node.label}", error)

    def _failed(self, what: str, error: BaseException) -> None:
        if (ending := program_end(error)) is not None:
            self._fail(ending)
        else:
            report(what, error)

    def _crashed(self, error: BaseException) -> None:
        if not is_cancellation(error):
            self._failed("an internal task", error)
            self.close()

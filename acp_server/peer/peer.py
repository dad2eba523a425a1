"""The program at the other end, as handlers see it: what they send to it, and tasks in the background.

Handlers have it as `Call.connection`. What is read of the peer, and how all of this ends, is in
`acp_server.peer.connection`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio

from acp_server.errors import ConnectionClosed
from acp_server.peer.limits import Limits
from acp_server.peer.notifications import NotificationQueue
from acp_server.peer.outbound import OnOver, OnResult, PendingRequests
from acp_server.peer.outcome import report
from acp_server.peer.stream import Stream
from acp_server.peer.tracing import tracing
from acp_server.peer.writer import Writer
from acp_server.tasks.cause import Cause, is_cancellation, program_end
from acp_server.tasks.grace import Watchdog
from acp_server.tasks.scopes import Scopes
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.threads import Threads
from acp_server.tasks.tree import Node
from acp_server.wire.state_machine import Endpoint


class Peer(ABC):
    """The other side of a connection."""

    def __init__(self, stream: Stream, limits: Limits) -> None:
        self.limits = limits
        self.endpoint: Endpoint = Endpoint(limits.line, limits.batches)
        self._threads = Threads.current()
        self.tracing: Final = tracing()
        # What the peer has us do, what we do after it, and what all that needs.
        self.work: Final = Spawner(self._crashed)
        """The tasks of what runs for the peer; each must run inside a node of the tree, where a cancel reaches it."""
        self.lasting: Final = Spawner(self._crashed)
        """The tasks of what outlives requests; each must run inside a node of `outlasting`."""
        self._cleaning = Spawner(self._crashed)
        self._house = Spawner(self._crashed)
        self.scopes: Final = Scopes()
        self.tree: Final = Node(None, "connection", self.scopes)
        """What runs for the peer: each of its requests is nested in it."""
        self._cleanups = Node(None, "cleanups", self.scopes)
        self.writer: Writer = Writer(stream, self._writer_broken)
        self.watchdog: Watchdog = Watchdog(limits.patience, self._house)
        # One for each patience, since a watchdog has the same for all that it watches.
        self._watchdogs: dict[float, Watchdog] = {limits.patience: self.watchdog}
        self._notifications = NotificationQueue(self.scopes, self.work.spawn, limits.notifications)
        self._pending = PendingRequests(self.endpoint, self.writer, self.scopes, self._notifications.deliver)
        self._fatal: BaseException | None = None
        self._closed = anyio.Event()
        self.leaked = 0
        """How many tasks refused to end and were left behind when the connection closed."""
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @abstractmethod
    def close(self, cause: Cause = Cause.SHUTDOWN) -> None:
        """Begin to close: all that runs is cancelled and answered, what still arrives is refused. Idempotent, never
        waits. From any thread."""

    @abstractmethod
    def _writer_broken(self) -> None:
        """The peer does not read any more."""

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
        """Ask the peer and wait for its result (JSON-RPC 2.0, section 4), when it is awaited.

        Being cancelled meanwhile withdraws the request: the peer gets one `$/cancel_request`, unless it has not seen
        the request or has answered it. `timeout`: seconds until the same happens with RequestTimeout.

        `on_result`: takes the result when its turn among the notifications comes, which is before the caller goes on,
        and before the next notification is handled. `on_late`: takes the result if the caller waits no more, to release
        what it created. `on_over`: called once nothing more will come of a request whose caller waits no more. None of
        them may wait.

        Raises RpcError for the peer's error answer (RequestCancelled for -32800), ConnectionClosed, RequestTimeout,
        MalformedResponse, and EncodeError for params that JSON cannot express.
        """
        return self._pending.request(method, params, timeout, on_result, on_late, on_over)

    def notify(self, method: str, params: Any = None) -> None:
        """Queue a notification; never waits. Raises ConnectionClosed and EncodeError."""
        self._pending.notify(method, params)

    async def send_room(self) -> None:
        """Wait while the peer is behind with reading. For a caller that sends much. Raises ConnectionClosed."""
        await self.writer.room()

    def watchdog_of(self, seconds: float | None) -> Watchdog:
        """The watch of cancelled work that may clean up for so many seconds; None: for `Limits.grace`."""
        if seconds is None:
            return self.watchdog
        return self._watchdogs.setdefault(seconds, Watchdog(seconds, self._house))

    def ticker(self, seconds: float) -> Watchdog:
        """A watch of one's own. It is not finished when the connection closes: what it calls must know by itself."""
        return Watchdog(seconds, self._house)

    def background(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start cleanup that outlives the request it belongs to. Closing waits for it, within the grace, and then
        cancels it. What it raises is logged. When the connection is closed, it is not started any more."""
        self._cleaning.spawn(self._clean_up, function, args)

    def outlasting(self, label: str) -> Node:
        """A node that its owner ends, at the latest in an `on_close`; behind those it is cancelled."""
        return self._cleanups.child(label)

    def cancel(self, node: Node, cause: Cause) -> bool:
        """Cancel a node of this connection, from any thread. False if it is closed or was cancelled."""
        if node.closed or node.cause is not None:
            return False
        self._threads.soon(lambda: node.cancel(cause))
        return True

    @property
    def is_lost(self) -> bool:
        """Whether the peer answers nothing any more, because its output has ended or the connection closes."""
        return self._pending.is_lost

    async def wait_closed(self) -> None:
        """Wait until the connection is closed and the stream is let go."""
        await self._closed.wait()

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Have `closer` called when nothing runs for the peer any more and no request of ours is waiting; once, in
        order, without being cancelled, all of them within the grace. What one raises is logged. Raises ConnectionClosed
        if it is too late for that."""
        if self._cleanups.cause is not None:
            raise ConnectionClosed
        self._closers.append(closer)

    def fail(self, error: BaseException) -> None:
        """A handler wants to end the program: close, then raise `error` from `run`."""
        self._fatal = self._fatal or error
        self.close()

    async def _clean_up(self, function: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
        node = self._cleanups.child(getattr(function, "__qualname__", repr(function)))
        _, error = await node.run(function, *args)
        node.close()
        if error is not None:
            self._failed(f"the cleanup {node.label}", error)

    def _failed(self, what: str, error: BaseException) -> None:
        if (ending := program_end(error)) is not None:
            self.fail(ending)
        else:
            report(what, error)

    def _crashed(self, error: BaseException) -> None:
        if not is_cancellation(error):
            self._failed("an internal task", error)
            self.close()

"""One live JSON-RPC connection, both directions, from the first byte to the last answer.

It owns the reader and the order of the ending; the peer's requests are in `inbound`, ours in `outbound`. A cancel is
applied in the reader, never queued behind a handler. What the methods mean is in the routes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.errors import ConnectionClosed
from acp_server.peer.inbound import Inbound
from acp_server.peer.lane import Lane
from acp_server.peer.limits import Limits
from acp_server.peer.outbound import OnLate, OnOver, Outbox, in_notification
from acp_server.peer.outcome import program_end
from acp_server.peer.reader import Handlers, Reader
from acp_server.peer.report import report
from acp_server.peer.route import NoticeHandler, Routes
from acp_server.peer.stream import Stream
from acp_server.peer.tracing import tracing
from acp_server.peer.writer import Writer
from acp_server.tasks.cause import Cause
from acp_server.tasks.failure import is_cancellation
from acp_server.tasks.grace import Watch, grace
from acp_server.tasks.scopes import Scopes
from acp_server.tasks.spawn import Spawner
from acp_server.tasks.steps import Steps
from acp_server.tasks.threads import Threads
from acp_server.tasks.tree import Node
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import CANCEL_METHOD, Answered, Dropped, Endpoint, Outgoing

logger = logging.getLogger("acp_server.peer")


class Connection:
    """A peer. Make it and `run` it in a task of yours; handlers and other tasks send through it meanwhile."""

    def __init__(self, stream: Stream, routes: Routes, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.endpoint = Endpoint(self.limits.line, self.limits.batches)
        self.leaked = 0
        """How many tasks refused to end and were left behind when the connection closed."""
        self._stream = stream
        self._routes = routes
        self._threads = Threads.current()
        self.tracing: Final = tracing()
        # What the peer has us do, what we do after it, and what all that needs.
        self.work: Final = Spawner(self._crashed, Steps.current())
        """The tasks of what runs for the peer; each must run inside a node of the tree, where a cut reaches it."""
        self.lasting: Final = Spawner(self._crashed)
        """The tasks of what outlives requests; each must run inside a node of `outlasting`."""
        self._cleaning = Spawner(self._crashed)
        self._house = Spawner(self._crashed)
        scopes = Scopes()
        self._cleanups = Node(None, "cleanups", scopes)
        self.writer = Writer(stream, self._writer_broken)
        self.watch = Watch(self.limits.grace, self._house)
        self._lane = Lane(scopes, self.work.spawn, self.limits.notifications)
        self._outbox = Outbox(self.endpoint, self.writer, scopes, self._lane.deliver)
        self._inbound = Inbound(self, routes, self.endpoint, self.writer, self.work, scopes, self.limits)
        handlers: Handlers = {
            Request: self._inbound.begin,
            Notification: self._notice,
            Answered: self._outbox.answered,
            Outgoing: self._say,
            Dropped: lambda event: logger.debug("dropped: %s", event.reason),
        }
        self._reader = Reader(
            stream, self.endpoint, self.writer, handlers, self._hurry, self.limits.unread, self.limits.flush
        )
        self._reading = anyio.CancelScope()
        self._closing: Cause | None = None
        self._patience = 0.0
        self._begun = False
        self._fatal: BaseException | None = None
        self._closed = anyio.Event()
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @property
    def tree(self) -> Node:
        """What is running for the peer."""
        return self._inbound.tree

    # -- sending

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        on_late: OnLate | None = None,
        on_over: OnOver | None = None,
    ) -> Any:
        """Ask the peer and wait for its result (JSON-RPC 2.0, section 4).

        Being cancelled meanwhile withdraws the request: the peer gets one `$/cancel_request`, unless it has not seen
        the request or has answered it. `timeout`: seconds until the same happens with RequestTimeout. `on_late`: takes
        the result if it comes when the caller waits no more, to release what it created; it must not wait.
        `on_over`: called once nothing more will come of a request whose caller waits no more.

        Raises RpcError for the peer's error answer (RequestCancelled for -32800), ConnectionClosed, RequestTimeout,
        MalformedResponse, and EncodeError for params that JSON cannot express.
        """
        return await self._outbox.request(method, params, timeout, on_late, on_over)

    def notify(self, method: str, params: Any = None) -> None:
        """Queue a notification; never waits. Raises ConnectionClosed and EncodeError."""
        self._outbox.notify(method, params)

    async def send_room(self) -> None:
        """Wait while the peer is behind with reading. For those who send much. Raises ConnectionClosed."""
        await self.writer.room()

    def ticker(self, seconds: float) -> Watch:
        """A watch of one's own. It is not finished when the connection closes: what it calls must know by itself."""
        return Watch(seconds, self._house)

    def background(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start cleanup that outlives the request it belongs to. Closing waits for it, within the grace, and then cuts
        it. What it raises is logged. When the connection is closed, it is not started any more."""
        self._cleaning.spawn(self._clean_up, function, args)

    def outlasting(self, label: str) -> Node:
        """A node that its owner ends, at the latest in an `on_close`; behind those it is cut."""
        return self._cleanups.child(label)

    def cut(self, node: Node, cause: Cause) -> bool:
        """Cut a node of this connection, from any thread. False if it is closed or was cut."""
        if node.closed or node.cause is not None:
            return False
        self._threads.soon(lambda: node.cut(cause))
        return True

    # -- its life

    async def run(self) -> None:
        """Serve until the input ends or `close` is called; then answer, clean up and close the stream, within bounds.

        Being cancelled closes it in the same way and then propagates; being cancelled natively once more, on asyncio,
        ends the cleaning up. Raises OSError or anyio's BrokenResourceError if reading failed; SystemExit or
        KeyboardInterrupt if a handler did.
        """
        if self._begun:
            raise RuntimeError("a connection runs only once")
        self._begun = True
        # Its requests need not wait less because it was started by the handler of another connection's notification.
        token = in_notification.set(False)
        self._house.spawn(self.writer.run)
        try:
            with self._reading:
                await self._reader.run()
            if self._closing is None:
                self._outbox.lose()
                self._inbound.close()
                with anyio.move_on_after(self.limits.closing):
                    await self._inbound.begun()
                with anyio.move_on_after(self.limits.drain):
                    await self._idle()
        except BaseException as error:
            # Cancelled from outside, or the input is broken: in neither case is there anything left to wait for.
            self._cut(Cause.CLOSED if isinstance(error, Exception) else Cause.SHUTDOWN)
            raise
        finally:
            try:
                await self._wind_down()
            finally:
                in_notification.reset(token)
        if self._fatal is not None:
            raise self._fatal

    def close(self, cause: Cause = Cause.SHUTDOWN) -> None:
        """Begin to close: all that runs is cut and answered, what still arrives is refused. Idempotent, never waits.
        From any thread.

        It is `run` that then ends and lets go of the stream. Before it is called, our requests fail at once.
        """
        self._threads.soon(lambda: self._close(cause))

    def _close(self, cause: Cause) -> None:
        if self._closing is None:
            self._cut(cause)
            if self._begun:
                # Reading goes on while they clean up, for cleaning up may need answers.
                self._house.spawn(self._stop_reading)
            else:
                self._reading.cancel()
                self._outbox.close()

    @property
    def is_lost(self) -> bool:
        """Whether the peer answers nothing any more, because its output has ended or the connection closes."""
        return self._outbox.is_lost

    async def wait_closed(self) -> None:
        """Wait until the connection is closed and the stream is let go."""
        await self._closed.wait()

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Have `closer` called when nothing runs for the peer any more and no request of ours is waiting; once, in
        order, uncut, and all of them within the grace. What one raises is logged. Raises ConnectionClosed if it is too
        late for that."""
        if self._cleanups.cause is not None:
            raise ConnectionClosed
        self._closers.append(closer)

    def fail(self, error: BaseException) -> None:
        """A handler wants to end the program: close, then raise `error` from `run`."""
        self._fatal = self._fatal or error
        self.close()

    def _say(self, event: Outgoing) -> None:
        if event.reason is not None:
            logger.debug("not JSON: %s", event.reason)
        self.writer.put(event.frame)

    def _notice(self, notification: Notification) -> None:
        method = notification.method
        params = notification.params
        if method == CANCEL_METHOD:
            self._inbound.cancel(params)
        for notice in self._routes.notices.get(method, ()):
            if notice.inline:
                self._call_inline(method, notice.handler, params)
            elif self._lane.has_room(method, notification.size):
                self._lane.notify(method, partial(notice.handler, self, params), notification.size)

    def _hurry(self, notification: Notification) -> None:
        """Apply a cancel ahead of its turn; it has no effect when its turn comes."""
        if notification.method == CANCEL_METHOD:
            self._inbound.cancel(notification.params)
        for notice in self._routes.notices.get(notification.method, ()):
            if notice.inline:
                self._call_inline(notification.method, notice.handler, notification.params)

    def _call_inline(self, method: str, handler: NoticeHandler, params: Any) -> None:
        try:
            handler(self, params)
        except BaseException as error:
            if program_end(error) is not None:
                raise
            report(f"the handler of {method}", error)

    def _cut(self, cause: Cause) -> None:
        """Cut what runs for the peer, and refuse what comes. It may clean up for as long as the patience lasts."""
        if self._closing is None:
            self._closing = cause
            self._patience = self._house.time() + self.limits.grace
            self._inbound.close()
            self._lane.node.cut(cause)
            self.tree.cut(cause)

    async def _idle(self) -> None:
        await self.work.wait_idle()
        await self._cleaning.wait_idle()

    async def _stop_reading(self) -> None:
        try:
            with anyio.CancelScope(deadline=self._patience):
                await self._idle()
        finally:
            self._reading.cancel()

    async def _wind_down(self) -> None:
        limits = self.limits
        self._outbox.lose()
        self._cut(Cause.CLOSED)
        try:
            with grace(2 * (limits.grace + limits.flush) + 1):
                with anyio.move_on_after(limits.flush):
                    await self._reader.finish()
                with anyio.CancelScope(deadline=self._patience):
                    await self._idle()
                self.tree.finish_cuts()
                # However short the patience is, what is cut may end.
                await anyio.lowlevel.checkpoint()
                await self.watch.finish()
                self._outbox.close()
                if self._closers:
                    self.background(self._call_closers)
                with anyio.move_on_after(limits.grace):
                    await self._cleaning.wait_idle()
                self._cleanups.cut(Cause.SHUTDOWN)
                self.writer.close()
                with anyio.move_on_after(limits.flush):
                    await self._house.wait_idle()
                    await self._cleaning.wait_idle()
                    await self.lasting.wait_idle()
        finally:
            # Also reached if the embedding task is cancelled natively once more: nothing may be left that could go on.
            self.tree.finish_cuts()
            self.watch.finish_now()
            self._cleanups.cut(Cause.SHUTDOWN)
            self._cleanups.finish_cuts()
            self._lane.node.let_be()
            self._cleanups.let_be()
            self.writer.abort()
            self.leaked = self.work.running + self._cleaning.running + self.lasting.running
            if self.leaked:
                logger.error("%d tasks ignored their cancellation and were left behind", self.leaked)
            try:
                with grace(limits.flush):
                    await self._stream.aclose()
                    await self._house.wait_idle()
            finally:
                self._closed.set()

    async def _clean_up(self, function: Callable[..., Coroutine[Any, Any, None]], args: tuple[Any, ...]) -> None:
        node = self._cleanups.child(getattr(function, "__qualname__", repr(function)))
        _, error = await node.run(function, *args)
        node.close()
        if error is not None:
            self._failed(f"the cleanup {node.label}", error)

    async def _call_closers(self) -> None:
        # Let tasks that were woken by an answer run before the close callbacks.
        await anyio.lowlevel.checkpoint()
        while self._closers:
            try:
                await self._closers.pop(0)()
            except BaseException as error:
                # Be it because the time is up: those that are left do what they can do without waiting.
                self._failed("a callback for the end of the connection", error)

    def _writer_broken(self) -> None:
        self._outbox.close()
        self._cut(Cause.CLOSED)
        self._reading.cancel()

    def _failed(self, what: str, error: BaseException) -> None:
        if (ending := program_end(error)) is not None:
            self.fail(ending)
        else:
            report(what, error)

    def _crashed(self, error: BaseException) -> None:
        if not is_cancellation(error):
            self._failed("an internal task", error)
            self.close()

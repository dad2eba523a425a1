"""One JSON-RPC connection, from the first byte to the last response.

It owns the reader and the order of the shutdown. Incoming requests are in `inbound`, outgoing requests in `peer`. A
cancel is applied in the reader and never queued behind a handler. The routes define the methods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.peer.call import NoticeHandler, Routes
from acp_server.peer.inbound import Inbound
from acp_server.peer.limits import Limits
from acp_server.peer.observer import Observers
from acp_server.peer.outbound import in_notification
from acp_server.peer.outcome import report, report_cancelled
from acp_server.peer.peer import Peer
from acp_server.peer.reader import Handlers, Reader
from acp_server.peer.stream import Stream
from acp_server.tasks.cause import Cause, failures_in, is_cancellation, program_end
from acp_server.tasks.grace import grace
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import CANCEL_METHOD, Answered, Dropped, Outgoing

logger: logging.Logger = logging.getLogger("acp_server.peer")

_LAST_ROUNDS: Final = 10
"""The most rounds of the event loop in which cancelled work can end or withdraw its requests once the grace period is
over."""


class Connection(Peer):
    """A connection to a peer. The caller runs `run` in a task. Meanwhile handlers and other tasks send through the
    connection."""

    def __init__(
        self, stream: Stream, routes: Routes, limits: Limits | None = None, observers: Observers | None = None
    ) -> None:
        super().__init__(stream, limits or Limits(), observers)
        self._stream = stream
        self._routes = routes
        self._inbound = Inbound(self, routes, self._fail)
        handlers: Handlers = {
            Request: self._inbound.begin,
            Notification: self._notice,
            Answered: self._pending.answered,
            Outgoing: self._say,
            Dropped: self._dropped,
        }
        self._reader = Reader(
            stream,
            self.endpoint,
            self.writer,
            handlers,
            self._hurry,
            self._inbound.dispatcher.settle,
            self.limits.unread,
            self.limits.flush,
            None if self.observers is None else self.observers.received,
        )
        self._reading = anyio.CancelScope()
        self._idling = anyio.CancelScope()
        self._all_read = anyio.Event()
        """Set when reading has ended."""
        self._ending = anyio.Event()
        """Set when reading has ended or the connection begins to close."""
        self._closing: Cause | None = None
        self._patience = 0.0
        self._begun = False
        self._are_closers_called = False
        """Whether the close callbacks are running."""

    # -- its life

    async def run(self) -> None:
        """Serve until the end of input or `close`. Then answer requests, clean up and close the stream, with deadlines.

        A cancel closes the connection in the same way and then propagates. A second native cancel on asyncio ends the
        cleanup. Raises OSError or anyio's BrokenResourceError if reading failed, and SystemExit or KeyboardInterrupt of
        a handler.
        """
        if self._begun:
            raise RuntimeError("run() of a connection can be called only once")
        self._begun = True
        self._house.spawn(self.writer.run)
        # In another task, which a cancel of this one does not reach: cleanup may need responses of the peer.
        self._house.spawn(self._read_all)
        try:
            await self._ending.wait()
            if self._closing is None:
                have_begun = True
                with anyio.move_on_after(self.limits.closing):
                    have_begun = await self._inbound.begun(self.limits.drain)
                if have_begun:
                    with anyio.move_on_after(self.limits.drain):
                        await self._idle()
        except BaseException:
            # Cancelled from outside.
            self._cancel_all(Cause.SHUTDOWN)
            raise
        finally:
            await self._wind_down()
        if self._fatal is not None:
            raise self._fatal

    def close(self, cause: Cause = Cause.SHUTDOWN) -> None:
        """Close the connection (see `Peer`). `run` then ends and closes the stream. Without a `run`, outgoing requests
        fail at once."""
        self.threads.soon(lambda: self._close(cause))

    def _close(self, cause: Cause) -> None:
        if self._closing is None:
            self._cancel_all(cause)
            if not self._begun:
                self._reading.cancel()
                self._pending.close()

    async def _read_all(self) -> None:
        # The context may come from the handler of another connection's notification.
        in_notification.set(False)
        try:
            with self._reading:
                await self._reader.run()
                self._pending.lose()
                self._inbound.close()
        except BaseException as error:
            self._cancel_all(Cause.CLOSED if isinstance(error, Exception) else Cause.SHUTDOWN)
            # While it reads ahead, the reader raises the exception group of its two tasks.
            failures = list(failures_in(error))
            self._fatal = self._fatal or (failures[0] if len(failures) == 1 else error)
        finally:
            self._all_read.set()
            self._ending.set()

    def _say(self, event: Outgoing) -> None:
        if event.reason is not None:
            logger.debug("a line is not valid JSON: %s", event.reason)
        self.writer.put(event.frame)

    def _dropped(self, event: Dropped) -> None:
        logger.debug("dropped: %s", event.reason)
        if event.notification is not None:
            self._routes.dropped(event.notification, event.reason)

    def _notice(self, notification: Notification) -> None:
        method = notification.method
        params = notification.params
        if method == CANCEL_METHOD:
            self._inbound.cancel(params)
        for notice in self._routes.notices.get(method, ()):
            if notice.inline:
                self._call_inline(method, notice.handler, params)
            elif self._notifications.has_room(method, notification.size):
                self._notifications.notify(method, partial(notice.handler, self, params), notification.size)

    def _hurry(self, notification: Notification) -> None:
        """Apply a cancel before earlier messages. When the cancel is applied again in its order, it has no effect."""
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

    def _cancel_all(self, cause: Cause) -> None:
        """Cancel all requests and handlers, refuse later requests, and begin the grace period."""
        if self._closing is None:
            self._closing = cause
            self._ending.set()
            self._patience = self._house.time() + self.limits.end_grace
            self._inbound.close()
            self._notifications.node.cancel(cause)
            self.tree.cancel(cause)

    async def _idle(self) -> None:
        await self.work.wait_idle()
        await self._cleaning.wait_idle()

    async def _stop_reading(self) -> None:
        try:
            with self._idling:
                self._idling.deadline = self._patience
                await self._idle()
        finally:
            self._reading.cancel()

    async def _wind_down(self) -> None:
        limits = self.limits
        self._cancel_all(Cause.CLOSED)
        try:
            with grace(2 * (limits.end_grace + limits.flush) + 1):
                if not self._all_read.is_set():
                    self._house.spawn(self._stop_reading)
                    await self._all_read.wait()
                    self._idling.cancel()
                if self._closing is not Cause.CLOSED:
                    # The peer is still connected: let cancelled handlers withdraw their requests.
                    await self._last_rounds(lambda: not self.endpoint.ledger.outgoing)
                self._pending.lose()
                with anyio.move_on_after(limits.flush):
                    await self._reader.finish()
                with anyio.CancelScope(deadline=self._patience):
                    await self._idle()
                # Also with a grace period of 0, cancelled work may end, as may work that has just left a shield.
                await self._last_rounds(lambda: not self.work.running)
                for watchdog in [*self.watchdogs.values()]:
                    await watchdog.finish()
                self._pending.close()
                self._begin_closers()
                with anyio.move_on_after(limits.end_grace):
                    await self._cleaning.wait_idle()
                self.cleanups.cancel(Cause.SHUTDOWN)
                self.writer.close()
                with anyio.move_on_after(limits.flush):
                    await self._house.wait_idle()
                    await self._cleaning.wait_idle()
                    await self.lasting.wait_idle()
        finally:
            # Also reached by a second native cancel of the embedding task. No task may be left running.
            self._reading.cancel()
            self._idling.cancel()
            self._pending.lose()
            self.tree.finish_cancels()
            for watchdog in [*self.watchdogs.values()]:
                watchdog.finish_now()
            try:
                await self._late_closers()
            finally:
                self._let_go()
            try:
                with grace(limits.flush):
                    await self._stream.aclose()
                    await self._house.wait_idle()
            finally:
                self._closed.set()

    async def _late_closers(self) -> None:
        """Run the close callbacks that a native cancel has interrupted. At the end of `asyncio.run` all tasks are
        cancelled natively, except tasks that start here."""
        self._pending.close()
        self._begin_closers()
        if self._are_closers_called:
            with grace(self.limits.end_grace):
                await self._cleaning.wait_idle()

    def _begin_closers(self) -> None:
        if self._closers and not self._are_closers_called and self.cleanups.cause is None:
            self._are_closers_called = True
            self.background(self._call_closers)

    def _let_go(self) -> None:
        """Abandon tasks that have not ended."""
        self.cleanups.cancel(Cause.SHUTDOWN)
        self.cleanups.finish_cancels()
        self._notifications.node.stop_cancelling()
        self.cleanups.stop_cancelling()
        self.writer.abort()
        self.leaked: int = self.work.running + self._cleaning.running + self.lasting.running
        if self.leaked:
            logger.error("%d tasks did not end after their cancel and were abandoned", self.leaked)

    async def _last_rounds(self, is_over: Callable[[], bool]) -> None:
        self.tree.finish_cancels()
        for _ in range(_LAST_ROUNDS):
            if is_over():
                break
            await anyio.lowlevel.checkpoint()

    async def _call_closers(self) -> None:
        # Tasks that were woken by a response run before the close callbacks. A cancel here must not skip the callbacks.
        with suppress(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        while self._closers:
            try:
                await self._closers.pop(0)()
            except BaseException as error:
                what, cause = "a callback for the end of the connection", self.cleanups.cause
                if cause is None and is_cancellation(error):
                    logger.warning("%s was cancelled by code outside the runtime", what)
                elif cause is None or program_end(error) is not None:
                    self._failed(what, error)
                else:
                    # The grace period is over: the remaining callbacks run up to their first await.
                    report_cancelled(logger, what, cause, error)
        self._are_closers_called = False

    def _writer_broken(self) -> None:
        self._pending.close()
        self._cancel_all(Cause.CLOSED)
        self._reading.cancel()

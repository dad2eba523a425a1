"""Outgoing requests and notifications: sending, waiting, withdrawal, late responses, loss of the connection.

A request is withdrawn where the cancel of its caller takes effect. Behind a shield the caller still waits. The
withdrawal sends a `$/cancel_request` if the peer may have seen the request. The caller does not wait for the peer's
response to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio

from acp_server.errors import ConnectionClosed, MalformedResponse, RequestTimeout, RpcError
from acp_server.peer.writer import Writer
from acp_server.tasks.running import Future, Futures
from acp_server.tasks.tree import Scopes
from acp_server.wire.messages import Response
from acp_server.wire.state_machine import Answered, Endpoint, OutgoingRequest, RequestState

logger: logging.Logger = logging.getLogger("acp_server.peer")

in_notification: ContextVar[bool] = ContextVar("in_notification", default=False)
"""Whether this code runs in the handler of a notification, or in a task that such a handler started."""

OnResult = Callable[[Any], None]
"""A callback with the result of a request. It must not wait or raise."""

OnOver = Callable[[], None]
"""A callback for the end of a request whose caller stopped waiting. The request was answered, or was never sent. The
callback must not wait or raise."""


class PendingRequest(OutgoingRequest):
    """One outgoing request, with the callbacks of `Peer.request`."""

    __slots__ = ("_future", "_on_late", "_on_over", "_on_result", "jumps_queue", "response")

    def __init__(
        self,
        method: str,
        on_result: OnResult | None,
        on_late: OnResult | None,
        on_over: OnOver | None,
        future: Future,
    ) -> None:
        super().__init__(method, any((on_result, on_late, on_over)))
        self._on_result = on_result
        self._on_late = on_late
        self._on_over = on_over
        self.response: Response | None = None
        """The response, once it has arrived; the caller may be woken later."""
        # The response must not queue behind the notification whose handler waits for it.
        self.jumps_queue: bool = in_notification.get()
        self._future = future

    def wake(self) -> None:
        """Wake the caller, with the response, or without one if the connection is lost."""
        if not self._future.done():
            if self._on_result is not None:
                self._give_once()
            self._future.set_result(None)

    def abandon(self) -> None:
        """Pass a result that has arrived to `on_late`, because the caller was cancelled."""
        if self.response is None:
            return
        self._give_once()
        self._give(self._on_late)
        self.over()

    def _give_once(self) -> None:
        function, self._on_result = self._on_result, None
        self._give(function)

    def _give(self, function: OnResult | None) -> None:
        response = self.response
        if function is not None and response is not None and response.error is None and response.malformed is None:
            try:
                function(response.result)
            except Exception:
                logger.exception("a callback for the result of the request %s failed", self.method)

    def over(self) -> None:
        """Call `on_over`, because the caller stopped waiting and no response will come any more."""
        if self._on_over is not None:
            try:
                self._on_over()
            except Exception:
                logger.exception("a callback for the end of the request %s failed", self.method)

    def result(self) -> Any:
        """Return the result of the response. Raises RpcError, MalformedResponse or ConnectionClosed."""
        response = self.response
        if response is None:
            raise ConnectionClosed(self.method)
        if response.malformed is not None:
            raise MalformedResponse(self.method, response.malformed)
        if response.error is not None:
            error = RpcError.from_wire(response.error)
            error.received = True
            error.method = self.method
            raise error
        return response.result


class PendingRequests:
    """The outgoing requests and notifications of one connection."""

    __slots__ = ("_closed", "_deliver", "_endpoint", "_futures", "_scopes", "_writer", "is_lost")

    def __init__(
        self, endpoint: Endpoint, writer: Writer, scopes: Scopes, deliver: Callable[[Callable[[], None]], None]
    ) -> None:
        self._endpoint = endpoint
        self._writer = writer
        self._scopes = scopes
        self._deliver = deliver
        self._futures = Futures()
        self.is_lost = False
        """Whether requests are refused, because the peer will not respond any more."""
        self._closed = False

    async def request(
        self,
        method: str,
        params: Any,
        timeout: float | None,
        on_result: OnResult | None,
        on_late: OnResult | None,
        on_over: OnOver | None,
    ) -> Any:
        """See `Connection.request`."""
        # Before anything is registered: with `asyncio.run` in a thread, the caller is in another event loop.
        if threading.get_ident() != self._scopes.home:
            self._writer.check_thread()
        futures = self._futures
        await futures.checkpoint_if_cancelled()
        if self.is_lost:
            raise ConnectionClosed(method)
        future = futures.make()
        asked = PendingRequest(method, on_result, on_late, on_over, future)
        ticket = self._writer.put(self._endpoint.request(asked, params))
        try:
            if timeout is None:
                await future
            else:
                with anyio.move_on_after(timeout):
                    await future
            # The response and a cancel may arrive in one round of the loop. The cancel wins.
            if self._scopes.due:
                self._scopes.deliver()
            await futures.checkpoint_if_cancelled()
        except BaseException:
            # The caller is cancelled, but the response may have arrived in the same round.
            asked.abandon()
            raise
        finally:
            if asked.state is RequestState.WAITING:
                self._withdraw(asked, ticket)
        if asked.state is RequestState.WITHDRAWN:
            assert timeout is not None
            raise RequestTimeout(method, timeout)
        return asked.result()

    def notify(self, method: str, params: Any) -> None:
        """See `Connection.notify`."""
        if self._closed:
            raise ConnectionClosed
        self._writer.put(self._endpoint.notify(method, params))

    def answered(self, event: Answered) -> None:
        """Record a response that has arrived. Its caller is woken after the notifications that came before it."""
        asked = event.request
        assert isinstance(asked, PendingRequest)
        asked.response = event.response
        if event.late:
            asked.abandon()
        elif asked.jumps_queue:
            asked.wake()
        else:
            self._deliver(asked.wake)

    def lose(self) -> None:
        """Wake waiting callers with ConnectionClosed, and refuse further requests, because the peer will not respond
        any more. Idempotent."""
        self.is_lost: bool = True
        for asked in self._endpoint.ledger.lose_all():
            assert isinstance(asked, PendingRequest)
            asked.wake()

    def close(self) -> None:
        """Do the same as `lose`, and refuse further notifications as well. Idempotent."""
        self.lose()
        self._closed = True

    def _withdraw(self, asked: PendingRequest, ticket: int) -> None:
        # A frame that was not written needs no `$/cancel_request`, and gets no response.
        unseen = self._writer.take_back(ticket)
        if unseen:
            asked.wants_late_answer = False
        cancel = self._endpoint.withdraw(asked)
        if unseen:
            asked.over()
        elif cancel is not None:
            self._writer.put(cancel)

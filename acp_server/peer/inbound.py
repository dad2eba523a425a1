"""Incoming requests. Each becomes a node of the task tree, runs, and gets exactly one response.

The response is encoded and buffered outside of the node's scope and without waiting, so a cancel cannot lose it.
`acp_server.peer.outcome` decides which response a request gets.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import anyio

from acp_server.errors import EncodeError, InternalError
from acp_server.peer.call import LiveCall, Routes
from acp_server.peer.dispatch import Dispatcher
from acp_server.peer.observer import Observers, Span
from acp_server.peer.outcome import check_data, outcome, unwritable
from acp_server.peer.peer import Peer
from acp_server.peer.shares import Share
from acp_server.tasks.cause import Cause, program_end
from acp_server.tasks.tree import NOTHING, Node
from acp_server.wire.messages import Params, Request, is_request_id

if TYPE_CHECKING:
    from acp_server.peer.resolve import Resolver

logger: logging.Logger = logging.getLogger("acp_server.peer")

_OVERHEAD: Final = 8 * 1024
"""Bytes that a request counts besides its line, for its task, scopes, turn and node."""


class Inbound:
    """The in-flight requests of the peer, and the requests whose handlers have not ended."""

    def __init__(self, peer: Peer, routes: Routes, end_program: Callable[[BaseException], None]) -> None:
        """`end_program` is called with a SystemExit or KeyboardInterrupt of a handler, after its response."""
        self._peer = peer
        self._routes = routes
        self._end_program = end_program
        self._endpoint = peer.endpoint
        self._writer = peer.writer
        self._observers = peer.observers
        self._limits = limits = peer.limits
        self._running = 0
        self._most_running = math.inf if limits.running is None else limits.running
        self._share = peer.share
        self._held = 0
        """The bytes of the requests whose handlers have not ended."""
        self._has_told = False
        self._queue: OrderedDict[LiveCall, None] = OrderedDict()
        """Requests above `Limits.running`, which wait for another request to end."""
        self._queue_moves: anyio.Event | None = None
        self.dispatcher: Final = Dispatcher(peer, self._over)
        self._resolver: Resolver | None = None

    def begin(self, request: Request) -> None:
        """Register a request, which `dispatcher.get_on` then starts. The reader calls this, so that later messages on
        the wire find the request, for example its cancel or a second prompt in its session."""
        route = self._routes.requests.get(request.method)
        if route is None:
            self._write(self._endpoint.refuse(request, self._routes.missing(request.method)))
            return
        most = self._limits.requests * (2 if route.urgent else 1)
        if self._held and self._held + request.size + _OVERHEAD > most:
            self._refuse(request)
            return
        if self._share is not None and not self._may_take(self._share, request.size, route.urgent):
            self._refuse(request)
            return
        self._held += request.size + _OVERHEAD
        handler = route.handler if route.direct and route.handler is not None else self._resolve
        node = Node(self._peer.tree, request.method)
        call = request.call = LiveCall(self._peer, request, handler, route.urgent, node, self)
        if self._observers is not None:
            _observe(call, self._observers)
        if call.node.cause is not None:
            # The connection is closing.
            self._finish(call, NOTHING, None)
            return
        if route.register is not None:
            try:
                route.register(call)
            except Exception as error:
                self._finish(call, NOTHING, error)
                return
        if route.urgent or self._running < self._most_running:
            self._running += 1
            self.dispatcher.start(call)
        else:
            self._queue[call] = None

    def _may_take(self, share: Share, size: int, is_urgent: bool) -> bool:
        """Count a request in the bound that connections share. A short request that ends work is always accepted."""
        if share.take(size + _OVERHEAD):
            return True
        if is_urgent and size <= _OVERHEAD:
            share.count(size + _OVERHEAD)
            return True
        return False

    def cancel(self, params: Params | None) -> None:
        """Apply a `$/cancel_request`. It has no effect unless it names an in-flight request of the peer."""
        if type(params) is dict and "requestId" in params:
            id = params["requestId"]
            if is_request_id(id) and (request := self._endpoint.incoming.get(id)) is not None and request.call:
                request.call.node.cancel(Cause.PEER)

    def _over(self, call: LiveCall, value: Any, error: BaseException | None) -> None:
        """A request that counted as running has ended, or was answered before it began."""
        try:
            if not call.node.closed:
                self._finish(call, value, error)
        finally:
            self._running -= 1
            if self._queue and self._running < self._most_running:
                self._running += 1
                self.dispatcher.start(self._queue.popitem(last=False)[0])
                self.dispatcher.get_on()
                self._moved()

    def _finish(self, call: LiveCall, value: Any, error: BaseException | None) -> None:
        """The handler has ended: respond, unless that has happened, and take the node out of the tree."""
        self._held -= call.request.size + _OVERHEAD
        if self._share is not None:
            self._share.count(-call.request.size - _OVERHEAD)
        if call.is_watched:
            call.ended()
        self._answer(call, value, error)
        # Breaks a reference cycle, so that the objects are freed at once and not by the garbage collector.
        follower, call.follower = call.follower, None
        # Before the node closes: closing cancels what is still open in it.
        if follower is not None:
            follower.left()
        call.node.close()
        if error is not None and (ending := program_end(error)) is not None:
            self._end_program(ending)

    def give_up(self, call: LiveCall) -> None:
        """See `Call.give_up`."""
        if call.node.closed:
            return
        # The follower decides on the partial result, whatever the cause.
        value = NOTHING if call.follower is None else call.follower.partial()
        if call.task is None:
            self._queue.pop(call, None)
            self._moved()
            self._finish(call, value, None)
        elif not call.is_answered:
            logger.warning(
                "the handler of %s does not end although it was cancelled; the response was sent without it",
                call.method,
            )
            self._answer(call, value, None)

    def _answer(self, call: LiveCall, value: Any, error: BaseException | None) -> None:
        request = call.request
        # After the response the peer may use the id again, even while the handler cleans up.
        request.call = None
        result, refusal = value, None
        if error is not None or value is NOTHING:
            # A value that the handler returned is the response, also after a cancel (ACP, Cancellation).
            told = self._routes.unexplained
            result, refusal = outcome(call.method, call.node.cause, lambda: call.offered, error, told)
        frame = None
        if refusal is None:
            try:
                whole = result if call.added is None else call.added.added_to(result)
                frame = self._endpoint.answer(request, whole)
            except EncodeError as problem:
                refusal = unwritable(call.method, call.node.cause, problem, self._routes.unexplained)
        if refusal is not None:
            if refusal.data is not None:
                check_data(call.method, refusal)
            frame = self._endpoint.refuse(request, refusal)
        if frame is not None:
            self._writer.put(frame)
        if call.span is not None and self._observers is not None:
            cause = call.node.cause
            self._observers.end(call.span, cause, error if error is not None or cause is not None else refusal)
        if not call.is_answered:
            call.is_answered = True
            if call.follower is not None:
                call.follower.answered()

    def close(self) -> None:
        """Let idle tasks end, because no more requests will begin."""
        self.dispatcher.close()

    async def begun(self, patience: float) -> bool:
        """Wait until all requests have begun. Returns False if a queued request has waited `patience` seconds for
        another request to end."""
        await self.dispatcher.begun()
        while self._queue:
            self._queue_moves = anyio.Event()
            with anyio.move_on_after(patience) as waiting:
                await self._queue_moves.wait()
            if waiting.cancelled_caught:
                return False
            await self.dispatcher.begun()
        return True

    def _moved(self) -> None:
        if self._queue_moves is not None:
            self._queue_moves.set()

    def _refuse(self, request: Request) -> None:
        if not self._has_told:
            self._has_told = True
            logger.warning(
                "the peer has more requests in flight than Limits.requests allows; further requests are refused"
            )
        refusal = InternalError("Too many requests are in flight", data={"limit": "requests"})
        self._write(self._endpoint.refuse(request, refusal))

    def _resolve(self, call: LiveCall) -> Awaitable[Any]:
        if self._resolver is None:
            from acp_server.peer.resolve import Resolver

            self._resolver = Resolver(self._routes.requests)
        return self._resolver.resolve(call)

    def _write(self, frame: bytes | None) -> None:
        if frame is not None:
            self._writer.put(frame)


def _observe(call: LiveCall, observers: Observers) -> None:
    """Report the begin of a request in the task and context of its handler."""
    call.span = span = Span("request", call.method, call.id, meta=call.meta)
    handler = call.handler

    def observed(call: LiveCall) -> Awaitable[Any]:
        observers.begin(span)
        return handler(call)

    call.handler = observed

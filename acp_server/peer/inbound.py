"""The peer's requests: each becomes a node of the task tree, runs, and is answered exactly once.

The answer is made and queued outside the node's scope and without waiting, so no cancel can lose it. Which answer it
is, `acp_server.peer.outcome` decides.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from acp_server.errors import EncodeError, InternalError
from acp_server.peer.call import Call, Routes
from acp_server.peer.dispatch import Dispatcher
from acp_server.peer.outcome import check_data, outcome, unwritable
from acp_server.peer.peer import Peer
from acp_server.tasks.cause import Cause, program_end
from acp_server.tasks.tree import NOTHING, Node
from acp_server.wire.messages import Params, Request, is_request_id

if TYPE_CHECKING:
    from acp_server.peer.resolve import Resolver

logger: logging.Logger = logging.getLogger("acp_server.peer")

_OVERHEAD: Final = 8 * 1024
"""Bytes that a request counts beside those on the wire: its task, its scopes, its turn, its place in the tree."""


class Inbound:
    """The requests of one connection that are not yet answered, and those whose handlers are not yet through."""

    def __init__(self, peer: Peer, routes: Routes) -> None:
        self._peer = peer
        self._routes = routes
        self._endpoint = peer.endpoint
        self._writer = peer.writer
        self._limits = limits = peer.limits
        self._running = 0
        self._most_running = math.inf if limits.running is None else limits.running
        self._held = 0
        """Bytes that the requests take whose handlers are not through."""
        self._has_told = False
        self._queue: OrderedDict[Call, None] = OrderedDict()
        """Those that wait for another to end."""
        self._queue_moves: anyio.Event | None = None
        self.dispatcher: Final = Dispatcher(peer, self._over)
        self._resolver: Resolver | None = None

    def begin(self, request: Request) -> None:
        """Register a request, which `dispatcher.get_on` then starts. Called in the reader, so that what follows on the
        wire finds it."""
        route = self._routes.requests.get(request.method)
        if route is None:
            self._write(self._endpoint.refuse(request, self._routes.missing(request.method)))
            return
        most = self._limits.requests * (2 if route.urgent else 1)
        if self._held and self._held + request.size + _OVERHEAD > most:
            self._refuse(request)
            return
        self._held += request.size + _OVERHEAD
        handler = route.handler if route.direct and route.handler is not None else self._resolve
        if (tracing := self._peer.tracing) is not None:
            handler = partial(tracing.request, handler)
        node = Node(self._peer.tree, request.method)
        call = request.call = Call(self._peer, request, handler, route.urgent, node, self)
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

    def cancel(self, params: Params | None) -> None:
        """Apply a `$/cancel_request`. Anything but the id of an unanswered request of the peer means nothing."""
        if type(params) is dict and "requestId" in params:
            id = params["requestId"]
            if is_request_id(id) and (request := self._endpoint.incoming.get(id)) is not None and request.call:
                request.call.node.cancel(Cause.PEER)

    def _over(self, call: Call, value: Any, error: BaseException | None) -> None:
        """A request that had a place among those that run is through, or was answered before it began."""
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

    def _finish(self, call: Call, value: Any, error: BaseException | None) -> None:
        """The handler is through: answer, unless that has happened, and take the node out of the tree."""
        self._held -= call.request.size + _OVERHEAD
        if call.is_watched:
            call.ended()
        self._answer(call, value, error)
        # Nothing refers in circles to what is over, so that it goes at once and not with the garbage.
        follower, call.follower = call.follower, None
        # First the follower, for what is still open in the node when it closes counts as cancelled.
        if follower is not None:
            follower.left()
        call.node.close()
        if error is not None and (ending := program_end(error)) is not None:
            self._peer.fail(ending)

    def give_up(self, call: Call) -> None:
        """See `Call.give_up`."""
        if call.node.closed:
            return
        # What goes along with it knows best, whatever the cause.
        value = NOTHING if call.follower is None else call.follower.partial()
        if call.task is None:
            self._queue.pop(call, None)
            self._moved()
            self._finish(call, value, None)
        elif not call.is_answered:
            logger.warning("%s does not end although it was cancelled; answered without it", call.method)
            self._answer(call, value, None)

    def _answer(self, call: Call, value: Any, error: BaseException | None) -> None:
        request = call.request
        # The id is the peer's to use again as soon as the answer is out, even if the handler still cleans up.
        request.call = None
        result, refusal = value, None
        if error is not None or value is NOTHING:
            # Otherwise it is that, also if it was cancelled: a handler may well answer with what it has (ACP,
            # Cancellation).
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
        if not call.is_answered:
            call.is_answered = True
            if call.follower is not None:
                call.follower.answered()

    def close(self) -> None:
        """No more requests will come, or those that do are refused."""
        self.dispatcher.close()

    async def begun(self, patience: float) -> bool:
        """Wait until every request has had its turn to begin, which on a busy machine takes its time. False if one has
        waited for another to end for `patience` seconds."""
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
            logger.warning("the peer has more requests under way than are allowed at once; more are refused")
        refusal = InternalError("Too many requests at once", data={"limit": "requests"})
        self._write(self._endpoint.refuse(request, refusal))

    def _resolve(self, call: Call) -> Awaitable[Any]:
        if self._resolver is None:
            # Not at the top: it brings in jsonrpcserver, see there.
            from acp_server.peer.resolve import Resolver

            self._resolver = Resolver(self._routes.requests)
        return self._resolver.resolve(call)

    def _write(self, frame: bytes | None) -> None:
        if frame is not None:
            self._writer.put(frame)

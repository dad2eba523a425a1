"""Starts ready requests in order, and gives each a task and cancel scopes.

Most handlers never wait, and a task with its scopes is most of the cost of such a request. So one task runs requests in
turn until a handler waits. The request of that handler keeps the task, and the next requests get new tasks. Handlers
see no difference. A task is not reused if a handler changed a context variable, left a cancel pending or left a scope
open.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final, TypeAlias

import anyio.lowlevel

from acp_server.peer.call import LiveCall
from acp_server.peer.peer import Peer
from acp_server.tasks.running import Bell
from acp_server.tasks.tree import NOTHING, Pair

logger: logging.Logger = logging.getLogger("acp_server.peer")

_SLICE: Final = 0.002
"""Seconds of one slice of requests. After a slice other tasks run, above all the reader."""

_AT_ONCE: Final = 25
"""The most tasks that are started in one round of the event loop. Each may encode a large response."""

Over: TypeAlias = Callable[[LiveCall, Any, BaseException | None], None]
"""A callback with a handler's value or `NOTHING` and its exception, see `Node.run`; also for a request that was
answered before it began. An exception of the callback is a bug of the runtime and ends the connection."""


class Dispatcher:
    """The ready requests of one connection. `over` answers each. For backpressure, only urgent requests begin while
    more than `Limits.unread` bytes are buffered for the peer."""

    __slots__ = (
        "_body",
        "_closing",
        "_context",
        "_due",
        "_end",
        "_group",
        "_handing_over",
        "_idle",
        "_most_due",
        "_over",
        "_parked",
        "_root",
        "_scopes",
        "_serving",
        "_spawner",
        "_unparking",
        "_unread",
        "_writer",
        "ready",
        "start",
    )

    def __init__(self, peer: Peer, over: Over) -> None:
        self._root = peer.tree
        self._spawner = spawner = peer.work
        self._writer = peer.writer
        self._unread = peer.limits.unread
        self._over = over
        self._scopes = peer.scopes
        self._context: Context | None = None
        """The context of handlers: a copy of the one in which the first request arrived."""
        self.ready: deque[LiveCall] = deque()
        self.start: Final[Callable[[LiveCall], None]] = self.ready.append
        """Appends a ready request. `get_on` must be called after it."""
        self._due = 0
        """Tasks that were started or woken and have not taken a request yet."""
        self._most_due = 1 if spawner.can_share else _AT_ONCE
        self._body = self._run if spawner.can_share else self._run_one
        """The body of each task."""
        self._group = 0
        """The number of the round of the event loop in which tasks that are started now will begin."""
        self._end = 0.0
        """The end of the slice of the present round."""
        self._idle: Bell | None = None
        """Wakes the idle task; None without an idle task."""
        self._serving = False
        """Whether the task that took a request last is still in its handler. If other tasks run meanwhile, the handler
        is waiting."""
        self._handing_over = False
        self._parked: deque[LiveCall] = deque()
        """Requests that are held back until the peer reads. They begin before `_ready`."""
        self._unparking = False
        self._closing = False

    def close(self) -> None:
        """Let idle tasks end."""
        self._closing = True
        if self._idle is not None:
            self.get_on()

    async def begun(self) -> None:
        """Wait until all ready requests have begun. Requests that wait for the peer to read are not included."""
        while self.ready:
            await anyio.lowlevel.checkpoint()

    def settle(self) -> None:
        """After a chunk or slice of messages: end cancelled work, and begin new requests."""
        if self._scopes.due:
            self._scopes.deliver()
        if self.ready:
            self.get_on()

    def get_on(self) -> None:
        """Begin the `ready` requests; there must be at least one. In a loop callback with an idle task they begin at
        once, otherwise in the next round."""
        if (idle := self._idle) is not None:
            self._idle = None
            self._due += 1
            self._spawner.resume()
            idle.ring()
        elif self._due < self._most_due:
            self._spawn()

    def _spawn(self) -> None:
        self._due += 1
        if self._context is None:
            self._context = copy_context()
        self._spawner.spawn(self._body, self._group, context=self._context.copy())

    def _may_begin(self, group: int) -> bool:
        """Whether a task that has just begun may take a request. Tasks of one round share a slice, since each may have
        a large response to encode."""
        self._due -= 1
        now = perf_counter()
        if group == self._group:
            # The first task of this round.
            self._group += 1
            self._end = now + _SLICE
        return now <= self._end

    async def _run_one(self, group: int) -> None:
        call = None
        if self._may_begin(group):
            while (call := self._next()) is not None and call.node.closed:
                # The request was answered before it began.
                self._over(call, NOTHING, None)
        if not self._due:
            # The last task of this round starts tasks for the next.
            self._spawn_some()
        if call is not None:
            call.task = self._spawner.current()
            value, error = await call.node.run(call.handler, call)
            self._over(call, value, error)

    async def _run(self, group: int) -> None:
        """Run requests in turn until a handler leaves the task changed. While a handler waits, the task belongs to the
        handler's request."""
        make = self._scopes.make
        pair = None
        try:
            if not self._may_begin(group):
                return
            with make() as outer, make() as inner:
                pair = Pair(outer, inner)
                task: Any = self._spawner.current()
                bell: Bell | None = None
                end = self._end
                while True:
                    if len(self.ready) > 1 and not self._handing_over:
                        # Runs when this task waits, in a handler or for the next request.
                        self._handing_over = True
                        self._scopes.soon(self._hand_over)
                    while (self.ready or self._parked) and (call := self._next()) is not None:
                        call.task = task
                        self._serving = True
                        node, value, error = call.node, NOTHING, None
                        # Inlined from `Node.run`, which would cost a coroutine and two scopes for each request.
                        if node.enter(pair):
                            try:
                                value = await call.handler(call)
                            except GeneratorExit as closed:
                                # asyncio closes the coroutine from outside, see `Spawner._guard`.
                                node.pair = None
                                self._over(call, NOTHING, closed)
                                raise
                            except BaseException as raised:
                                error = None if node.gave_in(raised) else raised
                            node.pair = None
                        self._serving = False
                        if error is None and pair.nested:
                            error = RuntimeError(
                                "the handler has returned inside a cancel scope or task group that it entered"
                            )
                        self._over(call, value, error)
                        try:
                            is_other = (
                                pair.cancelled
                                or pair.inner.shield
                                or pair.nested
                                or copy_context() != self._context
                                or task.cancelling()
                                # On Python 3.11 a native cancel still arrives after `uncancel`.
                                or task._must_cancel
                            )
                        except Exception:
                            is_other = True  # comparing the value of a context variable failed
                        if is_other:
                            return
                        if perf_counter() > end:
                            break
                    if self.ready or self._idle is not None or self._closing:
                        return
                    if bell is None:
                        bell = Bell()
                    self._idle = bell
                    self._spawner.rest()
                    try:
                        await bell
                    except BaseException:
                        # A native cancel. If the task was also woken, another task must take the request.
                        if self._idle is bell:
                            self.get_on()
                        raise
                    finally:
                        self._due -= 1
                    end = perf_counter() + _SLICE
        except RuntimeError:
            if pair is None or not pair.nested:
                raise
            # A handler left a scope open; its request was answered with an error.
            logger.debug("a task ends inside a cancel scope that a handler did not close", exc_info=True)
        finally:
            if self.ready and not self._due:
                self._spawn()

    def _next(self) -> LiveCall | None:
        """The next call that may begin. Calls that may not begin yet are parked."""
        if self._parked and (self._writer.size <= self._unread or self._parked[0].node.closed):
            return self._parked.popleft()
        while self.ready:
            call = self.ready.popleft()
            if self._writer.size <= self._unread or call.urgent or call.node.closed:
                return call
            self._parked.append(call)
            if not self._unparking:
                self._unparking = True
                self._spawner.spawn(self._unpark)
        return None

    def _hand_over(self) -> None:
        """If the current request waits, start tasks for the next requests, which will probably wait as well."""
        self._handing_over = False
        if self._serving:
            # The last of these tasks hands over the rest in the same way.
            self._spawn_some()

    def _spawn_some(self) -> None:
        for _ in range(min(len(self.ready), _AT_ONCE)):
            self._spawn()

    async def _unpark(self) -> None:
        """Begin parked requests one by one as the peer reads. They do not begin together, because one response may fill
        the buffer."""
        node = self._root.child("requests that wait for the peer to read")
        while self._parked and node.cause is None:
            await node.run(self._room)
            self.get_on()
        node.close()
        self._unparking = False

    async def _room(self) -> None:
        await anyio.lowlevel.checkpoint()
        await self._writer.below(self._unread)

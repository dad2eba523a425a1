"""Runs the requests that may begin, in the order in which they may, and finds each a task and scopes.

Most requests never wait, and a task with its scopes is most of what such a request costs. So one task runs one request
after the other, until one has to wait: that one keeps the task, and the others get new ones. No handler notices. A task
that a handler has left different (a context variable, a cancel, a scope that is still open) is not used again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final, TypeAlias

import anyio.lowlevel

from acp_server.peer.call import Call
from acp_server.peer.peer import Peer
from acp_server.tasks.futures import Bell
from acp_server.tasks.scopes import Pair
from acp_server.tasks.tree import NOTHING

logger: logging.Logger = logging.getLogger("acp_server.peer")

_SLICE: Final = 0.002
"""Seconds for which requests are run before other tasks, the reader above all, get a turn."""

_AT_ONCE: Final = 25
"""Tasks that are started in one round of the event loop for requests that may well wait, or answer with much."""

Over: TypeAlias = Callable[[Call, Any, BaseException | None], None]
"""Takes what a handler has returned, or `NOTHING`, and what it raised, see `Node.run`; also for a request that was
answered before it began. What it raises is a fault of the runtime's and ends the connection."""


class Dispatcher:
    """The requests that may run; `over` answers each. None begins while the peer leaves more unread than it may
    (`Limits.unread`), but for urgent ones."""

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
        "_ready",
        "_root",
        "_scopes",
        "_serving",
        "_spawner",
        "_unparking",
        "_unread",
        "_writer",
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
        """What handlers begin with: the context in which the first request arrived."""
        self._ready: deque[Call] = deque()
        self.start: Final[Callable[[Call], None]] = self._ready.append
        """Has a request run as soon as those before it have begun. `get_on` is due behind it."""
        self._due = 0
        """How many tasks have been started or woken that have not begun to look at what is ready."""
        self._most_due = 1 if spawner.can_share else _AT_ONCE
        self._body = self._run if spawner.can_share else self._run_one
        """What each task does."""
        self._group = 0
        """Counts the rounds of the event loop in which tasks begin: which one those begin in that are started now."""
        self._end = 0.0
        """Until when requests begin in the present one."""
        self._idle: Bell | None = None
        """Wakes the one task that waits for something to run."""
        self._serving = False
        """Whether the task that began to run requests last is within one, so that it waits if others run now."""
        self._handing_over = False
        self._parked: deque[Call] = deque()
        """Those that wait for the peer to read. They go before those that are ready."""
        self._unparking = False
        self._closing = False

    def get_on(self) -> None:
        """Have what is ready begin: at once, if this is called by the loop and a task waits for it."""
        if self._ready:
            self._wake()

    def close(self) -> None:
        """From here on no task waits for something to run."""
        self._closing = True
        if self._idle is not None:
            self._wake()

    async def begun(self) -> None:
        """Wait until no request waits for its turn. Those that wait for the peer to read are not waited for."""
        while self._ready:
            await anyio.lowlevel.checkpoint()

    def _wake(self) -> None:
        """Have a task look at what is ready."""
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
        """Whether a task that has just begun with others may look at what is ready. They share one slice, for each of
        them may have a large answer to encode."""
        self._due -= 1
        now = perf_counter()
        if group == self._group:
            # The first one of them.
            self._group += 1
            self._end = now + _SLICE
        return now <= self._end

    async def _run_one(self, group: int) -> None:
        call = None
        if self._may_begin(group):
            while (call := self._next()) is not None and call.node.closed:
                # Answered before it began.
                self._over(call, NOTHING, None)
        if not self._due:
            # The last one of this round of the loop has those behind it begin in the next.
            self._spawn_some()
        if call is not None:
            call.task = self._spawner.current()
            value, error = await call.node.run(call.handler, call)
            self._over(call, value, error)

    async def _run(self, group: int) -> None:
        """Run what is ready, and what comes, until a request has left something behind. While one waits, this task is
        its own."""
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
                    if len(self._ready) > 1 and not self._handing_over:
                        # Called when this task waits: within a request, or for the next one.
                        self._handing_over = True
                        self._scopes.soon(self._hand_over)
                    while (self._ready or self._parked) and (call := self._next()) is not None:
                        call.task = task
                        self._serving = True
                        node, value, error = call.node, NOTHING, None
                        # As in `Node.run`, which is a coroutine more for each request that waits, and two scopes.
                        if node.enter(pair):
                            try:
                                value = await call.handler(call)
                            except GeneratorExit as closed:
                                # See `Spawner`: what the handler awaited has failed with this.
                                node.pair = None
                                self._over(call, NOTHING, closed)
                                raise
                            except BaseException as raised:
                                error = None if node.gave_in(raised) else raised
                            node.pair = None
                        self._serving = False
                        if error is None and pair.nested:
                            error = RuntimeError("a cancel scope was entered and not left")
                        self._over(call, value, error)
                        try:
                            is_other = (
                                pair.cancelled
                                or pair.inner.shield
                                or pair.nested
                                or copy_context() != self._context
                                or task.cancelling()
                                # A native cancel that was taken back on Python 3.11 still comes.
                                or task._must_cancel
                            )
                        except Exception:
                            is_other = True  # a variable's value does not like to be compared
                        if is_other:
                            return
                        if perf_counter() > end:
                            break
                    if self._ready or self._idle is not None or self._closing:
                        return
                    if bell is None:
                        bell = Bell()
                    self._idle = bell
                    self._spawner.rest()
                    try:
                        await bell
                    except BaseException:
                        # Cancelled natively. If it was woken in the same moment, another task is to see what for.
                        if self._idle is bell:
                            self._wake()
                        raise
                    finally:
                        self._due -= 1
                    end = perf_counter() + _SLICE
        except RuntimeError:
            if pair is None or not pair.nested:
                raise
            # A handler has left a scope open, and its request was answered accordingly.
            logger.debug("a task ends in a scope that a handler has left open", exc_info=True)
        finally:
            if self._ready and not self._due:
                self._spawn()

    def _next(self) -> Call | None:
        """The next call that may begin. Calls that may not yet are parked."""
        if self._parked and (self._writer.size <= self._unread or self._parked[0].node.closed):
            return self._parked.popleft()
        while self._ready:
            call = self._ready.popleft()
            if self._writer.size <= self._unread or call.urgent or call.node.closed:
                return call
            self._parked.append(call)
            if not self._unparking:
                self._unparking = True
                self._spawner.spawn(self._unpark)
        return None

    def _hand_over(self) -> None:
        """If a request waits, those behind it need tasks of their own; most likely they will wait, too."""
        self._handing_over = False
        if self._serving:
            # The last one of these hands over the rest, if that waits, too.
            self._spawn_some()

    def _spawn_some(self) -> None:
        for _ in range(min(len(self._ready), _AT_ONCE)):
            self._spawn()

    async def _unpark(self) -> None:
        """Have those that are parked begin one by one, whenever there is room: an answer may take all of it."""
        node = self._root.child("requests that wait for the peer to read")
        while self._parked and node.cause is None:
            await node.run(self._room)
            self._wake()
        node.close()
        self._unparking = False

    async def _room(self) -> None:
        await anyio.lowlevel.checkpoint()
        await self._writer.below(self._unread)

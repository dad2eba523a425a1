"""Runs the handlers of notifications sequentially, in the order of arrival.

A handler that does not wait runs in the reader. While a handler waits, later notifications are queued. Responses to
outgoing requests are queued too, so that a caller gets a response only after the notifications that were sent before
it.

The queue has a limit in bytes. At the limit, new notifications are dropped with a warning. The reader does not pause
instead, because the waiting handler may need a response of the peer, and cancels must pass. New notifications are
dropped instead of old ones, so that the handled notifications have no gap.
"""

from __future__ import annotations

import inspect
import logging
import reprlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from acp_server.peer.outbound import in_notification
from acp_server.peer.outcome import report
from acp_server.tasks.cause import is_cancellation, program_end
from acp_server.tasks.tree import Node, Scopes

logger: logging.Logger = logging.getLogger("acp_server.peer")

Step = Callable[[], Awaitable[None] | None]

_OVERHEAD: Final = 500
"""Bytes that a queued notification takes besides its text, for its decoded form and its handlers."""


class NotificationQueue:
    """The notification handlers of one connection. `start` starts a task. `limit`: the most bytes of the queue."""

    __slots__ = ("_dropped", "_held", "_limit", "_running", "_start", "_steps", "node")

    def __init__(self, scopes: Scopes, start: Callable[..., None], limit: int) -> None:
        self.node: Final = Node(None, "notifications", scopes)
        """The node in which handlers run. A cancel of the node clears the queue, and no further handler runs."""
        self.node.on_cancel = self._forget
        self._start = start
        self._limit = limit
        # A notification with its size; or, without a method, the delivery of a response.
        self._steps: deque[tuple[str | None, Step, int]] = deque()
        self._held = 0
        # Dropped since the last warning.
        self._dropped = 0
        self._running = False

    def has_room(self, method: str, size: int) -> bool:
        """Whether the queue has room for a notification of `size` bytes. If not, the caller drops it."""
        if not self._held or self._held + size + _OVERHEAD <= self._limit:
            return True
        if not self._dropped:
            name = reprlib.repr(method)
            logger.warning(
                "the handler of a notification takes too long, so notifications are dropped, beginning with %s", name
            )
        self._dropped += 1
        return False

    def notify(self, method: str, step: Step, size: int) -> None:
        """Handle a notification of `size` bytes, now or after the queued notifications."""
        if self.node.cause is not None:
            return
        if self._running:
            self._steps.append((method, step, size + _OVERHEAD))
            self._held += size + _OVERHEAD
            return
        token = in_notification.set(True)
        try:
            pending = step()
            if pending is not None:
                self._running = True
                # The new task inherits `in_notification`, so that responses to the handler's requests skip the queue.
                self._start(self._run, method, pending)
        except BaseException as error:
            if program_end(error) is not None:
                raise
            report(f"the handler of {method}", error)
        finally:
            in_notification.reset(token)

    def deliver(self, wake: Callable[[], None]) -> None:
        """Call `wake` after the notifications that are queued now. `wake` must not raise."""
        if not self._running or self.node.cause is not None:
            wake()
        else:
            self._steps.append((None, wake, 0))

    async def _run(self, method: str, first: Awaitable[None]) -> None:
        try:
            _, error = await self.node.run(self._handle, method, first)
            if error is not None:
                raise error
        finally:
            if inspect.iscoroutine(first):
                # The task was cancelled before it began.
                first.close()
            self._running = False
            self._forget(self.node)
            self._tell()

    async def _handle(self, first: str, pending: Awaitable[None]) -> None:
        await self._guard(first, pending)
        while self._steps:
            method, step, size = self._steps.popleft()
            self._held -= size
            if method is None:
                step()
            else:
                await self._guard(method, _call(step))

    def _tell(self) -> None:
        if self._dropped:
            logger.warning(
                "%d notifications were dropped, because the handler of an earlier notification took too long",
                self._dropped,
            )
            self._dropped = 0

    async def _guard(self, method: str, pending: Awaitable[None]) -> None:
        try:
            await pending
        except BaseException as error:
            # Unless the node was cancelled, a cancellation comes from the handler itself.
            if program_end(error) is not None or (self.node.cause is not None and is_cancellation(error)):
                raise
            report(f"the handler of {method}", error)

    def _forget(self, _node: Node) -> None:
        """Clear the queue. Responses are still delivered, so that no caller waits for ever."""
        steps = list(self._steps)
        self._steps.clear()
        self._held = 0
        for method, step, _ in steps:
            if method is None:
                step()


async def _call(step: Step) -> None:
    pending = step()
    if pending is not None:
        await pending

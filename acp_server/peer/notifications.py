"""Runs the handlers of notifications one after the other, in the order of arrival.

Plain functions are called on the spot. As soon as one has to wait, what arrives behind it waits too. So do the answers
to our own requests: no caller sees an answer before the notifications that were sent before it.

What waits is bounded in bytes. Beyond the bound the notifications that arrive are dropped, and the log says so. The
reader does not pause for them: the handler that all wait for may itself wait for an answer of the peer, and cancels
have to get through. The newest are dropped and not the oldest, so that what is handled has no gap up to there.
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
from acp_server.tasks.scopes import Scopes
from acp_server.tasks.tree import Node

logger: logging.Logger = logging.getLogger("acp_server.peer")

Step = Callable[[], Awaitable[None] | None]

_OVERHEAD: Final = 500
"""Bytes that a notification takes while it waits, beside those of its text: decoded, with what will handle it."""


class NotificationQueue:
    """The notifications of one connection. `start` starts a task for the coroutine function that it is given. `limit`:
    the bytes that those that wait may take."""

    __slots__ = ("_dropped", "_held", "_limit", "_running", "_start", "_steps", "node")

    def __init__(self, scopes: Scopes, start: Callable[..., None], limit: int) -> None:
        self.node: Final = Node(None, "notifications", scopes)
        """What the handlers run in. When it is cancelled, what waits is forgotten, and nothing more is handled."""
        self.node.on_cancel = self._forget
        self._start = start
        self._limit = limit
        # A notification with the bytes that it takes, or (without a method) the delivery of an answer.
        self._steps: deque[tuple[str | None, Step, int]] = deque()
        self._held = 0
        # Since the log was last told.
        self._dropped = 0
        self._running = False

    def has_room(self, method: str, size: int) -> bool:
        """Whether a notification of `size` bytes is to be given to `notify`. If not, it is dropped."""
        if not self._held or self._held + size + _OVERHEAD <= self._limit:
            return True
        if not self._dropped:
            name = reprlib.repr(method)
            logger.warning("notifications are dropped from %s on: the handler of an earlier one takes too long", name)
        self._dropped += 1
        return False

    def notify(self, method: str, step: Step, size: int) -> None:
        """Handle a notification of `size` bytes now, or behind those that are still being handled."""
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
                # The new task inherits the context, so that what its handler asks for need not wait for the handler.
                self._start(self._run, method, pending)
        except BaseException as error:
            if program_end(error) is not None:
                raise
            report(f"the handler of {method}", error)
        finally:
            in_notification.reset(token)

    def deliver(self, wake: Callable[[], None]) -> None:
        """Call `wake` once everything that came before it has been handled. It must not raise."""
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
                # It was cancelled before it began.
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
            logger.warning("%d notifications were dropped", self._dropped)
            self._dropped = 0

    async def _guard(self, method: str, pending: Awaitable[None]) -> None:
        try:
            await pending
        except BaseException as error:
            # A cancellation is the handler's own, unless all of them are being cancelled.
            if program_end(error) is not None or (self.node.cause is not None and is_cancellation(error)):
                raise
            report(f"the handler of {method}", error)

    def _forget(self, _node: Node) -> None:
        """What waits, except that no caller is left waiting for a delivery."""
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

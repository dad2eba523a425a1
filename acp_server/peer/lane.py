"""Runs the handlers of notifications one after the other, in the order of arrival.

Plain functions are called on the spot. As soon as one has to wait, what arrives behind it waits too. So do the answers
to our own requests: no caller sees an answer before the notifications that were sent before it.

What waits is bounded in bytes. Beyond the bound the notifications that arrive are dropped, and the log says so. The
reader does not pause for them: the handler that all wait for may itself wait for an answer of the peer, and cancels
have to get through. The newest are dropped and not the oldest, so that what is handled has no gap up to there.
"""

from __future__ import annotations

import logging
import reprlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio

from acp_server.peer.outbound import in_notification
from acp_server.peer.outcome import program_end
from acp_server.peer.report import report
from acp_server.tasks.failure import is_cancellation
from acp_server.tasks.grace import let_be
from acp_server.tasks.scopes import Pair, Scopes

logger = logging.getLogger("acp_server.peer")

Step = Callable[[], Awaitable[None] | None]

_OVERHEAD: Final = 500
"""Bytes that a notification takes while it waits, beside those of its text: decoded, with what will handle it."""


class Lane:
    """The notifications of one connection. `start` starts a task for the coroutine function that it is given. `limit`:
    the bytes that those that wait may take."""

    __slots__ = ("_dropped", "_held", "_inner", "_limit", "_scope", "_scopes", "_start", "_steps", "_stopped")

    def __init__(
        self, start: Callable[[Callable[..., Coroutine[Any, Any, None]], Awaitable[None]], None], limit: int
    ) -> None:
        self._start = start
        self._scopes = Scopes()
        self._limit = limit
        # A notification with the bytes that it takes, or (without a method) the delivery of an answer.
        self._steps: deque[tuple[str | None, Step, int]] = deque()
        self._held = 0
        # Since the log was last told.
        self._dropped = 0
        self._scope: anyio.CancelScope | None = None
        self._inner: anyio.CancelScope | None = None
        self._stopped = False

    def notify(self, method: str, step: Step, size: int) -> None:
        """Handle a notification of `size` bytes now, or behind those that are still being handled."""
        if self._stopped:
            return
        if self._scope is not None:
            self._wait(method, step, size + _OVERHEAD)
            return
        token = in_notification.set(True)
        try:
            pending = step()
            if pending is not None:
                self._scope, self._inner = anyio.CancelScope(), anyio.CancelScope()
                # The new task inherits the context, so that what its handler asks for need not wait for the handler.
                self._start(self._run, self._guard(method, pending))
        except BaseException as error:
            if program_end(error) is not None:
                raise
            report(f"the handler of {method}", error)
        finally:
            in_notification.reset(token)

    def deliver(self, wake: Callable[[], None]) -> None:
        """Call `wake` once everything that came before it has been handled. It must not raise."""
        if self._scope is None or self._stopped:
            wake()
        else:
            self._steps.append((None, wake, 0))

    def stop(self) -> None:
        """Cut what is running and forget what is left, except that no caller is left waiting for a delivery."""
        self._stopped = True
        self._forget()
        if self._scope is not None and self._inner is not None:
            self._scopes.cancel(Pair(self._scope, self._inner))

    def let_be(self) -> None:
        """Leave alone what was cut and does not end, see `acp_server.tasks.grace.let_be`."""
        if self._inner is not None:
            let_be(self._inner)

    async def _run(self, first: Awaitable[None]) -> None:
        assert self._scope is not None
        assert self._inner is not None
        try:
            with self._scope, self._inner:
                await first
                while self._steps:
                    method, step, size = self._steps.popleft()
                    self._held -= size
                    if method is None:
                        step()
                    else:
                        await self._guard(method, _call(step))
        finally:
            self._scope = self._inner = None
            self._forget()
            self._tell()

    def _wait(self, method: str, step: Step, size: int) -> None:
        if self._held + size <= self._limit or not self._held:
            self._steps.append((method, step, size))
            self._held += size
            return
        if not self._dropped:
            name = reprlib.repr(method)
            logger.warning("notifications are dropped from %s on: the handler of an earlier one takes too long", name)
        self._dropped += 1

    def _tell(self) -> None:
        if self._dropped:
            logger.warning("%d notifications were dropped", self._dropped)
            self._dropped = 0

    async def _guard(self, method: str, pending: Awaitable[None]) -> None:
        try:
            await pending
        except BaseException as error:
            # A cancellation is the handler's own, unless all of them are being cut.
            if program_end(error) is not None or (self._stopped and is_cancellation(error)):
                raise
            report(f"the handler of {method}", error)

    def _forget(self) -> None:
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

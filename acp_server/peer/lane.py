"""Runs the handlers of notifications one after the other, in the order of arrival.

Plain functions are called on the spot. As soon as one has to wait, what arrives behind it waits too, and so do the
answers to our own requests, so that nobody sees an answer before the notifications that were sent before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio

from acp_server.peer.outbound import in_notification
from acp_server.peer.outcome import program_end
from acp_server.peer.report import report
from acp_server.tasks.failure import is_cancellation
from acp_server.tasks.grace import let_be

Step = Callable[[], Awaitable[None] | None]


class Lane:
    """The notifications of one connection. `start` starts a task for the coroutine function that it is given."""

    __slots__ = ("_inner", "_scope", "_start", "_steps", "_stopped")

    def __init__(self, start: Callable[[Callable[..., Coroutine[Any, Any, None]], Awaitable[None]], None]) -> None:
        self._start = start
        # A notification, or (without a method) the delivery of an answer.
        self._steps: deque[tuple[str | None, Step]] = deque()
        self._scope: anyio.CancelScope | None = None
        self._inner: anyio.CancelScope | None = None
        self._stopped = False

    def notify(self, method: str, step: Step) -> None:
        """Handle a notification now, or behind those that are still being handled."""
        if self._stopped:
            return
        if self._scope is not None:
            self._steps.append((method, step))
            return
        token = in_notification.set(True)
        try:
            pending = step()
            if pending is not None:
                self._scope = anyio.CancelScope()
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
            self._steps.append((None, wake))

    def stop(self) -> None:
        """Cut what is running and forget what is left, except that nobody is left waiting for a delivery."""
        self._stopped = True
        self._forget()
        if self._scope is not None:
            self._scope.cancel()

    def let_be(self) -> None:
        """Leave alone what was cut and does not end, see `acp_server.tasks.grace.let_be`."""
        if self._inner is not None:
            let_be(self._inner)

    async def _run(self, first: Awaitable[None]) -> None:
        assert self._scope is not None
        try:
            with self._scope, anyio.CancelScope() as self._inner:
                await first
                while self._steps:
                    method, step = self._steps.popleft()
                    if method is None:
                        step()
                    else:
                        await self._guard(method, _call(step))
        finally:
            self._scope = self._inner = None
            self._forget()

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
        for method, step in steps:
            if method is None:
                step()


async def _call(step: Step) -> None:
    pending = step()
    if pending is not None:
        await pending

"""Keeps an async context manager open as long as its session.

A separate task enters and leaves the context manager, because only the task that entered a scope or a task group can
leave it. The session decides when it is left.
"""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import anyio

from acp_server.errors import ConnectionClosed
from acp_server.peer.outcome import report
from acp_server.tasks.cause import Cause, program_end
from acp_server.tasks.grace import Job
from acp_server.tasks.tree import NOTHING

if TYPE_CHECKING:
    from acp_server.peer.peer import Peer

logger: logging.Logger = logging.getLogger("acp_server.session")


class Resource(Job):
    """Enters and leaves one context manager, which has the name `label` in the log. `open` enters it, `close` leaves
    it."""

    __slots__ = ("_closing", "_error", "_manager", "_opened", "_value")

    def __init__(self, manager: AbstractAsyncContextManager[Any], label: str, connection: Peer) -> None:
        # Outside of the node of the requests: at the end of the connection they end first, and may need it.
        super().__init__(connection.cleanups.child(label), connection.lasting, connection.watchdog)
        self._manager = manager
        self._opened = anyio.Event()
        self._closing = anyio.Event()
        self._value: Any = NOTHING
        self._error: BaseException | None = None

    async def open(self) -> Any:
        """Enter the context manager and return its value. If the caller is cancelled, the entering is cancelled too,
        and the caller waits for its cleanup.

        Raises the exceptions of entering, and ConnectionClosed if the connection ends meanwhile.
        """
        self.start(self._body)
        await self.wait(self._opened)
        if self._error is not None:
            raise self._error
        if self._value is NOTHING:
            raise ConnectionClosed
        return self._value

    async def close(self) -> None:
        """Leave the context manager, and wait for that. If the caller is cancelled, the leaving is cancelled too.
        Exceptions of the context manager are logged."""
        self._closing.set()
        try:
            await self._done.wait()
        except BaseException:
            self.node.cancel(Cause.FINISHED)
            raise

    async def _body(self) -> None:
        async with self._manager as value:
            self._value = value
            self._opened.set()
            # An inner task group that fails cancels this wait.
            await self._closing.wait()

    def over(self, value: Any, error: BaseException | None) -> None:
        """See `Job`."""
        self._opened.set()
        if self._value is NOTHING:
            self._error = error
        elif error is None:
            if not self._closing.is_set() and self.node.cause is None:
                logger.warning("%s ended before its session", self.node.label)
        elif program_end(error) is not None:
            raise error
        else:
            report(self.node.label, error)

"""Signals of the process, handed to the event loop, on every system and backend alike.

It does not know what they mean: `acp_server.agent.serve` decides. `anyio.open_signal_receiver` is not used: it does not
exist on Windows with asyncio, forgets the handlers that were there before, and says nothing while the loop is blocked.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.tasks.grace import grace
from acp_server.tasks.spawn import Spawner

logger = logging.getLogger("acp_server.agent")

ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)


class Signals:
    """Receives the `ENDING` signals while it is entered.

    `at_once` is called in the signal handler itself, even if the loop is blocked; `act` soon after, in a task. A signal
    that the process was started to ignore (as `nohup` does) stays ignored. Outside the main thread, where Python does
    not deliver them, nothing is received.
    """

    def __init__(self, at_once: Callable[[int], None], act: Callable[[int], None]) -> None:
        self._at_once = at_once
        self._act = act
        self._before: dict[int, Any] = {}
        self._received: deque[int] = deque()
        self._arrived = anyio.Event()
        self._scope = anyio.CancelScope()
        self._spawner = Spawner(self._crashed)
        loop: Any = anyio.lowlevel.current_token().native_token
        # asyncio's name, or trio's. Both may be called in a signal handler.
        self._wake: Callable[..., None] = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    async def __aenter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
            self._spawner.spawn(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # None is a handler that was not set from Python, and cannot be.
            if handler is not None:
                signal.signal(number, handler)
        self._scope.cancel()
        with grace(1):
            await self._spawner.wait_idle()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._at_once(number)
        self._wake(self._add, number)

    def _add(self, number: int) -> None:
        self._received.append(number)
        self._arrived.set()

    async def _run(self) -> None:
        with self._scope:
            while True:
                await self._arrived.wait()
                self._arrived = anyio.Event()
                while self._received:
                    self._act(self._received.popleft())

    def _crashed(self, error: BaseException) -> None:
        logger.error("acting on a signal failed", exc_info=error)

"""Signals of the process: their handlers are replaced, tell the event loop, and are put back.

It does not know what they mean: `acp_server.agent.serve` decides. `anyio.open_signal_receiver` is not used: it does not
exist on Windows with asyncio, forgets the handlers that were there before, and says nothing while the loop is blocked.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.agent.standard_io import keep_in_forks, undo_in_forks

ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)


class Signals:
    """Has the `ENDING` signals between `take` and `release`.

    `at_once` is called in the signal handler itself, even if the loop is blocked or does not run. A signal that the
    process was started to ignore (as `nohup` does) stays ignored. Outside the main thread, where Python does not
    deliver them, nothing is taken. A process that is forked off has the handlers from before.
    """

    def __init__(self, at_once: Callable[[int], None]) -> None:
        self._at_once = at_once
        self._before: dict[int, Any] = {}
        self._received: deque[int] = deque()
        self._arrived: anyio.Event | None = None
        self._soon: Callable[..., object] | None = None

    def take(self) -> None:
        """They are ours from now on. Those that arrive before `deliver` are kept for it."""
        if threading.current_thread() is threading.main_thread():
            undo_in_forks(self.release)
            for number in ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)

    def release(self) -> None:
        """Give them back. Idempotent."""
        keep_in_forks(self.release)
        while self._before:
            number, handler = self._before.popitem()
            # None is a handler that was not set from Python, and cannot be.
            if handler is not None:
                signal.signal(number, handler)

    def ignore(self) -> None:
        """They mean nothing any more, not even while the interpreter is taken down, when no handler of ours can run."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    async def deliver(self, act: Callable[[int], None]) -> None:
        """Call `act` in this task for each signal, soon after it has come. Runs until it is cancelled."""
        loop: Any = anyio.lowlevel.current_token().native_token
        # asyncio's name, or trio's. Both may be called in a signal handler.
        self._soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        try:
            while True:
                # In this order: what arrives between two of these lines is seen by the next one.
                self._arrived = anyio.Event()
                while self._received:
                    act(self._received.popleft())
                await self._arrived.wait()
        finally:
            self._soon = None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._at_once(number)
        self._received.append(number)
        if self._soon is not None:
            self._soon(self._wake)

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()

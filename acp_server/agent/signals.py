"""Handles the signals that end a program: takes them while the program serves, delivers them to its event loop, and
restores the earlier handlers.

`acp_server.agent.serve` decides what a signal does. `anyio.open_signal_receiver` is not used: it does not exist on
Windows with asyncio, forgets earlier handlers, and reports nothing while the loop is blocked.

Python calls signal handlers between two instructions of the main thread, and pending signals in the order of their
numbers. A database query that runs for a minute in the loop's thread is one such instruction. So a thread reads the
bytes that the C handler writes at once. C code that holds the GIL blocks that thread too
(docs/decisions/signals.md).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from acp_server.agent.process import keep_in_forks, undo_in_forks

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    import anyio

logger: logging.Logger = logging.getLogger("acp_server.agent")

ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)


class Signals:
    """Handles the `ENDING` signals between `take` and `release`, and delivers them to the event loop.

    `at_once` is called for each signal, even if the loop is blocked or not running. It is called in a thread while
    `deliver` runs, else in the signal handler. If the process was started with a signal ignored (as by `nohup`), the
    signal stays ignored. Outside of the main thread, where Python does not deliver signals, no handler is installed. A
    forked process has the earlier handlers.
    """

    def __init__(self, at_once: Callable[[int], None]) -> None:
        self._at_once = at_once
        self._before: dict[int, Any] = {}
        self._received: deque[int] = deque()
        self._arrived: anyio.Event | None = None
        self._soon: Callable[..., object] | None = None
        self._wakeups: _Wakeups | None = None

    def take(self) -> None:
        """Install the handlers. Signals that arrive before `deliver` are kept for it."""
        if _in_main_thread():
            undo_in_forks(self.release)
            for number in ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)

    def release(self) -> None:
        """Restore the earlier handlers. Idempotent."""
        keep_in_forks(self.release)
        if self._wakeups is not None:
            self._wakeups.give_back()
        while self._before:
            number, handler = self._before.popitem()
            # None is a handler that was not set from Python, and cannot be restored from it.
            if handler is not None:
                signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore the signals permanently, even during the interpreter's shutdown, when no Python handler can run."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    async def deliver(self, act: Callable[[int], None]) -> None:
        """Call `act` in this task for each signal, soon after the signal has arrived. Runs until cancelled."""
        import anyio
        import anyio.lowlevel

        loop: Any = anyio.lowlevel.current_token().native_token
        # asyncio's name, or trio's. Both may be called in a signal handler and in a thread.
        self._soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        try:
            with self._listening():
                while True:
                    # The order matters: a signal that arrives between two of these lines is seen by the next line.
                    self._arrived = anyio.Event()
                    while self._received:
                        act(self._received.popleft())
                    await self._arrived.wait()
        finally:
            self._soon = None

    @contextmanager
    def _listening(self) -> Generator[None]:
        if not _in_main_thread():
            yield
            return
        wakeups = self._wakeups = _Wakeups(self._told)
        try:
            wakeups.take()
            yield
        finally:
            wakeups.give_back()
            self._wakeups = None
            wakeups.close()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal in the main thread."""
        if self._wakeups is None:
            self._come(number)
        else:
            self._wakeups.confirm(number)

    def _told(self, number: int) -> None:
        """Handle a signal in the thread. Checks the handler, because the program may have replaced it."""
        if signal.getsignal(number) == self._handle:
            self._come(number)
        elif self._soon is not None:
            # Python may have looked for signals already, and the loop may be about to wait.
            self._soon(self._wake)

    def _come(self, number: int) -> None:
        self._at_once(number)
        self._received.append(number)
        if self._soon is not None:
            self._soon(self._wake)

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()


_CONFIRMED: Final = 0x80
"""This bit is set in the byte of a signal whose Python handler was called."""


class _Wakeups:
    """Calls `told` in a thread for each signal, in the order of arrival.

    For each signal, the C handler writes a byte, and then the Python handler writes a second one (`confirm`). The
    second byte counts only if the first is missing. The first is missing if the program or its loop has set another
    descriptor later than this class. A descriptor that was set earlier gets all of these bytes too.
    """

    def __init__(self, told: Callable[[int], None]) -> None:
        self._told = told
        self._unconfirmed: set[int] = set()
        self._before = -1
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._read, name="acp_server signals", daemon=True)

    def take(self) -> None:
        self._thread.start()
        self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def give_back(self) -> None:
        """Restore the earlier descriptor. Idempotent. Has no effect if another descriptor was set meanwhile."""
        found = signal.set_wakeup_fd(self._before)
        if found != self._writer.fileno():
            signal.set_wakeup_fd(found)

    def close(self) -> None:
        # It ends the thread, also if a forked process has the socket as well.
        self._writer.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._writer.close()
        self._reader.close()

    def confirm(self, number: int) -> None:
        """Record that the Python handler was called. Called in that handler."""
        with suppress(BlockingIOError):  # the socket is full of signals
            self._writer.send(bytes([number | _CONFIRMED]))

    def _read(self) -> None:
        while data := self._reader.recv(4096):
            for byte in data:
                try:
                    self._hear(byte)
                except Exception:
                    logger.exception("handling a signal failed")

    def _hear(self, byte: int) -> None:
        number = byte & ~_CONFIRMED
        if byte == number:
            self._unconfirmed.add(number)
            self._told(number)
            self._pass_on(byte)
        elif number in self._unconfirmed:
            self._unconfirmed.remove(number)
        else:
            self._told(number)

    def _pass_on(self, byte: int) -> None:
        # On Windows the descriptor is a socket. A loop needs it only to be woken, which `told` does.
        if self._before != -1 and sys.platform != "win32":
            with suppress(OSError):  # it is full, or closed
                os.write(self._before, bytes([byte]))


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def own_signals() -> None:
    """Undo signal settings of the parent process that would break this process and its children. If SIGCHLD is ignored,
    children have no exit status; a blocked signal ends nothing. Other ignored signals stay ignored: SIGHUP of a program
    that outlives its terminal, or SIGINT."""
    if sys.platform == "win32" or not _in_main_thread():
        return
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, signal.SIGPIPE, *ENDING})

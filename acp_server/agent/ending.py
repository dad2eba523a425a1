"""Ends the process and its children within a deadline.

Every shutdown has a deadline, which starts with the shutdown. This holds for every reason: a signal, the end of input,
output that the client does not read, a handler. An agent whose client is gone must not live on because the event loop
is blocked or a thread never ends. A forced exit runs no cleanup and saves nothing.

Children are found by reading the process tree at the end. A process group would not contain children that lead their
own group, and every child that this library starts does. It would also take the program out of the group of its client
or terminal. A subreaper exists on Linux only, and also adopts daemons. The process tree costs nothing until the
shutdown and changes nothing about the process. It contains every child, whether anyio, asyncio, trio, `subprocess`,
`multiprocessing` or a thread started it.

A daemon keeps running: its parent has ended on purpose, so the daemon is no longer in the tree. A child in its own
session is not yet a daemon, so it is ended. The tree is also read before tasks are cancelled. Otherwise the cancel
could kill a shell first, and the shell's children would not be found.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from acp_server.agent.log import LAST_WORDS, drain
from acp_server.peer.limits import Limits
from acp_server.tasks.exit_hooks import before_exit, run_exit_hooks

if TYPE_CHECKING:
    from psutil import Process

logger: logging.Logger = logging.getLogger("acp_server.agent")

_EXIT_HOOKS: Final = 2.0
"""Seconds for the `before_exit` functions."""

_THREADS_END: Final = 2.0
"""Seconds that threads have to end after the program has ended."""

_AT_EXIT: Final = 5.0
"""Seconds for the program's exit handlers (`atexit`), which run after its threads have ended."""


def exit_now(code: int, why: str) -> NoReturn:
    """End the process now, with one entry in the log. Runs only the `before_exit` functions, and no other cleanup."""

    def speak() -> None:
        logger.error("ending the process: %s", why)
        drain()
        logging.shutdown()
        for file in (sys.__stdout__, sys.__stderr__):
            if file is not None:
                file.flush()

    try:
        # The log may be blocked as well.
        _within(LAST_WORDS, speak)
        _within(_EXIT_HOOKS, run_exit_hooks)
    finally:
        os._exit(code)


def _within(seconds: float, function: Callable[[], None]) -> None:
    """Call `function` in a thread, and wait for it for at most `seconds`."""
    thread = threading.Thread(target=function, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter starts no more threads during its shutdown.
        function()
    else:
        thread.join(seconds)


class Deadline:
    """Ends the process from a timer thread, outside of the event loop, when its time is over."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def arm(self, seconds: float, code: int, why: str) -> None:
        """Exit in `seconds` with the exit code `code`, unless disarmed. Has no effect if the deadline is armed
        already."""
        if self._timer is not None:
            return
        self._timer = threading.Timer(seconds, exit_now, (code, why))
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """Remove the deadline. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def outlast(code: int) -> None:
    """End the children of a program that has ended, apart from its exit handlers. Exits with `code` if an exit handler
    or a thread keeps the process alive."""
    through = threading.Event()
    # Python's own thread pools use this hook: it is called before the main thread waits for other threads.
    register = getattr(threading, "_register_atexit", None)
    if register is None:
        return

    def program_ends() -> None:
        through.set()
        # Before Python waits for the children of `multiprocessing`, which would take as long as they do.
        run_exit_hooks()

    register(program_ends)
    threading.Thread(target=_outlast, args=(through, code), name="acp_server exit", daemon=True).start()


def _outlast(through: threading.Event, code: int) -> None:
    through.wait()
    end = time.monotonic() + _THREADS_END
    for thread in _others():
        thread.join(max(0.0, end - time.monotonic()))
    if names := ", ".join(thread.name for thread in _others()):
        exit_now(code, f"threads that do not end: {names}")
    time.sleep(_AT_EXIT)
    exit_now(code, "its exit handlers take too long")


def _others() -> list[threading.Thread]:
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]


AGAIN: Final = 2.0
"""Seconds within which a second interrupt ends the program instead of a turn. A signal that comes later than this after
the first one is not an echo of the first. It means that the shutdown takes too long."""

_LOOP_ENDS: Final = 2.0
"""Seconds that the event loop has to end after the last response was written."""


class Ending:
    """The deadlines of a process that serves within `limits`. `on_begin` is called when the shutdown begins, before
    tasks are cancelled.

    `alarm` is called in a thread or in a signal handler, and all other methods by the program. So the lock is
    reentrant.
    """

    def __init__(self, limits: Limits, on_begin: Callable[[], object] | None = None) -> None:
        self._on_begin = on_begin
        self._to_hear = limits.end_grace + _LOOP_ENDS
        # Twice the time that the connection allows itself: after that it is stuck.
        self._longest = 2 * limits.closing + 2 * _LOOP_ENDS
        self._hearing = Deadline()
        self._closing = Deadline()
        self._lock = threading.RLock()
        self._unheard = 0
        """The number of signals that the loop has not handled yet."""
        self._interrupted = -math.inf
        """The time of the last SIGINT."""
        self._signalled: tuple[int, float] | None = None
        """The exit code of the first signal that ends the program, and its time."""
        self._code: int | None = None
        self._ended = 0.0

    def alarm(self, number: int) -> None:
        """Take note of a signal that has arrived. If the loop is blocked or has ended, nothing else handles the
        signal."""
        with self._lock:
            if self._code is None:
                self._alarm(number, time.monotonic())
            elif time.monotonic() - self._ended > AGAIN:
                exit_now(self._code, "signalled again at its end")

    def _alarm(self, number: int, now: float) -> None:
        # The first interrupt ends a turn. A second one soon after it ends the program, even if the loop is blocked.
        ends_turn = number == signal.SIGINT and not self._unheard and now - self._interrupted > AGAIN
        if self.is_wanted or not ends_turn:
            code, since = self._first(128 + number, now)
            if now - since > AGAIN:
                exit_now(code, "signalled again while closing")
            self._hearing.arm(self._to_hear, code, "the event loop is blocked")
        if number == signal.SIGINT:
            self._interrupted = now
        self._unheard += 1

    @property
    def is_wanted(self) -> bool:
        """Whether a signal has requested the end of the program, and not only the end of a turn."""
        return self._signalled is not None

    def heard(self) -> None:
        """Record that the loop handles a signal."""
        with self._lock:
            self._unheard -= 1
            if not self._unheard:
                self._hearing.disarm()

    def signalled(self, code: int) -> None:
        """Record that the connection closes because of a signal that the loop handled."""
        with self._lock:
            code, _ = self._first(code, time.monotonic())
        self.begin(code)

    def _first(self, code: int, now: float) -> tuple[int, float]:
        if self._signalled is None:
            self._signalled = code, now
        return self._signalled

    def begin(self, code: int) -> None:
        """Start the deadline for closing the connection. Only the first call has an effect."""
        if self._on_begin is not None:
            on_begin, self._on_begin = self._on_begin, None
            on_begin()
        self._closing.arm(self._longest, code, "closing takes too long")

    def outside(self, deadline: Deadline) -> None:
        """Arm `deadline`: the client is gone, and the blocked loop has not noticed it. May be called in any thread."""
        deadline.arm(self._longest, 0, "the client is gone, and the event loop is blocked")

    def served(self, code: int) -> None:
        """Record that the last response was written. From now on the event loop has `_LOOP_ENDS` seconds to end."""
        self._closing.disarm()
        self._closing.arm(_LOOP_ENDS, code, "the event loop does not end")

    def through(self, code: int) -> None:
        """Record that the event loop has ended too. The rest of the program has no deadline."""
        with self._lock:
            self._code = code
            self._ended = time.monotonic()
        self.stop()

    def stop(self) -> None:
        """Remove all deadlines."""
        with self._lock:
            self._hearing.disarm()
            self._closing.disarm()


_TERMINATED: Final = 0.5
"""Seconds that child processes have to end after SIGTERM."""
_GLANCE: Final = 0.01
_ROUNDS: Final = 5
"""How often to look for children that were started meanwhile. A process pool starts new ones."""


class Children:
    """The descendants of this process."""

    def __init__(self) -> None:
        self._seen: list[Process] = []

    def end_with_us(self) -> None:
        """End all descendants when this process ends, unless an uncatchable signal kills it."""
        before_exit(self._end)

    def look(self) -> None:
        """Remember the present descendants. They are then ended with this process even if their parent ends first.
        Never raises."""
        try:
            self._seen = _children() if _has_children() else []
        except Exception:
            logger.exception("cannot list the child processes of the agent")

    def _end(self) -> None:
        found = [process for process in self._seen if _lives(process)]
        if _has_children():
            found = list({*found, *_children()})
        if not found:
            return
        for process in found:
            _send(process, kill=False)
        end = time.monotonic() + _TERMINATED
        while time.monotonic() < end and any(map(_lives, found)):
            time.sleep(_GLANCE)
        for _ in range(_ROUNDS):
            # In the first round, processes that have ended are signalled too, since their groups may have other
            # members.
            for process in found:
                _send(process, kill=True)
            found = [process for process in _children() if _lives(process)]
            if not found:
                return


def _has_children() -> bool:
    """Whether this process has children. Few agents have any, and reading the process table costs milliseconds."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> list[Process]:
    """Return all descendants of this process."""
    import psutil

    # The tracker ends by itself after this process, and then removes shared memory that was left behind.
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    spared = getattr(getattr(tracker, "_resource_tracker", None), "_pid", None)
    return [process for process in psutil.Process().children(recursive=True) if process.pid != spared]


def _lives(process: Process) -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _send(process: Process, *, kill: bool) -> None:
    """Signal a process. If it leads a process group, signal the group, because members may have lost their parent."""
    import psutil

    try:
        if sys.platform == "win32":
            process.kill()
            return
        number = signal.SIGKILL if kill else signal.SIGTERM
        if process.is_running() and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    except (psutil.Error, ProcessLookupError, PermissionError):
        pass

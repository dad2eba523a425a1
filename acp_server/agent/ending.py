"""Ends the process for certain, and its children with it: what may take how long, and what happens when time is up.

Every end has a deadline from the moment in which it begins, whatever began it: a signal, the end of the input, an
output that the client does not read, a handler. An agent whose client has gone must not live on because of a loop that
is blocked or a thread that never ends. Ending by force closes nothing and saves nothing.

Children are found by reading the tree of processes at the end. A process group of our own would not hold those that
lead one, as all that this library starts do. It would also take the program out of the group of its client or terminal.
A subreaper exists on Linux only, and is handed daemons too. The tree costs nothing until the end, changes nothing about
the process, and holds whatever started them: anyio, asyncio, trio, `subprocess`, `multiprocessing`, a thread. What has
detached itself goes on: a daemon is known by its parent, which has ended on purpose. A child in a session of its own is
not a daemon yet, and ends. So does what a shell runs that is killed because the end cancels what waits for it: the tree
is also read before that.
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
"""Seconds for what is `before_exit`."""

_THREADS_END: Final = 2.0
"""Seconds that threads have to end once the program is through."""

_AT_EXIT: Final = 5.0
"""Seconds for what the program has registered for its end, after its threads."""


def exit_now(code: int, why: str) -> NoReturn:
    """End the process now, with one line in the log, running no cleanup but what is `before_exit`."""

    def speak() -> None:
        logger.error("ending the process: %s", why)
        drain()
        logging.shutdown()
        for file in (sys.__stdout__, sys.__stderr__):
            if file is not None:
                file.flush()

    try:
        # The log may be stuck as well.
        _within(LAST_WORDS, speak)
        _within(_EXIT_HOOKS, run_exit_hooks)
    finally:
        os._exit(code)


def _within(seconds: float, function: Callable[[], None]) -> None:
    """Call `function`, and wait for its end for `seconds` at most."""
    thread = threading.Thread(target=function, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter starts no more threads at its end.
        function()
    else:
        thread.join(seconds)


class Deadline:
    """A time after which the process is ended from outside the event loop."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def arm(self, seconds: float, code: int, why: str) -> None:
        """Leave in `seconds` with the exit code `code`, unless disarmed. No effect if it is armed already."""
        if self._timer is not None:
            return
        self._timer = threading.Timer(seconds, exit_now, (code, why))
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """There is no deadline any more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def outlast(code: int) -> None:
    """The program is through, apart from what it does at its end. Have its children end. Exit with `code` if what the
    program still does, or one of its threads, keeps the process alive."""
    through = threading.Event()
    # Python tells its own thread pools in this way, and waits for them in it, before it lets go of the main thread.
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
    exit_now(code, "what is done at its end takes too long")


def _others() -> list[threading.Thread]:
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]


AGAIN: Final = 2.0
"""Seconds within which a second interrupt means the program, and no longer a turn. Behind a signal that has asked for
the end, what comes later than that is not an echo of it, and means that the end takes too long."""

_LOOP_ENDS: Final = 2.0
"""Seconds that the event loop has to end after the last answer is out."""


class Ending:
    """The deadlines of one process that serves within `limits`. `on_begin` is called when its end begins, before what
    runs in it is cancelled.

    `alarm` is called in a thread or in a signal handler, all else by the program. So the lock may be taken twice.
    """

    def __init__(self, limits: Limits, on_begin: Callable[[], object] | None = None) -> None:
        self._on_begin = on_begin
        self._to_hear = limits.end_grace + _LOOP_ENDS
        # What the connection allows itself, twice over: beyond that it is stuck.
        self._longest = 2 * limits.closing + 2 * _LOOP_ENDS
        self._hearing = Deadline()
        self._closing = Deadline()
        self._lock = threading.RLock()
        self._unheard = 0
        """How many signals the loop has not acted on yet."""
        self._interrupted = -math.inf
        """When the last SIGINT came."""
        self._signalled: tuple[int, float] | None = None
        """The code that the first signal which ends the program asks for, and when that came."""
        self._code: int | None = None
        self._ended = 0.0

    def alarm(self, number: int) -> None:
        """A signal has come: if the loop is blocked, or through, this is all that will happen."""
        with self._lock:
            if self._code is None:
                self._alarm(number, time.monotonic())
            elif time.monotonic() - self._ended > AGAIN:
                exit_now(self._code, "signalled again at its end")

    def _alarm(self, number: int, now: float) -> None:
        # The first interrupt ends a turn, and a second one soon behind it the program, even if the loop is blocked.
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
        """Whether a signal has asked for the end, and not only for that of a turn."""
        return self._signalled is not None

    def heard(self) -> None:
        """The loop acts on a signal."""
        with self._lock:
            self._unheard -= 1
            if not self._unheard:
                self._hearing.disarm()

    def signalled(self, code: int) -> None:
        """The connection closes because of a signal that the loop acts on."""
        with self._lock:
            code, _ = self._first(code, time.monotonic())
        self.begin(code)

    def _first(self, code: int, now: float) -> tuple[int, float]:
        if self._signalled is None:
            self._signalled = code, now
        return self._signalled

    def begin(self, code: int) -> None:
        """The connection closes. Has an effect only once."""
        if self._on_begin is not None:
            on_begin, self._on_begin = self._on_begin, None
            on_begin()
        self._closing.arm(self._longest, code, "closing takes too long")

    def outside(self, deadline: Deadline) -> None:
        """The client is gone, and the loop, which is held, does not know of it. In any thread."""
        deadline.arm(self._longest, 0, "the client is gone, and the event loop is blocked")

    def served(self, code: int) -> None:
        """The last answer is out."""
        self._closing.disarm()
        self._closing.arm(_LOOP_ENDS, code, "the event loop does not end")

    def through(self, code: int) -> None:
        """The loop has ended, too. What the program still does has no deadline; it is its own."""
        with self._lock:
            self._code = code
            self._ended = time.monotonic()
        self.stop()

    def stop(self) -> None:
        """There is no deadline any more."""
        with self._lock:
            self._hearing.disarm()
            self._closing.disarm()


_TERMINATED: Final = 0.5
"""Seconds that the children have to end by themselves once they are asked to."""
_GLANCE: Final = 0.01
_ROUNDS: Final = 5
"""How often to look again for children that were started meanwhile, as a pool of processes does."""


class Children:
    """What this process has started, and that, and so on."""

    def __init__(self) -> None:
        self._seen: list[Process] = []

    def end_with_us(self) -> None:
        """Have none of them outlive this process, unless it is ended by a signal that cannot be caught."""
        before_exit(self._end)

    def look(self) -> None:
        """What is there now ends with us also if it has lost its parent by then. Never raises."""
        try:
            self._seen = _children() if _has_children() else []
        except Exception:
            logger.exception("looking for child processes failed")

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
            # The first time also those that have ended: the groups that they led may have other members.
            for process in found:
                _send(process, kill=True)
            found = [process for process in _children() if _lives(process)]
            if not found:
                return


def _has_children() -> bool:
    """Whether to look at all. Few agents have children, and the table of all processes costs milliseconds."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> list[Process]:
    """Our children, theirs, and so on."""
    import psutil

    # It ends by itself when we have, and removes then what we have left behind of shared memory.
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
    """Signal a process, and the group that it leads, if it leads one: members may have lost their parent."""
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

"""Ends the process for certain: when its time is up, whatever in it is stuck.

An agent whose client has gone must not live on because of a loop that is blocked or a thread that never ends. It closes
nothing and saves nothing; those who call it have done that, or could not.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

from acp_server.agent.log_stream import drain
from acp_server.tasks.parting import part

logger = logging.getLogger("acp_server.agent")

_LAST_WORDS: Final = 1.0
"""Seconds for the log, which may be stuck as well."""

_PARTING: Final = 2.0
"""Seconds for what is `before_the_end`."""

_THREADS_END: Final = 2.0
"""Seconds that threads have to end once the program is through."""

_AT_EXIT: Final = 5.0
"""Seconds for what the program has registered for its end, after its threads."""


def leave(code: int, why: str) -> NoReturn:
    """End the process now, with one line in the log, running no cleanup but what is `before_the_end`."""

    def speak() -> None:
        logger.error("ending the process: %s", why)
        drain(_LAST_WORDS)
        logging.shutdown()
        for file in (sys.__stdout__, sys.__stderr__):
            if file is not None:
                file.flush()

    try:
        _within(_LAST_WORDS, speak)
        _within(_PARTING, part)
    finally:
        os._exit(code)


def _within(seconds: float, function: Callable[[], None]) -> None:
    """Call `function`, and wait for it no longer than that."""
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
        self._timer = threading.Timer(seconds, leave, (code, why))
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """There is no deadline any more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def outlast(code: int) -> None:
    """The program is through, apart from what it does at its end: have the others part from it, and if what it does, or
    one of its threads, keeps the process alive, leave with `code`."""
    through = threading.Event()
    # Python tells its own thread pools in this way, and waits for them in it, before it lets go of the main thread.
    register = getattr(threading, "_register_atexit", None)
    if register is None:
        return

    def program_ends() -> None:
        through.set()
        # Before Python waits for the children of `multiprocessing`, which would take as long as they do.
        part()

    register(program_ends)
    threading.Thread(target=_outlast, args=(through, code), name="acp_server exit", daemon=True).start()


def _outlast(through: threading.Event, code: int) -> None:
    through.wait()
    end = time.monotonic() + _THREADS_END
    for thread in _others():
        thread.join(max(0.0, end - time.monotonic()))
    if names := ", ".join(thread.name for thread in _others()):
        leave(code, f"threads that do not end: {names}")
    time.sleep(_AT_EXIT)
    leave(code, "what is done at its end takes too long")


def _others() -> list[threading.Thread]:
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]

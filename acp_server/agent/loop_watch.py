"""Watches an event loop from a thread of its own: says in the log what holds it, and notices that the client is gone
while the loop cannot.

It changes nothing about what runs: it asks a loop that is busy to call it back, and sees at its next look whether that
has happened. How long a process may outlive its client is decided in `acp_server.agent.ending`.
"""

from __future__ import annotations

import logging
import select
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, Final

import anyio.lowlevel

logger = logging.getLogger("acp_server.agent")

HELD: Final = 1.0
"""Seconds that work may hold the loop before the log is told. A user notices less than that as a hitch at most, and to
load a model or to read a large file takes less as a rule: more is a mistake."""

_NAMES: Final = 100
"""Functions that are told of, each once."""

_LIBRARIES: Final = sys.stdlib_module_names | {"acp_server", "anyio", "jsonrpcserver", "trio"}


_CALLERS: Final = frozenset({"asyncio.events", "asyncio.runners", "trio._core._run"})
"""Modules in which a loop calls what it runs, or in which it was started."""

_WAITERS: Final = frozenset({"asyncio.base_events", "asyncio.runners", "asyncio.windows_events", "trio._core._run"})
"""Modules in which a loop is while it waits for something to do, or which call what waits."""


class LoopWatch:
    """Of the loop that it is made in. `is_gone`: whether the client is; `on_gone` is called, once, if that is so while
    the loop is held. Both are called in the thread of the watch."""

    def __init__(self, is_gone: Callable[[], bool], on_gone: Callable[[], None]) -> None:
        loop: Any = anyio.lowlevel.current_token().native_token
        self._soon: Callable[..., object] = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        self._home: Final = threading.get_ident()
        self._is_gone = is_gone
        self._on_gone = on_gone
        self._has_gone = False
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._asked: tuple[float, float] | None = None
        """When the loop was asked to call back, and how long it had waited for a processor by then; None if it has
        called."""
        self._told: set[CodeType] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acp_server watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more. Idempotent."""
        self._over.set()
        self._thread.join(HELD)

    def _run(self) -> None:
        while not self._over.wait(HELD):
            self.look()

    def look(self) -> None:
        """See whether the loop has been held since the last look."""
        frame = sys._current_frames().get(self._home)  # pyright: ignore[reportPrivateUsage]
        asked = self._asked
        if asked is None:
            # A loop that waits is left to sleep.
            if frame is not None and not _is_waiting(frame):
                self._asked = perf_counter(), self._waited()
                self._soon(self._heard)
            return
        begun, waited = asked
        held = perf_counter() - begun
        if held < HELD:
            return
        # Short work takes long where other processes have the processors, and the program is not to blame for that.
        own = held - (self._waited() - waited)
        # The loop may have gone on while we looked.
        if frame is not None and self._asked is asked and own >= HELD:
            self._tell(frame, own)
        if not self._has_gone and self._is_gone():
            self._has_gone = True
            self._on_gone()

    def _heard(self) -> None:
        self._asked = None

    def _waited(self) -> float:
        """Seconds that the loop's thread has waited for a processor so far; 0 where the system does not tell."""
        try:
            return int(self._schedule.read_text("ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    def _tell(self, innermost: FrameType, held: float) -> None:
        frames: list[FrameType] = []
        for frame, _ in traceback.walk_stack(innermost):
            if _module(frame) in _CALLERS:
                break
            frames.append(frame)
        # From the program's own function on, which the runtime has called.
        own = [index for index, frame in enumerate(frames) if not _is_ours(frame)]
        frames = frames[: own[-1] + 1] if own else frames[:1]
        if not frames:
            return
        code = frames[-1].f_code
        if code in self._told or len(self._told) >= _NAMES:
            return
        self._told.add(code)
        stack = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
        text = "Stack (most recent call last):\n" + "".join(stack.format()).removesuffix("\n")
        message = (
            "%s has held the event loop for at least %.1f s: no message is heeded meanwhile, and no cancel; "
            "what computes or blocks belongs in a thread (a plain def tool, anyio.to_thread.run_sync)"
        )
        name = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        place = (code.co_filename, code.co_firstlineno)
        record = logger.makeRecord(logger.name, logging.WARNING, *place, message, (name, held), None, sinfo=text)
        logger.handle(record)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_ours(frame: FrameType) -> bool:
    """Whether the frame is the runtime's or the standard library's, and not the program's."""
    return _module(frame).partition(".")[0] in _LIBRARIES


def _is_waiting(innermost: FrameType) -> bool:
    """Whether a loop waits for something to do, or has just begun or ended to. A program may wait for a selector, too,
    for example to the end of a subprocess, and then it holds the loop."""
    module = _module(innermost)
    if module == "selectors" or module.startswith("trio._core._io_"):
        return innermost.f_back is not None and _module(innermost.f_back) in _WAITERS
    return module in _WAITERS


def is_hung_up(fd: int) -> bool:
    """Whether the other end of the pipe or socket `fd` is closed, whatever is still to be read there. False where
    the system does not tell."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    try:
        return any(events & (select.POLLHUP | getattr(select, "POLLRDHUP", 0)) for _, events in poll.poll(0))
    except OSError:
        return False

"""Watches an event loop from a thread. It logs code that blocks the loop, and notices when the client is gone and the
blocked loop cannot.

The watch does not interfere with the loop's work. It asks a busy loop to call back. Later it checks whether the loop
has called back, and whether the same function still runs. `acp_server.agent.ending` decides how long a process may
outlive its client.
"""

from __future__ import annotations

import logging
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import anyio.lowlevel

logger: logging.Logger = logging.getLogger("acp_server.agent")

HELD: Final = 1.0
"""Seconds that a function may block the loop before that is logged. A user hardly notices less time, and loading a
model or reading a large file usually takes less. A longer block is a mistake."""

_LATE: Final = 2 * HELD
"""If there are more than these seconds between two looks, the watch itself was delayed."""

_NAMES: Final = 100
"""The most functions that are logged. Each is logged once."""

_LIBRARIES: Final = sys.stdlib_module_names | {"acp_server", "anyio", "jsonrpcserver", "trio"}


_CALLERS: Final = frozenset({"asyncio.events", "asyncio.runners", "trio._core._run"})
"""Modules in which a loop calls its callbacks, or in which a loop was started."""

_WAITERS: Final = frozenset({"asyncio.base_events", "asyncio.runners", "asyncio.windows_events", "trio._core._run"})
"""Modules in which a loop waits for events, or which call that wait."""


class _Look(NamedTuple):
    """One look at the loop's thread. All values are seconds of monotonic clocks."""

    at: float
    waited: float
    """How long the loop's thread has waited for a processor so far."""
    computed: float
    """How long the loop's thread has had a processor so far."""


class _Question:
    """A request to the loop to call back, and the functions that were seen running until then.

    A function is identified by its outermost frame in the program. Frames are kept until the loop calls back. So no
    other frame can reuse the memory address, and objects are released in the loop's thread.
    """

    __slots__ = ("_frames", "_since", "is_answered")

    def __init__(self) -> None:
        self._frames: list[FrameType | None] = []
        self._since: _Look | None = None
        self.is_answered = False

    def see(self, work: FrameType | None, now: _Look) -> _Look | None:
        """Record the running function, if known. If it also ran at the last look, return the look since which it has
        run. Called in the watch's thread."""
        if work is not None and self._frames and self._frames[-1] is work:
            return self._since
        self._frames.append(work)
        self._since = now
        return None

    def answer(self) -> None:
        """Record that the loop has called back."""
        self.is_answered = True
        self._frames = []


class LoopWatch:
    """Watches the loop in which it is made. `is_gone` returns whether the client is gone. `on_gone` is called once if
    the client is gone while the loop is blocked. Both are called in the watch's thread."""

    def __init__(self, is_gone: Callable[[], bool], on_gone: Callable[[], None]) -> None:
        loop: Any = anyio.lowlevel.current_token().native_token
        self._soon: Callable[..., object] = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        self._home: Final = threading.get_ident()
        self._is_gone = is_gone
        self._on_gone = on_gone
        self._has_gone = False
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._cpu_clock: int | None = None if clock_of is None else clock_of(self._home)
        self._last: _Look | None = None
        self._question: _Question | None = None
        self._told: set[CodeType] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acp_server watch", daemon=True)

    def start(self) -> None:
        """Begin to watch. Must be called in the loop."""
        self._last = _Look(perf_counter(), self._waited(), self._computed())
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        self._over.set()
        self._thread.join(HELD)

    def _run(self) -> None:
        while not self._over.wait(HELD):
            self.look()

    def look(self) -> None:
        """Check whether the loop has been blocked since the last look."""
        innermost = sys._current_frames().get(self._home)  # pyright: ignore[reportPrivateUsage]
        if innermost is None:
            return
        frames = _own_frames(innermost)
        work = frames[-1] if frames else None
        last, question = self._last, self._question
        now = self._last = _Look(perf_counter(), self._waited(), self._computed())
        if last is not None and now.at - last.at >= _LATE:
            # The watch's thread was delayed: by C code that computes and holds the GIL, or because the process was
            # stopped. Earlier looks mean nothing then.
            question = None
            if (computed := now.computed - last.computed) >= HELD:
                self._held(frames, computed)
        if question is None or question.is_answered:
            # An idle loop is not woken up.
            self._question = None if _is_waiting(innermost) else self._ask(work, now)
        elif (since := question.see(work, now)) is not None and now.at - since.at >= HELD:
            # Short work takes long where other processes occupy the processors. That time is not counted.
            self._held(frames, now.at - since.at - (now.waited - since.waited))

    def _ask(self, work: FrameType | None, now: _Look) -> _Question | None:
        question = _Question()
        question.see(work, now)
        try:
            self._soon(question.answer)
        except RuntimeError:
            return None  # the loop is closed
        return question

    def _held(self, frames: list[FrameType], seconds: float) -> None:
        """Handle a blocked loop: log the blocking function, and check whether the client is gone. `seconds`: how long
        the running code has blocked the loop, without time lost to other processes."""
        if frames and seconds >= HELD:
            self._tell(frames, seconds)
        if not self._has_gone and self._is_gone():
            self._has_gone = True
            self._on_gone()

    def _waited(self) -> float:
        """Return the seconds that the loop's thread has waited for a processor so far; 0 if the system does not report
        them."""
        try:
            return int(self._schedule.read_text("ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    def _computed(self) -> float:
        """Return the seconds of CPU that the loop's thread has used so far; 0 if the system does not report them."""
        return 0.0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)

    def _tell(self, frames: list[FrameType], held: float) -> None:
        code = frames[-1].f_code
        if code in self._told or len(self._told) >= _NAMES:
            return
        self._told.add(code)
        stack = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
        text = "Stack (most recent call last):\n" + "".join(stack.format()).removesuffix("\n")
        message = (
            "%s has blocked the event loop for at least %.1f s: messages and cancels wait meanwhile; "
            "run code that computes or blocks in a thread (a plain def tool, anyio.to_thread.run_sync)"
        )
        name = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        place = (code.co_filename, code.co_firstlineno)
        record = logger.makeRecord(logger.name, logging.WARNING, *place, message, (name, held), None, sinfo=text)
        logger.handle(record)


def _own_frames(innermost: FrameType) -> list[FrameType]:
    """Return the frames up to the outermost function of the program, which the runtime has called."""
    frames: list[FrameType] = []
    for frame, _ in traceback.walk_stack(innermost):
        if _module(frame) in _CALLERS:
            break
        frames.append(frame)
    own = [index for index, frame in enumerate(frames) if not _is_ours(frame)]
    return frames[: own[-1] + 1] if own else frames[:1]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_ours(frame: FrameType) -> bool:
    """Whether the frame belongs to the runtime or the standard library, and not to the program."""
    return _module(frame).partition(".")[0] in _LIBRARIES


def _is_waiting(innermost: FrameType) -> bool:
    """Whether a loop waits for events, is about to wait, or has just stopped waiting. A program may also wait in a
    selector, for example for a subprocess; then it blocks the loop."""
    module = _module(innermost)
    if module == "selectors" or module.startswith("trio._core._io_"):
        return innermost.f_back is not None and _module(innermost.f_back) in _WAITERS
    return module in _WAITERS


def is_hung_up(fd: int) -> bool:
    """Whether the other end of the pipe or socket `fd` is closed, even if there is data left to read. False if the
    system does not report it."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    try:
        return any(events & (select.POLLHUP | getattr(select, "POLLRDHUP", 0)) for _, events in poll.poll(0))
    except OSError:
        return False

"""Watches an event loop from a thread of its own: says in the log what holds it, and notices that the client is gone
while the loop cannot.

It changes nothing about what runs: it asks a loop that is busy to call it back, and sees at its next look whether that
has happened, and whether the same work still runs. How long a process may outlive its client is decided in
`acp_server.agent.ending`.
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
"""Seconds that work may hold the loop before the log is told. A user notices less than that as a hitch at most, and to
load a model or to read a large file takes less as a rule: more is a mistake."""

_LATE: Final = 2 * HELD
"""Seconds from one look to the next that are more than the wait between them."""

_NAMES: Final = 100
"""Functions that are told of, each once."""

_LIBRARIES: Final = sys.stdlib_module_names | {"acp_server", "anyio", "jsonrpcserver", "trio"}


_CALLERS: Final = frozenset({"asyncio.events", "asyncio.runners", "trio._core._run"})
"""Modules in which a loop calls what it runs, or in which it was started."""

_WAITERS: Final = frozenset({"asyncio.base_events", "asyncio.runners", "asyncio.windows_events", "trio._core._run"})
"""Modules in which a loop is while it waits for something to do, or which call what waits."""


class _Look(NamedTuple):
    """What one look has seen. Seconds are those of clocks that only go forward."""

    at: float
    waited: float
    """How long the loop's thread has waited for a processor so far."""
    computed: float
    """How long it has had one."""


class _Question:
    """The loop was asked to call back, and runs what it ran before, or one after the other.

    What ran is known by its outermost frame that is the program's. A frame is kept until the loop calls back: no other
    can be taken for it by its place in memory, and what its end releases is released in the loop's thread.
    """

    __slots__ = ("_frames", "_since", "is_answered")

    def __init__(self) -> None:
        self._frames: list[FrameType | None] = []
        self._since: _Look | None = None
        self.is_answered = False

    def see(self, work: FrameType | None, now: _Look) -> _Look | None:
        """What runs now, as far as it is known. Returns the look since which it has run, if it ran at the last one as
        well. Called in the thread of the watch."""
        if work is not None and self._frames and self._frames[-1] is work:
            return self._since
        self._frames.append(work)
        self._since = now
        return None

    def answer(self) -> None:
        """The loop calls back."""
        self.is_answered = True
        self._frames = []


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
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._cpu_clock: int | None = None if clock_of is None else clock_of(self._home)
        self._last: _Look | None = None
        self._question: _Question | None = None
        self._told: set[CodeType] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acp_server watch", daemon=True)

    def start(self) -> None:
        """Begin to watch. To be called by the loop."""
        self._last = _Look(perf_counter(), self._waited(), self._computed())
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
        innermost = sys._current_frames().get(self._home)  # pyright: ignore[reportPrivateUsage]
        if innermost is None:
            return
        frames = _own_frames(innermost)
        work = frames[-1] if frames else None
        last, question = self._last, self._question
        now = self._last = _Look(perf_counter(), self._waited(), self._computed())
        if last is not None and now.at - last.at >= _LATE:
            # This thread was kept from looking: by a call of C code that computes and lets no other thread run, or by
            # a process that was stopped. What was seen before it tells nothing.
            question = None
            if (computed := now.computed - last.computed) >= HELD:
                self._held(frames, computed)
        if question is None or question.is_answered:
            # A loop that waits is left to sleep.
            self._question = None if _is_waiting(innermost) else self._ask(work, now)
        elif (since := question.see(work, now)) is not None and now.at - since.at >= HELD:
            # Short work takes long where other processes have the processors, and it is not to blame for that.
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
        """The loop is held. `seconds`: how long by what runs in it, and not by other processes."""
        if frames and seconds >= HELD:
            self._tell(frames, seconds)
        if not self._has_gone and self._is_gone():
            self._has_gone = True
            self._on_gone()

    def _waited(self) -> float:
        """Seconds that the loop's thread has waited for a processor so far; 0 where the system does not tell."""
        try:
            return int(self._schedule.read_text("ascii").split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    def _computed(self) -> float:
        """Seconds that the loop's thread has computed so far; 0 where the system does not tell."""
        return 0.0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)

    def _tell(self, frames: list[FrameType], held: float) -> None:
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


def _own_frames(innermost: FrameType) -> list[FrameType]:
    """The frames up to the program's own function that the runtime has called."""
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
    """Whether the frame is the runtime's or the standard library's, and not the program's."""
    return _module(frame).partition(".")[0] in _LIBRARIES


def _is_waiting(innermost: FrameType) -> bool:
    """Whether a loop waits for something to do, or has just begun to, or just stopped. A program may wait for a
    selector, too, for example until a subprocess ends, and then it holds the loop."""
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

"""Measures a process from inside, and notes what it sees on a descriptor beside its standard streams: one JSON object a
line. Times are CPU seconds, which a busy machine does not make longer."""

import atexit
import json
import os
import time
from collections.abc import Callable

import anyio

_TICK = 0.002


def peak(pid: int | str = "self") -> int:
    """The most bytes of memory that a process has had; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(text.split()[1]) * 1024 for text in status if text.startswith("VmHWM")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


class Meter:
    """Notes to the descriptor `fd`, the last one at the end of the process. `clock`: of the thread of the loop, or of
    all of them."""

    def __init__(self, fd: int, clock: Callable[[], float] = time.thread_time) -> None:
        self._fd = fd
        self._clock = clock
        self._gap = 0.0
        atexit.register(self.note, "end")

    def note(self, what: str) -> None:
        """Note that something happened: when it did, the loop's longest gap until then, the most memory."""
        seen = {"what": what, "cpu": time.process_time(), "gap": self._gap, "peak": peak()}
        os.write(self._fd, json.dumps(seen).encode() + b"\n")

    async def watch(self) -> None:
        """Measure how long the event loop was held, until cancelled, and note it. What came before is forgotten."""
        self._gap = 0.0
        last = self._clock()
        try:
            while True:
                await anyio.sleep(_TICK)
                now = self._clock()
                self._gap = max(self._gap, now - last)
                last = now
        finally:
            self.note("watched")

    async def probe(self) -> None:
        """Hang, and note when it is cancelled."""
        self.note("begun")
        try:
            await anyio.sleep_forever()
        finally:
            self.note("cut")

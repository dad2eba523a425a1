"""What a running process has cost so far: CPU time and memory, read from outside.

Linux only, as the figures themselves are. It starts and stops nothing.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED: user and system time of all threads, ended ones too, in nanoseconds


def cpu_seconds(pid: int) -> float:
    """User and system time of the process in seconds.

    `/proc/PID/stat` gives the same sum, but in ticks of 10 ms, which is the size of some whole figures here.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)


def resident_bytes(pid: int) -> int:
    """Memory of the process that is in RAM, shared pages included."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def one_core(wanted: bool) -> Iterator[None]:
    """Keep this process, and those it starts, on a single core.

    A request and its answer that hop between cores cost two very different times, by the scheduler's mood.
    """
    before = os.sched_getaffinity(0)
    if wanted:
        os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

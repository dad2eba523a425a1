"""The cost of a running process so far: CPU time and memory, read from outside.

Linux only, like the figures themselves. It starts and stops nothing.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED: user and system time of all threads, including ended ones, in nanoseconds


def cpu_seconds(pid: int) -> float:
    """User and system time of the process in seconds.

    `/proc/PID/stat` gives the same sum, but in ticks of 10 ms, which is the size of some whole figures here.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)


def resident_bytes(pid: int) -> int:
    """Memory of the process that is in RAM, shared pages included."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    """The most memory that the process has had in RAM, shared pages included."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@contextmanager
def one_core(wanted: bool) -> Iterator[None]:
    """Keep this process, and its child processes, on a single core.

    A request and its response that hop between cores cost two very different times, depending on the scheduler.
    """
    before = os.sched_getaffinity(0)
    if wanted:
        os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

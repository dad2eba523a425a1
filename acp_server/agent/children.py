"""Ends the processes that this program has started, when it ends itself.

They are found by reading the tree of processes at the end. A process group of our own would not hold those that lead
one, as all that this library starts do. It would also take the program out of its client's group or its terminal's. A
subreaper exists on Linux only, and is handed daemons too. The tree costs nothing until the end, changes nothing about
the process, and holds whatever started them: anyio, asyncio, trio, `subprocess`, `multiprocessing`, a thread.

What has detached itself goes on: a daemon is known by its parent, which has ended on purpose. A child in a session of
its own is not a daemon yet, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

from acp_server.tasks.parting import before_the_end

if TYPE_CHECKING:
    from psutil import Process

_TERMINATED: Final = 0.5
"""Seconds that they have to end by themselves once they are asked to."""
_GLANCE: Final = 0.01
_ROUNDS: Final = 5
"""How often it is looked again for those that were started meanwhile, as a pool of processes does."""


def end_children_with_us() -> None:
    """From now on no child of this process outlives it, unless it is ended by a signal that cannot be caught."""
    before_the_end(_end)


def _end() -> None:
    if not _has_children():
        return
    found = _children()
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
    """Whether it is worth looking: no process as a rule, and the table of all costs milliseconds."""
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
    """To it, and to the group that it leads, if it does: members may have lost their parent."""
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

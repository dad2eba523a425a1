"""Programs that we start: each leads a process group of its own, is listened to, and ends without leftovers.

A program is ended in steps, and each step has its time (`Patience`, in `child`): its input is closed, it is asked to
end, and it is killed with its whole group. A group that is left when our own process ends is killed, too, for its owner
had no time to.

Here: the group. What a program starts in turn is in it, too, and so ends with it. On Windows there is no such group to
signal; there only the process itself is ended. This module waits only for the end of a group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from typing import Any, Final

import anyio
from anyio.abc import Process

from acp_server.tasks.exit_hooks import before_exit

_GLANCE: Final = 0.02
"""Seconds between two looks at whether a group is empty: the system tells only of our own children."""


def own_group() -> dict[str, Any]:
    """The arguments for `anyio.open_process` that make the new process lead a group, without a terminal."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


class ProcessGroup:
    """The group that `process` leads. `exited` is set by the task that waits for the process."""

    def __init__(self, process: Process, exited: anyio.Event) -> None:
        self._process = process
        self._exited = exited
        _end_with_us(self)

    @property
    def is_led(self) -> bool:
        """Whether the process itself still runs, as far as is known. As long as it does, the number is its own."""
        return not self._exited.is_set() and self._process.returncode is None

    @property
    def is_there(self) -> bool:
        """Whether anything of it still runs."""
        if sys.platform == "win32":
            return self.is_led
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            # Not permitted means that the number already belongs to another user's process.
            return False
        return self.is_led or _has_living_member(self._process.pid)

    def terminate(self) -> None:
        """Ask everything in it to end. No effect on an empty one."""
        if sys.platform == "win32":
            self._end_leader()
        else:
            self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End everything in it. No effect on an empty one."""
        if sys.platform == "win32":
            self._end_leader()
        else:
            self._send(signal.SIGKILL)

    async def gone(self, seconds: float) -> bool:
        """Wait until nothing of it is left, at most so long; whether that is so.

        The task that waits for the process may be gone, as when a loop of asyncio ends and cancels every task.
        """
        with anyio.move_on_after(seconds):
            await self._process.wait()
            while self.is_there:  # noqa: ASYNC110 - the system gives no event for it
                await anyio.sleep(_GLANCE)
            return True
        return False

    def _send(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _end_leader(self) -> None:
        if self.is_led:
            try:
                self._process.kill()
            except ProcessLookupError:
                pass


_groups: Final[dict[int, weakref.WeakSet[ProcessGroup]]] = {}
"""By the process that has started them. A server may import this, and fork the processes that work."""


def _end_with_us(group: ProcessGroup) -> None:
    groups = _groups.get(os.getpid())
    if groups is None:
        groups = _groups[os.getpid()] = weakref.WeakSet()
        before_exit(_kill_what_is_left)
    groups.add(group)


def _kill_what_is_left() -> None:
    for group in list(_groups[os.getpid()]):
        if group.is_led:
            group.kill()


def _has_living_member(group: int) -> bool:
    """Whether more than zombies is left: in a container they may never be collected, so they are not waited for."""
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for process in processes:
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                # The name of the program, in parentheses, may have parentheses and spaces of its own.
                state, _parent, its_group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):  # It has just ended.
            continue
        if int(its_group) == group and state not in (b"Z", b"X"):
            return True
    return not processes

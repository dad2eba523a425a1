"""Child processes. Each leads its own process group, its output is read, and it ends without leaving processes behind.

A program is ended in steps, each with a time limit (`Patience`, in `child`). Its input is closed, then its group is
terminated, then its group is killed. A group that still runs when this process ends is killed too, because its owner
had no time for that.

This module has the group. Children of the program belong to the group, and so end with it. Windows has no such group to
signal, so there only the process itself is ended. Only `gone` waits.
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
"""Seconds between two checks whether a group is empty, because the system reports the end of direct children only."""


def own_group() -> dict[str, Any]:
    """Return the arguments for `anyio.open_process` that make the new process lead a group, without a terminal."""
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
        """Whether the process itself still runs, as far as known. Until it ends, its id cannot be reused."""
        return not self._exited.is_set() and self._process.returncode is None

    @property
    def is_there(self) -> bool:
        """Whether any process of the group still runs."""
        if sys.platform == "win32":
            return self.is_led
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            # Not permitted means that the id now belongs to another user's process.
            return False
        return self.is_led or _has_living_member(self._process.pid)

    def terminate(self) -> None:
        """Send SIGTERM to the group. This has no effect on an empty group."""
        if sys.platform == "win32":
            self._end_leader()
        else:
            self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the group. This has no effect on an empty group."""
        if sys.platform == "win32":
            self._end_leader()
        else:
            self._send(signal.SIGKILL)

    async def gone(self, seconds: float) -> bool:
        """Wait at most `seconds` until no process of the group is left. Returns whether all have ended.

        The task that waits for the process may be gone, for example when an asyncio loop ends and cancels every
        task.
        """
        with anyio.move_on_after(seconds):
            await self._process.wait()
            while self.is_there:  # noqa: ASYNC110 - the system has no event for it
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
"""The groups, by the id of the process that started them. A server may import this module and fork its workers."""


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
    """Whether any member of the group is not a zombie. In a container zombies may never be reaped, so they are not
    waited for."""
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for process in processes:
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                # The name of the program, in parentheses, may itself have parentheses and spaces.
                state, _parent, its_group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):  # it has just ended
            continue
        if int(its_group) == group and state not in (b"Z", b"X"):
            return True
    return not processes

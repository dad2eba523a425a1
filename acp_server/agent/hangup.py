"""Notices that no process can read any more what is written to a descriptor, without writing to it.

No thread, no timer: the event loop is told by the system.
"""

from __future__ import annotations

import os
import select
import stat
from typing import Final

import anyio


class Hangup:
    """Of the pipe or socket `fd`, which stays the caller's. Terminals and files have none; see `wait`."""

    def __init__(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode
        self._epoll: Final = _epoll(fd) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
        # Without epoll, a pipe at least: its writing end becomes readable when its last reader goes. A socket also does
        # when something arrives, and that would be noticed over and over again.
        self._fd: Final = fd if self._epoll is None and stat.S_ISFIFO(mode) and not hasattr(select, "epoll") else -1

    async def wait(self) -> None:
        """Return when the other end is closed. Where that cannot be noticed, never."""
        if self._epoll is not None:
            await anyio.wait_readable(self._epoll.fileno())
        elif self._fd >= 0:
            await anyio.wait_readable(self._fd)
        else:
            await anyio.sleep_forever()

    def close(self) -> None:
        """Let go of what it takes. Idempotent; not while something waits."""
        if self._epoll is not None:
            self._epoll.close()


def _epoll(fd: int) -> select.epoll | None:
    if not hasattr(select, "epoll"):
        return None
    # The loops of asyncio and trio wait for bytes or for room, and here is neither to be waited for: an epoll of its
    # own, which they can wait for, tells of errors and hang-ups alone. A socket whose other end only writes no more
    # hangs up neither.
    epoll = select.epoll()
    epoll.register(fd, 0)
    return epoll

"""A command of the shell as a process of this machine, which shows what it prints as it comes.

It ends with its process group, whatever happens to the task that waits for it; what has left the group on purpose, as
daemons do, goes on. Who may run one is decided elsewhere.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel

from acp_server.processes.group import ProcessGroup, own_group
from acp_server.tasks.grace import grace

logger = logging.getLogger("acp_server.workspace")

SHELL: Final = ("cmd", "/d", "/s", "/c") if sys.platform == "win32" else ("sh", "-c")
TERMINATED: Final = 1.0
"""Seconds that a command gets to end by itself when it is stopped."""
KILLED: Final = 2.0
_STARTING: Final = 30.0
_LINGER: Final = 0.5
"""Seconds that the output may stay open after the end of the command: something that it left running may hold it."""

Taker = Callable[[bytes], Awaitable[None]]


async def run_here(command: str, cwd: str, take: Taker) -> int:
    """Run it, and hand on what it prints, both outputs in one: its exit status, negative for a signal.

    Raises OSError and ValueError, if it cannot be started.
    """
    # A cancel in the middle of that would leave a process without an owner.
    with grace(_STARTING):
        process = await anyio.open_process(
            [*SHELL, command], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=cwd, **own_group()
        )
    exited = anyio.Event()
    group = ProcessGroup(process, exited)
    try:
        await anyio.lowlevel.checkpoint_if_cancelled()
        read_out = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, take, read_out)
            await process.wait()
            exited.set()
            with anyio.move_on_after(_LINGER):
                await read_out.wait()
            tasks.cancel_scope.cancel()
    finally:
        await _end(process, group, exited)
    assert process.returncode is not None
    return process.returncode


async def _read(process: anyio.abc.Process, take: Taker, read_out: anyio.Event) -> None:
    assert process.stdout is not None
    async for data in process.stdout:
        await take(data)
    read_out.set()


async def _end(process: anyio.abc.Process, group: ProcessGroup, exited: anyio.Event) -> None:
    """Nothing of it is left behind: asked to end, then by force."""
    with grace(TERMINATED + KILLED):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                await process.wait()
                exited.set()

            tasks.start_soon(wait)
            try:
                group.terminate()
                await group.gone(TERMINATED)
            finally:
                if group.is_there:
                    group.kill()
        await process.aclose()
    if not exited.is_set():
        logger.error("the command %d does not end although it was killed", process.pid)

# ruff: noqa: S110, ASYNC220, ASYNC221, ASYNC251 - a program that does what it should not
"""An agent that starts processes in every way there is, and ends none of them: `family.py BACKEND`."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from typing import Any

import anyio
import trio

from acp_server.agent.serve import run
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.stream import Stream
from tests.agent.processes.plain import LIMITS

SLEEP = ["sleep", "1000"]
# It, and a child of its own; neither minds the terminate signal.
DEAF = ["sh", "-c", "trap '' TERM; sleep 1000 & echo $! $$; wait; wait"]
# A shell that ends leaves it running, so that no living process is its parent.
DAEMON = ["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]

kept: list[Any] = []


async def shielded(call: Call) -> Any:
    """Waits for a command, whatever happens."""
    with anyio.CancelScope(shield=True):
        async with await anyio.open_process(SLEEP) as process:
            call.notify_peer("started", {"pid": process.pid})
            await process.wait()


async def shell(call: Call) -> Any:
    """A shell, which a cancel kills, and what it runs, which has no living parent then."""
    async with await anyio.open_process(["sh", "-c", "sleep 1000 & echo $!; wait"]) as process:
        assert process.stdout is not None
        call.notify_peer("started", {"pid": int(await process.stdout.receive())})
        await process.wait()


async def native(call: Call) -> Any:
    """A command in a task that is not the library's, and that does not end."""

    async def work() -> None:
        if sys.argv[1] == "asyncio":
            process = await asyncio.create_subprocess_exec(*SLEEP)
        else:
            process = await trio.lowlevel.open_process(SLEEP)
        call.notify_peer("started", {"pid": process.pid})
        while True:
            try:
                await anyio.sleep_forever()
            except BaseException:
                pass

    if sys.argv[1] == "asyncio":
        kept.append(asyncio.get_running_loop().create_task(work()))
    else:
        trio.lowlevel.spawn_system_task(work)
    await anyio.sleep_forever()


async def others(call: Call) -> Any:
    """The pids of what is nobody's: of a command, of two that are deaf, of a forked child that hangs."""
    command = subprocess.Popen(SLEEP)
    deaf = await anyio.open_process(DEAF, start_new_session=True)
    kept.extend([command, deaf])
    assert deaf.stdout is not None
    child = os.fork()
    if not child:
        while True:
            time.sleep(1000)
    return [command.pid, *map(int, (await deaf.stdout.receive()).split()), child]


async def daemon(call: Call) -> Any:
    return int(subprocess.run(DAEMON, capture_output=True, check=True).stdout)


async def forked(call: Call) -> Any:
    """How forked processes end that get the signals of `ending`, and the pid of one that goes on."""
    context = multiprocessing.get_context("fork")
    ends: list[Any] = []
    for number in call.params["signals"]:
        process = context.Process(target=time.sleep, args=(1000,))
        process.start()
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(3)
        ends.append(process.exitcode)
        process.kill()
        process.join()
    process = context.Process(target=time.sleep, args=(1000,))
    process.start()
    kept.append(process)
    return [*ends, process.pid]


async def blocked(call: Call) -> Any:
    call.notify_peer("started")
    await anyio.sleep(0.1)  # until that is written
    sys.stderr.write("blocking the loop\n")
    time.sleep(1000)


class Family:
    """Servable."""

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        handlers = (shielded, shell, native, others, daemon, forked, blocked)
        return Connection(stream, Routes({function.__name__: Route(function) for function in handlers}), limits)

    def interrupt(self, connection: Connection) -> bool:
        return False


if __name__ == "__main__":
    sys.exit(run(Family(), backend=sys.argv[1], limits=LIMITS))

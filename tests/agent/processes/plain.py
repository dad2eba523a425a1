# ruff: noqa: T201, ASYNC221, ASYNC251, S110 - a program that does what it should not
"""An agent of plain routes, to see what the process around it does: `plain.py asyncio|uvloop|trio [RECORD]`.

A stand-in for a turn is any request whose method ends in `/turn`.
"""

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from acp_server.agent.serve import run
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.stream import Stream
from acp_server.tasks.cause import Cause

LIMITS = Limits(line=64 * 1024 * 1024, drain=0.2, grace=0.3, flush=0.5)


async def echo(call: Call) -> Any:
    return call.params


async def size(call: Call) -> Any:
    return len(call.params["text"])


async def big(call: Call) -> Any:
    return "x" * call.params["size"]


async def hang(call: Call) -> Any:
    call.notify_peer("started")
    try:
        await anyio.sleep_forever()
    finally:
        sys.stderr.write(f"cleaned up: {call.cause and call.cause.value}\n")


async def stubborn(call: Call) -> Any:
    call.notify_peer("started")
    while True:
        try:
            await anyio.sleep_forever()
        except BaseException:
            pass


async def blocked(call: Call) -> Any:
    call.notify_peer("started")
    await anyio.sleep(0.1)  # until that is written
    sys.stderr.write("blocking the loop\n")
    time.sleep(3600)


async def query(call: Call) -> Any:
    """One instruction that waits for no signal, and lets other threads run."""
    call.notify_peer("started")
    await anyio.sleep(0.1)  # until that is written
    sys.stderr.write("blocking the loop\n")
    return sqlite3.connect(":memory:").execute(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    )


async def thread(call: Call) -> Any:
    def work() -> None:
        anyio.from_thread.run_sync(call.notify_peer, "started")
        time.sleep(3600)

    await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


async def pool(call: Call) -> Any:
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(call.notify_peer, "started")
        time.sleep(3600)

    await asyncio.to_thread(work)


async def stray(call: Call) -> Any:
    print("stray print")
    os.write(1, b"stray write\n")
    subprocess.run(["echo", "stray child"], check=True)
    # Late, for it may open a file, which would get the number of a standard descriptor that is closed.
    import ctypes

    libc = ctypes.CDLL(None)
    libc.puts(b"stray puts")
    libc.fflush(None)
    return sys.stdin.read() + os.read(0, 10).decode() + subprocess.run(["cat"], capture_output=True).stdout.decode()


async def leave(call: Call) -> Any:
    raise SystemExit(call.params["code"])


async def interrupt(call: Call) -> Any:
    raise KeyboardInterrupt


async def descriptors(call: Call) -> Any:
    return {str(fd): os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)}


class Plain:
    """Servable."""

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        handlers = (echo, size, big, stray, descriptors, interrupt, hang, stubborn, blocked, query, thread, pool)
        routes = {function.__name__: Route(function) for function in handlers}
        routes["exit"] = Route(leave)
        routes["hang/turn"] = Route(hang)
        routes["no interrupt"] = Route(hang)
        return Connection(stream, Routes(routes), limits)

    def interrupt(self, connection: Connection) -> bool:
        if any(node.label == "no interrupt" for node in connection.tree.children or ()):
            raise ValueError("it cannot be interrupted")
        turns = [node for node in connection.tree.children or () if node.label.endswith("/turn")]
        cut = [node.cancel(Cause.INTERRUPT) for node in turns]
        return any(cut)


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(message)s")
    print("printed before it began")
    record = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    loop = "uvloop" if sys.argv[1] == "uvloop" else None
    backend = "asyncio" if loop else sys.argv[1]
    code = run(Plain(), backend=backend, loop=loop, limits=LIMITS, record=record)
    print("printed after it ended")
    sys.exit(code)

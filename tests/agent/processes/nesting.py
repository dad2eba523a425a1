"""An agent whose handlers run the event loop within itself, as `nest_asyncio` lets them: `nesting.py early|late`."""

import asyncio
import logging
import sys
from asyncio import BaseEventLoop, tasks
from collections.abc import Coroutine
from heapq import heappop
from typing import Any

import anyio.lowlevel

from acp_server.agent.serve import run
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.stream import Stream
from tests.agent.processes.plain import LIMITS, echo, hang

freed = asyncio.Event()


def patch() -> None:
    """What `nest_asyncio.apply` does to the class of the loop, as far as it is needed here."""
    loop_class: Any = asyncio.SelectorEventLoop
    loop_class.run_until_complete = _run_until_complete
    loop_class._run_once = _run_once


def _run_until_complete(self: Any, main: Any) -> Any:
    if not self.is_running():
        return BaseEventLoop.run_until_complete(self, main)
    task = self.create_task(main)
    while not task.done():
        self._run_once()
    return task.result()


def _run_once(self: Any) -> None:
    ready, scheduled = self._ready, self._scheduled
    while scheduled and scheduled[0]._cancelled:
        heappop(scheduled)._scheduled = False
    timeout = (
        0 if ready or self._stopping else min(max(scheduled[0]._when - self.time(), 0), 86400) if scheduled else None
    )
    self._process_events(self._selector.select(timeout))
    while scheduled and scheduled[0]._when < self.time() + self._clock_resolution:
        handle = heappop(scheduled)
        handle._scheduled = False
        ready.append(handle)
    for _ in range(len(ready)):
        if not ready:
            break
        handle = ready.popleft()
        if not handle._cancelled:
            current = asyncio.current_task(self)
            if current is not None:
                tasks._leave_task(self, current)  # type: ignore[attr-defined]
            try:
                handle._run()
            finally:
                if current is not None:
                    tasks._enter_task(self, current)  # type: ignore[attr-defined]


def run_nested(main: Coroutine[Any, Any, Any]) -> Any:
    patch()
    return asyncio.get_running_loop().run_until_complete(main)


async def nest(call: Call) -> Any:
    """Returns what runs in it, which ends when it is freed."""

    async def main() -> str:
        call.notify_peer("started")
        await freed.wait()
        freed.clear()
        return "inner"

    return run_nested(main())


async def later(call: Call) -> Any:
    """The same, but not in its first step."""
    await anyio.lowlevel.checkpoint()
    return await nest(call)


async def free(_call: Call) -> Any:
    freed.set()


class Nesting:
    """Servable."""

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        routes = {function.__name__: Route(function) for function in (nest, later, free, echo, hang)}
        return Connection(stream, Routes(routes), limits)

    def interrupt(self, connection: Connection) -> bool:
        return False


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(message)s")
    if sys.argv[1] == "early":
        patch()
    sys.exit(run(Nesting(), limits=LIMITS))

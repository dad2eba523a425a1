"""Functions that are left behind in their threads, for tests."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel

from acp_server.tasks.threads import Threads, in_loop


class Stuck:
    """Functions that do not end before the test does."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.go_on = threading.Event()
        self.seen: list[Any] = []

    def wait(self, *_: Any) -> str:
        in_loop(self.begun.set)
        self.go_on.wait(10)
        return "late"

    @asynccontextmanager
    async def left_behind(self) -> AsyncGenerator[None]:
        """One of them was cancelled, and goes on."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(Threads.current().run, "stuck", self.wait)
                await self.begun.wait()
                group.cancel_scope.cancel()
            yield
        finally:
            self.go_on.set()


async def none_left() -> None:
    """Wait until no function runs any more for which nobody waits."""
    with anyio.fail_after(5):
        while Threads.current().abandoned or Threads.current().asked:
            await anyio.lowlevel.checkpoint()

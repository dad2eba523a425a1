"""Serves something in memory for the length of a test, with a scripted client in front of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_server.peer.stream import Stream
from acp_server.tasks.spawn import Spawner
from acp_server.testing.memory import memory_pair
from acp_server.testing.scripted import ScriptedClient


@asynccontextmanager
async def scripted(
    serve: Callable[[Stream], Awaitable[Any]],
    *,
    patience: float = 5.0,
    wrap: Callable[[Stream], Stream] | None = None,
) -> AsyncGenerator[ScriptedClient]:
    """A client of what `serve(stream)` serves, in memory, for example `lambda stream: agent.connect(stream).run()`.

    `wrap` may put a `FaultyStream` around the server's end. At the end of the block the client closes its end, and the
    server has `patience` seconds to come to its own end; what it raises comes out.
    """
    here, there = memory_pair()
    ended: list[BaseException | None] = []

    async def run() -> None:
        await serve(there if wrap is None else wrap(there))
        ended.append(None)

    house = Spawner(ended.append)
    house.spawn(run)
    try:
        async with ScriptedClient(here, patience=patience) as client:
            yield client
    finally:
        with anyio.move_on_after(patience):
            await house.wait_idle()
    if not ended:
        client.fail(f"the server did not end within {patience:g} s")
    if ended[0] is not None:
        raise ended[0]

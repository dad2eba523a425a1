"""Consuming an author's async generator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import anyio.lowlevel


async def drain(generator: AsyncGenerator[Any, Any], take: Callable[[Any], Awaitable[object]]) -> None:
    """Pass each yielded piece to `take`, and close the generator. An exception of `take` is raised inside the generator
    at its `yield`, so a cancel during `take` behaves there as in any other `await`."""
    raised: BaseException | None = None
    try:
        while True:
            try:
                piece = await (anext(generator) if raised is None else generator.athrow(raised))
            except StopAsyncIteration:
                return
            try:
                if raised is not None:
                    # A generator that swallows the exception and yields again must not starve the event loop.
                    await anyio.lowlevel.cancel_shielded_checkpoint()
                await take(piece)
                raised = None
            except GeneratorExit:
                raise  # this coroutine is being closed and cannot await
            except BaseException as error:
                raised = error
    finally:
        # The traceback refers to this frame: without this, the two would be a reference cycle.
        raised = None
        await generator.aclose()

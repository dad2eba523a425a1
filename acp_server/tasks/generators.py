"""What an author's async generator yields, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import anyio.lowlevel


async def drain(generator: AsyncGenerator[Any, Any], take: Callable[[Any], Awaitable[object]]) -> None:
    """Hand each piece to `take`. What `take` raises is raised in the generator, where it has yielded: a cancel that
    comes while a piece is taken is seen there as it would be in any other `await` of its author's."""
    raised: BaseException | None = None
    try:
        while True:
            try:
                piece = await (anext(generator) if raised is None else generator.athrow(raised))
            except StopAsyncIteration:
                return
            try:
                if raised is not None:
                    # A generator that takes no notice must not keep the loop for itself.
                    await anyio.lowlevel.cancel_shielded_checkpoint()
                await take(piece)
                raised = None
            except GeneratorExit:
                raise  # this coroutine is being closed, and cannot wait
            except BaseException as error:
                raised = error
    finally:
        # An error refers to the frames that it went through, so to this one: what they hold would be garbage.
        raised = None
        await generator.aclose()

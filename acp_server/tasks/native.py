"""`run_native` runs an asyncio library in a plain asyncio task, outside of all cancel scopes.

anyio delivers a cancel in every round of the loop until its scope is left. Libraries that start and await tasks expect
one `Task.cancel()`. Each further cancel interrupts their cleanup after the first. So `run_native` cancels such work
exactly once. No other module starts tasks outside of the task tree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import sniffio

from acp_server.errors import RequestCancelled, UsageError
from acp_server.tasks.grace import DEFAULT_GRACE, grace

logger: logging.Logger = logging.getLogger("acp_server.tasks")

T = TypeVar("T")

_left: set[asyncio.Task[Any]] = set()
"""Tasks that did not end within their grace period. The loop holds only weak references to tasks."""


async def run_native(coroutine: Coroutine[Any, Any, T], *, patience: float | None = DEFAULT_GRACE) -> T:
    """Run `coroutine` in an asyncio task and wait for it; returns and raises what the coroutine does.

    If the caller is cancelled, the task gets exactly one `Task.cancel()`. The task then has `patience` seconds for its
    cleanup (None: no limit). After that the task is left running, and a warning is logged. An exception of the cleanup
    replaces the cancel. Cancel scopes and time limits of the caller reach the task in no other way. The coroutine may
    use all of asyncio, and everything of the turn: `turn.say`, `turn.run_tool`, `turn.client`.

    Raises RequestCancelled if the task was cancelled but the caller was not. Raises UsageError on trio.
    """
    library = sniffio.current_async_library()
    if library != "asyncio":
        coroutine.close()
        raise UsageError(
            f"this call needs asyncio, but the event loop is that of {library}; serve the agent on asyncio"
        )
    try:
        await anyio.lowlevel.checkpoint_if_cancelled()
    except BaseException:
        coroutine.close()
        raise
    ended = anyio.Event()
    task = asyncio.get_running_loop().create_task(_caught(coroutine))
    task.add_done_callback(lambda _: ended.set())
    try:
        await ended.wait()
    except BaseException as cancellation:
        task.cancel()
        with grace(patience):
            await ended.wait()
        if not task.done():
            _leave(task, coroutine)
        elif not task.cancelled() and (error := task.result()[1]) is not None:
            raise error from cancellation
        raise
    finally:
        if task.cancelled():
            # A task that is cancelled before its first step never awaits its coroutine.
            coroutine.close()
    if task.cancelled():
        raise RequestCancelled("the separate task of this call was cancelled")
    value, error = task.result()
    if error is not None:
        raise error
    return value


async def _caught(coroutine: Coroutine[Any, Any, T]) -> tuple[Any, BaseException | None]:
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: raised in a task, they would leave the loop before other tasks clean
        # up.
        return None, error


def _leave(task: asyncio.Task[tuple[Any, BaseException | None]], coroutine: Coroutine[Any, Any, Any]) -> None:
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    logger.warning("%s does not end although it was cancelled; the runtime no longer waits for it", name)
    _left.add(task)

    def over(task: asyncio.Task[tuple[Any, BaseException | None]]) -> None:
        _left.discard(task)
        if not task.cancelled() and (error := task.result()[1]) is not None:
            logger.error("%s failed after its caller was cancelled", name, exc_info=error)

    task.add_done_callback(over)

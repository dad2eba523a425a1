"""`run_native`: work of a library that knows asyncio alone, in a plain task of asyncio.

anyio cancels what runs in its scopes anew in every round of the loop, until the scope is left. Libraries that start and
await tasks of their own are made for one `Task.cancel()`: each further one breaks off what they do about the first. So
such work gets a task outside of all scopes, and one cancel. The only place with such tasks; what was cancelled, and
why, is the caller's matter.
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
"""Those that did not end in time. The loop keeps weak references only."""


async def run_native(coroutine: Coroutine[Any, Any, T], *, patience: float | None = DEFAULT_GRACE) -> T:
    """Run `coroutine` in a task of asyncio's own and wait for it: what it returns, or raises.

    When the caller is cancelled, that task gets exactly one `Task.cancel()` and up to `patience` seconds for its
    cleanup; then it is left behind, which is logged. None: as long as it takes. A failure of the cleanup is raised in
    place of the cancel. No scope of the caller's, nor a time limit, reaches into the task in another way. Inside,
    asyncio is all there is to use, and so is all that belongs to the turn: `turn.say`, `turn.run_tool`, `turn.client`.

    Raises RequestCancelled if the task was cancelled by another task, for that does not cancel the caller; and
    UsageError on trio.
    """
    library = sniffio.current_async_library()
    if library != "asyncio":
        coroutine.close()
        raise UsageError(f"this needs a library of asyncio, and the event loop is {library}'s: serve it on asyncio")
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
            # It may have been so before its first step, and then this was not awaited.
            coroutine.close()
    if task.cancelled():
        raise RequestCancelled("what ran in a task of its own was cancelled there")
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
        # Also what ends the program, which otherwise would leave the loop, past the tasks that have to clean up.
        return None, error


def _leave(task: asyncio.Task[tuple[Any, BaseException | None]], coroutine: Coroutine[Any, Any, Any]) -> None:
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    logger.warning("%s does not end although it was cancelled; going on without it", name)
    _left.add(task)

    def over(task: asyncio.Task[tuple[Any, BaseException | None]]) -> None:
        _left.discard(task)
        if not task.cancelled() and (error := task.result()[1]) is not None:
            logger.error("%s failed after its caller had stopped waiting", name, exc_info=error)

    task.add_done_callback(over)

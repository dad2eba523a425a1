"""Handles Ctrl-C and SIGTERM, so that the run ends with its reports and leaves no process of a subject behind."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


async def interruptible(run: Callable[[], Awaitable[T]], stop: Callable[[], None]) -> T:
    """Call `run`. The first signal calls `stop`, which must make `run` end soon. A second signal ends the program at
    once.

    A signal that is ignored stays ignored, such as SIGINT in the background of a script.
    """
    heard = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]

    async def listen() -> None:
        with anyio.open_signal_receiver(*heard) as signals:
            async for _ in signals:
                break
        stop()

    results: list[T] = []
    async with anyio.create_task_group() as tasks:
        if heard:
            tasks.start_soon(listen)
        results.append(await run())
        tasks.cancel_scope.cancel()
    return results[0]

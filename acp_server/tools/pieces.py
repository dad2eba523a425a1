"""The pieces of output that a tool's generator yields: shown as they come, no faster than the client can read.

A generator shows in what a function returns, for decorators hide it from those who look at the function. What is done
with the result is decided in `acp_server.tools.runner`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, cast

import anyio.lowlevel

from acp_server.tasks.threads import in_loop
from acp_server.tools.output import Output

if TYPE_CHECKING:
    from acp_server.session.updates import Updates
    from acp_server.tools.context import ToolContext

_PAUSE: Final = 0.01
"""Seconds for which a generator that never waits may keep the loop, or may run ahead of it in its thread."""


class Pieces:
    """What the function of one call yields. `is_over`: whether no more of it may begin."""

    def __init__(self, context: ToolContext, updates: Updates, is_over: Callable[[], bool]) -> None:
        self._context = context
        self._updates = updates
        self._is_over = is_over
        self._said: list[str] = []
        self._pause_at = 0.0

    async def stream(self, generator: AsyncGenerator[Any]) -> Output:
        """Take all of it, in the loop: its text."""
        try:
            async for piece in generator:
                self._show(piece)
                # In a node that is cut it goes no further, whatever it does with the cancel.
                await self._pause()
        finally:
            await generator.aclose()
        return Output("".join(self._said), said=True)

    def walk(self, generator: Generator[Any, Any, Any]) -> Output:
        """The same in a thread, where a cancel is seen between two pieces; or what it returns, if that is not None."""
        try:
            while not self._is_over():
                try:
                    piece = next(generator)
                except StopIteration as end:
                    if end.value is not None:
                        return Output(end.value)
                    break
                self._show(piece)
                if self._is_due:
                    in_loop(self._pause)
        finally:
            generator.close()
        return Output("".join(self._said), said=True)

    def _show(self, piece: Any) -> None:
        if isinstance(piece, str):
            self._said.append(piece)
        self._context.progress(piece)

    @property
    def _is_due(self) -> bool:
        return self._updates.crowded or time.monotonic() > self._pause_at

    async def _pause(self) -> None:
        # A generator that never waits for anything itself would let nothing be written, and no cancel be read.
        if not self._is_due:
            return
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()
        self._pause_at = time.monotonic() + _PAUSE


def yields(value: Any) -> bool:
    """Whether what a function returned is a plain generator, which has not begun yet."""
    return isinstance(value, Generator) and not inspect.isawaitable(cast("Any", value))


def yields_async(value: Any) -> bool:
    """The same for an async one."""
    return isinstance(value, AsyncGenerator)

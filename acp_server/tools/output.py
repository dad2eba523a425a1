"""What a tool returned or said in passing, as the client and the model get it: text, content, or a value as JSON.

`acp_server.tools.runner` decides what is shown when.
"""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, cast

import anyio.lowlevel
from pydantic_core import to_jsonable_python

from acp_server.errors import InvalidParams, UsageError
from acp_server.safe_text import problems_of
from acp_server.schema.content import TextContent
from acp_server.tasks.generators import drain
from acp_server.tasks.threads import in_loop
from acp_server.tools.parameters import jsonable
from acp_server.tools.view import as_content
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.session.updates import Updates
    from acp_server.tools.context import ToolContext

logger: logging.Logger = logging.getLogger("acp_server.tools")


class Output:
    """What a function returned, as the client and the model get it. `said`: it is text that was shown by now.

    Raises UsageError for what JSON cannot express, and for content that cannot be shown.
    """

    def __init__(self, value: Any, *, said: bool = False) -> None:
        self.value = value
        self.message: str | None = None
        self.text = ""
        self.content: list[Any] = []
        self.raw_output: Any = None
        """The value as JSON can express it, where it is neither text nor content."""
        if isinstance(value, str):
            self.message = value
            self.text: str = "" if said else value
        elif _is_content(value):
            pieces = cast("list[Any]", value if isinstance(value, (list, tuple)) else [value])
            self.content = [as_content(piece) for piece in pieces]
            texts = [text for piece in self.content if (text := _text_in(piece)) is not None]
            self.message = "\n".join(texts) if texts else None
        elif value is not None:
            try:
                raw = _expressed(value)
            except Exception as error:
                raise UsageError(f"a tool returned a {type(value).__name__}, which JSON cannot express") from error
            self.message = codec.encode(raw).decode().rstrip("\n")
            self.raw_output: Any = raw


def problems_in(error: InvalidParams) -> str:
    """The problems that the error's data lists, in one line; its message if it has no such list."""
    return "; ".join(problems_of(error.data)) or str(error.message)


def _is_content(value: Any) -> bool:
    """Whether it is meant for the client to look at: a block, a diff, a terminal, or a list of those, and of text."""
    from acp_server.schema.base import Record

    pieces = cast("list[Any]", value if isinstance(value, (list, tuple)) else [value])
    return any(isinstance(piece, Record) and hasattr(piece, "type") for piece in pieces)


def _text_in(piece: Any) -> str | None:
    """The text of text content, which a model is told."""
    block = getattr(piece, "content", piece)
    return block.text if isinstance(block, TextContent) else None


_SHOWN: Final = 50_000
"""Members of a value that a client is shown: more would hold the event loop for longer than 50 ms."""


def is_large(value: Any) -> bool:
    """Whether there is more in a value than a client is shown."""
    left, containers = _SHOWN, [value]
    while containers:
        each = containers.pop()
        if isinstance(each, (dict, list, tuple)):
            left -= 1 + len(cast("list[Any]", each))
            if left < 0:
                return True
            inside = cast("dict[Any, Any]", each).values() if isinstance(each, dict) else cast("list[Any]", each)
            # Copied first, in one step, for a thread may be filling it.
            containers += [item for item in list(inside) if isinstance(item, (dict, list, tuple))]
    return False


_PLAIN: Final = frozenset({str, int, bool, type(None)})
_FEW: Final = 100
"""Members of an object that is looked at one by one here."""


def plain_copy(value: Any) -> dict[str, Any] | None:
    """A copy of an object of a few texts and whole numbers, which the arguments of most calls are. None for anything
    else."""
    if type(value) is not dict or len(cast("dict[Any, Any]", value)) > _FEW:
        return None
    copied = dict(cast("dict[Any, Any]", value))
    for key, item in copied.items():
        if type(key) is not str or not key.isascii() or type(item) not in _PLAIN:
            return None
    return copied


def snapshot(value: Any) -> Any:
    """The value as JSON can express it at this moment; None if it cannot, or is large. What becomes of `value` later
    does not change it."""
    if (copied := plain_copy(value)) is not None:
        return copied
    if is_large(value):
        logger.warning("a %s with more than %d members is not shown to the client", type(value).__name__, _SHOWN)
        return None
    try:
        return _expressed(value)
    except Exception as error:
        logger.warning("a %s is not shown to the client: %s", type(value).__name__, error)
        return None


def _expressed(value: Any) -> Any:
    # Not by the codec, to which integers beyond 64 bits are floats, as they are to clients, but not to models.
    plain = json.loads(codec.encode(jsonable(value)))
    try:
        return to_jsonable_python(plain)
    except UnicodeEncodeError:
        return to_jsonable_python(_well_formed(plain))


def _well_formed(plain: Any) -> Any:
    """The same with no lone surrogates in keys, as names of files may have; they could not be written."""
    if isinstance(plain, list):
        return [_well_formed(item) for item in cast("list[Any]", plain)]
    if isinstance(plain, dict):
        items = cast("dict[str, Any]", plain).items()
        return {key.encode(errors="backslashreplace").decode(): _well_formed(item) for key, item in items}
    return plain


_PAUSE: Final = 0.01
"""Seconds for which a generator that never waits may keep the loop, or may run ahead of it in its thread."""


class Pieces:
    """What the function of one call yields. `is_over`: whether no more of it may begin."""

    def __init__(self, context: ToolContext, updates: Updates, is_over: Callable[[], bool]) -> None:
        self._context = context
        self._updates = updates
        self._is_over = is_over
        self._said: list[str] = []
        self._apart = False
        """Whether what was said last is a block of its own."""
        self._pause_at = 0.0

    async def stream(self, generator: AsyncGenerator[Any]) -> Output:
        """Take all of it, in the loop: its text."""
        await drain(generator, self._take)
        return Output("".join(self._said), said=True)

    async def _take(self, piece: Any) -> None:
        self._show(piece)
        # In a node that is cancelled it goes no further, whatever it does with the cancel.
        await self._pause()

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
            self._say(piece, apart=False)
        elif (text := _text_in(piece)) is not None:
            self._say(text, apart=True)
        self._context.progress(piece)

    def _say(self, text: str, *, apart: bool) -> None:
        if (apart or self._apart) and self._said and not self._said[-1].endswith("\n"):
            self._said.append("\n")
        self._said.append(text)
        self._apart = apart

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


__all__ = ["Output", "is_large", "snapshot"]

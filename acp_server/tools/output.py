"""Turns the result of a tool, and the values that it yields, into text, content or a JSON value for the client and the
model.

`acp_server.tools.runner` decides when they are shown.
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
from acp_server.tasks.running import drain
from acp_server.tasks.threads import in_loop
from acp_server.tools.parameters import jsonable
from acp_server.tools.view import as_content
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.session.updates import Updates
    from acp_server.tools.context import ToolContext

logger: logging.Logger = logging.getLogger("acp_server.tools")


class Output:
    """The result of a function, for the client and the model. `said`: whether the text of the result was already shown.

    Raises UsageError for a value that JSON cannot express, and for content that cannot be shown.
    """

    def __init__(self, value: Any, *, said: bool = False) -> None:
        self.value = value
        self.message: str | None = None
        self.text = ""
        self.content: list[Any] = []
        self.raw_output: Any = None
        """The value as plain JSON, if it is neither text nor content."""
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
                raise UsageError(
                    f"a tool returned a value of type {type(value).__name__}, which JSON cannot express"
                ) from error
            self.message = codec.encode(raw).decode().rstrip("\n")
            self.raw_output: Any = raw


def problems_in(error: InvalidParams) -> str:
    """Return the problems that the error's data lists, in one line; or the error's message if there is no such list."""
    return "; ".join(problems_of(error.data)) or str(error.message)


def _is_content(value: Any) -> bool:
    """Whether the value is content: a content block, a diff, a terminal, or a list that contains at least one of
    these."""
    from acp_server.schema.base import Record

    pieces = cast("list[Any]", value if isinstance(value, (list, tuple)) else [value])
    return any(isinstance(piece, Record) and hasattr(piece, "type") for piece in pieces)


def _text_in(piece: Any) -> str | None:
    """Return the text of text content, for the model; None for other content."""
    block = getattr(piece, "content", piece)
    return block.text if isinstance(block, TextContent) else None


_SHOWN: Final = 50_000
"""The most members of a value that is sent to a client. Encoding more would block the event loop for over 50 ms."""


def is_large(value: Any) -> bool:
    """Whether a value has more members than may be sent to a client."""
    left, containers = _SHOWN, [value]
    while containers:
        each = containers.pop()
        if isinstance(each, (dict, list, tuple)):
            left -= 1 + len(cast("list[Any]", each))
            if left < 0:
                return True
            inside = cast("dict[Any, Any]", each).values() if isinstance(each, dict) else cast("list[Any]", each)
            # Copied in one step, because a thread may be adding to it.
            containers += [item for item in list(inside) if isinstance(item, (dict, list, tuple))]
    return False


_PLAIN: Final = frozenset({str, int, bool, type(None)})
_FEW: Final = 100
"""The most members of an object that `plain_copy` copies."""


def plain_copy(value: Any) -> dict[str, Any] | None:
    """Return a copy of a small object whose keys are ASCII and whose values are texts, integers, bools or None. Return
    None for any other value. The arguments of most calls are such an object."""
    if type(value) is not dict or len(cast("dict[Any, Any]", value)) > _FEW:
        return None
    copied = dict(cast("dict[Any, Any]", value))
    for key, item in copied.items():
        if type(key) is not str or not key.isascii() or type(item) not in _PLAIN:
            return None
    return copied


def snapshot(value: Any) -> Any:
    """Return a copy of the value as plain JSON, which does not change if `value` changes later. If the value is large
    or JSON cannot express it, log a warning and return None."""
    if (copied := plain_copy(value)) is not None:
        return copied
    if is_large(value):
        logger.warning(
            "the client does not get a value of type %s, which has more than %d members", type(value).__name__, _SHOWN
        )
        return None
    try:
        return _expressed(value)
    except Exception as error:
        logger.warning("the client does not get a value of type %s: %s", type(value).__name__, error)
        return None


def _expressed(value: Any) -> Any:
    # json and not the codec reads it back: the codec makes floats of integers beyond 64 bits, and models need them
    # exact.
    plain = json.loads(codec.encode(jsonable(value)))
    try:
        return to_jsonable_python(plain)
    except UnicodeEncodeError:
        return to_jsonable_python(_well_formed(plain))


def _well_formed(plain: Any) -> Any:
    """Return a copy in which lone surrogates in keys are escaped, because they cannot be encoded. File names may
    contain them."""
    if isinstance(plain, list):
        return [_well_formed(item) for item in cast("list[Any]", plain)]
    if isinstance(plain, dict):
        items = cast("dict[str, Any]", plain).items()
        return {key.encode(errors="backslashreplace").decode(): _well_formed(item) for key, item in items}
    return plain


_PAUSE: Final = 0.01
"""Seconds after which a generator lets the event loop run. In a thread, it waits for the loop."""


class Pieces:
    """Shows the values that the function of one call yields. `is_over` returns whether to stop before the next
    value."""

    def __init__(self, context: ToolContext, updates: Updates, is_over: Callable[[], bool]) -> None:
        self._context = context
        self._updates = updates
        self._is_over = is_over
        self._said: list[str] = []
        self._apart = False
        """Whether the last value was a content block, which must be followed by a line break."""
        self._pause_at = 0.0

    async def stream(self, generator: AsyncGenerator[Any]) -> Output:
        """Show all values of an async generator. Returns their text."""
        await drain(generator, self._take)
        return Output("".join(self._said), said=True)

    async def _take(self, piece: Any) -> None:
        self._show(piece)
        # A due pause raises in a cancelled node, which stops a generator that swallows the cancel.
        await self._pause()

    def walk(self, generator: Generator[Any, Any, Any]) -> Output:
        """Show all values of a plain generator, in its thread. A cancel ends it between two values. Returns the
        generator's return value if that is not None, else the text of its values."""
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
        # Without a pause, a generator that never waits would keep the loop from writing, and from reading a cancel.
        if not self._is_due:
            return
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()
        self._pause_at = time.monotonic() + _PAUSE


def yields(value: Any) -> bool:
    """Whether the value is a plain generator. An awaitable that is a generator does not count."""
    return isinstance(value, Generator) and not inspect.isawaitable(cast("Any", value))


__all__ = ["Output", "is_large", "snapshot"]

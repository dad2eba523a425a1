"""Turns the prompt handlers that agent authors write into the hook that the protocol's side calls.

It inspects a handler once, at registration, so that mistakes show when the program starts and not in the middle of a
turn.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import TYPE_CHECKING, Any, cast

from acp_server.errors import UsageError
from acp_server.tools.parameters import name_of

if TYPE_CHECKING:
    from acp_server.session.hooks import PromptHook
    from acp_server.session.turn import Turn


def prompt_hook(function: Callable[..., Any]) -> PromptHook:
    """A prompt handler from an async generator or an async function of one turn. Raises UsageError for anything else.

    What a generator yields is shown as it comes: text, content blocks or session updates. What a function returns is
    shown too, if it is not None.
    """
    if callable(function):
        check_takes(function, "turn")
    if inspect.isasyncgenfunction(function):

        async def stream(turn: Turn) -> None:
            pieces = cast("AsyncGenerator[Any]", function(turn))
            try:
                async for piece in pieces:
                    await show(turn, piece)
            finally:
                await pieces.aclose()

        return stream
    if inspect.iscoroutinefunction(function):

        async def call(turn: Turn) -> None:
            result = await function(turn)
            if isinstance(result, AsyncIterable):
                raise UsageError("a prompt handler must return None, text or content, not an async iterator")
            if result is not None:
                await show(turn, result)

        return call
    raise UsageError(f"a prompt handler must be `async def`: {name_of(function)}")


def check_takes(function: Callable[..., Any], *arguments: str) -> None:
    """Raise UsageError for a function that cannot be called with these, by their places."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # of some that are not written in Python nothing is known
    try:
        signature.bind(*arguments)
    except TypeError as error:
        given = f"({', '.join(arguments)})"
        raise UsageError(f"{name_of(function)} is called with {given}, which it does not take: {error}") from None


async def show(turn: Turn, piece: Any) -> None:
    """Show what a prompt handler yielded. Raises UsageError for anything that cannot be shown."""
    if isinstance(piece, str):
        await turn.say(piece)
        return
    from acp_server.schema.base import Model
    from acp_server.schema.content import TextContent
    from acp_server.schema.updates import AgentMessageChunk

    if isinstance(piece, Model):
        if "session_update" in type(piece).model_fields:
            await turn.update(piece)
        elif isinstance(piece, TextContent) and piece.annotations is None and piece.meta is None:
            await turn.say(piece.text)
        else:
            await turn.update(AgentMessageChunk(content=cast("Any", piece)))
    else:
        raise UsageError(f"a prompt handler yielded {type(piece).__name__}; expected text, content or a session update")

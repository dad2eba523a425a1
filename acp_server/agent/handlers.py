"""Turns the functions that agent authors write into the hooks and routes that the protocol's side calls.

It inspects signatures once, at registration, so that mistakes show when the program starts and not in the middle of a
turn.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from acp_server.errors import InvalidParams, UsageError
from acp_server.peer.context import Call
from acp_server.peer.route import Handler, NoticeHandler
from acp_server.schema.base import Model
from acp_server.schema.content import TextContent
from acp_server.schema.updates import AgentMessageChunk
from acp_server.session.hooks import PromptHook
from acp_server.session.turn import Turn


def prompt_hook(function: Callable[..., Any]) -> PromptHook:
    """A prompt handler from an async generator or an async function of one turn.

    What a generator yields is shown as it comes: text, content blocks or session updates. What a function returns is
    shown too, if it is not None.
    """
    if inspect.isasyncgenfunction(function):

        async def stream(turn: Turn) -> None:
            async with aclosing(cast("AsyncGenerator[Any]", function(turn))) as pieces:
                async for piece in pieces:
                    await show(turn, piece)
                    if turn.is_cancelled:
                        # A generator that never really waits would not notice.
                        break

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


async def show(turn: Turn, piece: Any) -> None:
    """Show what a prompt handler yielded. Raises UsageError for anything that cannot be shown."""
    if isinstance(piece, str):
        await turn.say(piece)
    elif isinstance(piece, Model):
        if "session_update" in type(piece).model_fields:
            await turn.update(piece)
        elif isinstance(piece, TextContent) and piece.annotations is None and piece.meta is None:
            await turn.say(piece.text)
        else:
            await turn.update(AgentMessageChunk(content=cast("Any", piece)))
    else:
        raise UsageError(f"a prompt handler yielded {type(piece).__name__}; expected text, content or a session update")


def method_handler(function: Callable[..., Any]) -> Handler:
    """A method from a function of a `Call` and typed, named parameters.

    The parameters are checked against their annotations, `_meta` never among them (see `Call.meta`). The result may be
    anything that JSON can express, pydantic models and dataclasses included. A plain `def` runs in a worker thread.
    """
    parameters = _parameters(function)
    model = _params_model(function, parameters)
    is_async = inspect.iscoroutinefunction(function)

    async def handler(call: Call) -> Any:
        arguments = _arguments(model, call.params)
        if is_async:
            result = await function(call, **arguments)
        else:
            result = await anyio.to_thread.run_sync(lambda: function(call, **arguments))
        return jsonable(result)

    return handler


def notification_handler(function: Callable[..., Any]) -> NoticeHandler:
    """A notification's handler from a function of a connection and typed, named parameters. What does not fit is
    logged."""
    parameters = _parameters(function)
    model = _params_model(function, parameters)

    def handler(connection: Any, params: Any) -> Awaitable[None] | None:
        return function(
            connection, **_arguments(model, cast("dict[str, Any]", params) if isinstance(params, dict) else {})
        )

    return handler


def jsonable(value: Any) -> Any:
    """`value` as something the codec can write: models by their wire names, everything else as it is."""
    if isinstance(value, BaseModel):
        return value.to_wire() if isinstance(value, Model) else value.model_dump(mode="json", by_alias=True)
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def name_of(function: Callable[..., Any]) -> str:
    """How to name a function in an error."""
    return getattr(function, "__qualname__", repr(function))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise UsageError(f"{name_of(function)} needs a first parameter for the call")
    return parameters[1:]


def _params_model(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    extra = "ignore"
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise UsageError(f"{name_of(function)}: {parameter.name} cannot be passed by name")
        annotation = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default)
    config = ConfigDict(extra=cast("Any", extra), arbitrary_types_allowed=True, protected_namespaces=())
    return create_model(f"{name_of(function)} params", __config__=config, **fields)


def _arguments(model: type[BaseModel], params: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in params.items() if key != "_meta"}
    try:
        checked = model.model_validate(given)
    except ValidationError as error:
        from acp_server.schema.problems import explain

        raise InvalidParams(data={"problems": explain(error)}) from None
    return {
        **{name: getattr(checked, name) for name in type(checked).model_fields},
        **(checked.model_extra or {}),
    }

"""Turns the functions that agent authors write for methods and notifications into handlers of requests.

It inspects signatures once, at registration, so that mistakes show when the program starts and not in the middle of a
request.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NotRequired, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from acp_server.agent.handlers import name_of
from acp_server.errors import InvalidParams, UsageError
from acp_server.peer.context import Call
from acp_server.peer.route import Handler, NoticeHandler
from acp_server.schema.base import Model

logger = logging.getLogger("acp_server.agent")

_THREADS: Final = 40
_threads: RunVar[anyio.CapacityLimiter] = RunVar("acp_server method threads")
"""Our own, for a function that hangs must not take a thread from the rest of the program."""


def method_handler(function: Callable[..., Any]) -> Handler:
    """A method from a function of a `Call` and typed, named parameters.

    The parameters are checked against their annotations, `_meta` never among them (see `Call.meta`). The result may be
    anything that JSON can express, pydantic models and dataclasses included. A plain `def` runs in a worker thread,
    which keeps its place until the function ends, also when the request is answered without it.
    """
    if inspect.isasyncgenfunction(function):
        raise UsageError(f"{name_of(function)} must return its result, not yield it")
    read = _reader(function)
    is_async = inspect.iscoroutinefunction(function)

    async def handler(call: Call) -> Any:
        arguments = read(call.params)
        if is_async:
            result = await function(call, **arguments)
        else:
            # In a tuple, for a thread may not hand over a coroutine as its result.
            (result,) = await anyio.to_thread.run_sync(lambda: (function(call, **arguments),), limiter=_limiter())
            if inspect.isawaitable(result):
                result = await result
        return jsonable(result)

    return handler


def notification_handler(function: Callable[..., Any]) -> NoticeHandler:
    """A notification's handler from a function of a connection and typed, named parameters. What does not fit is
    logged."""
    read = _reader(function)

    def handler(connection: Any, params: Any) -> Awaitable[None] | None:
        try:
            arguments = read(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
        except InvalidParams as error:
            # The peer's mistake and not the handler's; nobody is answered.
            logger.warning("parameters that do not fit %s: %s", name_of(function), error.data)
            return None
        pending = function(connection, **arguments)
        return pending if inspect.isawaitable(pending) else None

    return handler


def jsonable(value: Any) -> Any:
    """`value` as something the codec can write: models by their wire names, everything else as it is."""
    if isinstance(value, BaseModel):
        return value.to_wire() if isinstance(value, Model) else value.model_dump(mode="json", by_alias=True)
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in cast("dict[Any, Any]", value).items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _threads.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _threads.set(limiter)
        return limiter


def _reader(function: Callable[..., Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Checks received parameters against the annotations of all of a function's parameters but the first, and returns
    what to call it with. Raises UsageError if the function cannot be called like that."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise UsageError(f"{name_of(function)} needs a first parameter for the call")
    fields: dict[str, Any] = {}
    extra = "ignore"
    for parameter in parameters[1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            extra = "allow"
        elif parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise UsageError(f"{name_of(function)}: {parameter.name} cannot be passed by name")
        else:
            annotation = _annotation(function, parameter)
            fields[parameter.name] = (
                annotation if parameter.default is inspect.Parameter.empty else NotRequired[annotation]
            )
    shape: Any = cast("Any", TypedDict)(name_of(function), fields)
    shape.__pydantic_config__ = ConfigDict(extra=cast("Any", extra), arbitrary_types_allowed=True)
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
    except PydanticUserError as error:
        raise UsageError(f"{name_of(function)}: {error.message}") from error

    def read(params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return adapter.validate_python({key: value for key, value in params.items() if key != "_meta"})
        except ValidationError as error:
            from acp_server.schema.problems import explain

            raise InvalidParams(data={"problems": explain(error)}) from None

    return read


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of one parameter. One at a time, for the annotation of the first often exists for type checkers only."""
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return Any
    if isinstance(annotation, str):
        plain: Any = inspect.unwrap(function)
        plain = getattr(plain, "func", plain)  # of a functools.partial
        try:
            return eval(annotation, getattr(plain, "__globals__", {}))
        except NameError as error:
            raise UsageError(f"{name_of(function)}: the type of {parameter.name} is not known: {error}") from error
    return annotation

"""Turns the functions that agent authors write for methods and notifications into handlers of requests.

It inspects signatures once, at registration, so that mistakes show when the program starts and not in the middle of a
request.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from acp_server.errors import InvalidParams, UsageError
from acp_server.peer.context import Call
from acp_server.peer.route import Handler, NoticeHandler
from acp_server.tools.parameters import Parameters, jsonable, name_of

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
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
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
            # The peer's mistake and not the handler's; a notification has no answer.
            logger.warning("parameters that do not fit %s: %s", name_of(function), error.data)
            return None
        pending = function(connection, **arguments)
        return pending if inspect.isawaitable(pending) else None

    return handler


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
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise UsageError(f"{name_of(function)} needs a first parameter for the call")
    parameters = Parameters(function, lambda parameter: parameter.name == first.name)
    parameters.check()
    return parameters.read

"""What handlers of a storm raise, and how it is written down what came of them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import sniffio

from acp_server import RequestCancelled, RpcError
from acp_server.tasks.cause import failures_in
from tests.storm.threads import Note

REQUEST_FAILED = -31999
"""The code of an `RpcError` that a plan raises."""


def failure(kind: str) -> BaseException:
    """Something to raise."""
    match kind:
        case "value":
            return ValueError("planned")
        case "rpc":
            return RpcError("planned", code=REQUEST_FAILED)
        case "group":
            return BaseExceptionGroup("planned", [ValueError("one"), RpcError("two", code=REQUEST_FAILED)])
        case "base":
            return BaseException("planned")
        case "withdrawn":
            return RequestCancelled()
        case "timeout":
            return TimeoutError("planned")
        case _:
            return asyncio.CancelledError() if sniffio.current_async_library() == "asyncio" else ValueError("stray")


def came_of(error: BaseException) -> list[Any]:
    """What a handler raised, as the oracle wants to know it: the codes of errors for the peer, names of the others."""
    return [_told(failure) for failure in failures_in(error)]


def _told(failure: BaseException) -> Any:
    if isinstance(failure, TimeoutError):
        return "TimeoutError"
    if isinstance(failure, RequestCancelled) and failure.received:
        return "cancelled by the client"
    return failure.code if isinstance(failure, RpcError) else type(failure).__name__


async def recorded(note: Note, key: str, playing: Coroutine[Any, Any, None], result: Any = None) -> Any:
    """What `playing` comes to is written down in the step in which it ends."""
    note("begin", key)
    try:
        await playing
    except BaseException as error:
        note("raised", key, came_of(error))
        raise
    note("returned", key)
    return result

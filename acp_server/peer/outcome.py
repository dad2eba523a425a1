"""Which answer a finished request gets.

The cause recorded on its node decides, never the type of an exception: a time-out inside a handler is a time-out, and a
stray CancelledError in a request that nobody cancelled is the handler's fault. Writing the answer is not done here.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import anyio

from acp_server.errors import ConnectionClosed, InternalError, RequestCancelled, RpcError
from acp_server.peer.context import Call
from acp_server.tasks.tree import NOTHING

logger = logging.getLogger("acp_server.peer")


def outcome(call: Call, value: Any, error: BaseException | None) -> tuple[Any, RpcError | None]:
    """The result, or `NOTHING` and the error to answer with.

    `value` and `error` are what the handler returned (or `NOTHING`) and what it raised (or None).
    """
    if error is None and value is not NOTHING:
        # Also when it was cancelled: a handler may well answer with what it has (ACP, Cancellation).
        return value, None
    cause = call.node.cause
    if cause is not None:
        if error is not None and not is_cancellation(error):
            logger.warning("%s failed while it was being cancelled (%s)", call.method, cause.value, exc_info=error)
        if cause.asked_for and call.offered is not NOTHING:
            return call.offered, None
        return NOTHING, RequestCancelled()
    if isinstance(error, RpcError):
        return NOTHING, error
    if error is None or is_cancellation(error):
        # Internal cancellation looks to the peer like any other (ACP, Cancellation).
        logger.warning("%s was cancelled from inside, though nobody asked for it", call.method, exc_info=error)
        return NOTHING, RequestCancelled()
    if isinstance(error, ConnectionClosed):
        logger.info("%s ended because the connection is closed", call.method)
        return NOTHING, RequestCancelled()
    logger.error("%s failed", call.method, exc_info=error)
    return NOTHING, InternalError()


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` is the backend's cancellation, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(is_cancellation(member) for member in group.exceptions)
    return isinstance(error, anyio.get_cancelled_exc_class())

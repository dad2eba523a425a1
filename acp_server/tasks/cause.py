"""The cause of a cancel, and the failures inside an exception.

The response depends on the cause, and not on the type of an exception. The functions separate failures from
cancellations and time-outs of either backend, also inside exception groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import cast

import anyio


class Cause(Enum):
    """The cause of a cancel. A node keeps the first cause and ignores later causes."""

    asked_for: bool
    """Whether the client or its user asked for the cancel. Only then is the turn reported as `cancelled`."""

    PEER = "peer"
    """The peer sent `$/cancel_request` for this request or for a request above it in the task tree."""
    SESSION = "session"
    """The client sent `session/cancel`, or closed or deleted the session."""
    USER = "user"
    """The user cancelled this work alone, for example one tool call."""
    INTERRUPT = "interrupt"
    """The terminal sent an interrupt signal while the turn ran."""
    TIMEOUT = "timeout"
    """A time limit of the runtime or of a handler expired."""
    SHUTDOWN = "shutdown"
    """The program is ending, or the embedding code closed the connection."""
    CLOSED = "closed"
    """The connection ended."""
    FINISHED = "finished"
    """The node above it ended first."""


for _cause in Cause:
    _cause.asked_for = _cause in (Cause.PEER, Cause.SESSION, Cause.USER, Cause.INTERRUPT)


def failures_in(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exceptions in `error` that are neither groups nor cancellations, in order. There are none for None."""
    cancelled = anyio.get_cancelled_exc_class()
    # A loop and not recursion: groups can be nested deeper than the stack.
    left = [error]
    while left:
        each = left.pop()
        if isinstance(each, BaseExceptionGroup):
            left += reversed(cast("BaseExceptionGroup[BaseException]", each).exceptions)
        elif each is not None and not isinstance(each, cancelled):
            yield each


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` is the backend's cancellation, or a group of cancellations only."""
    return next(failures_in(error), None) is None


def is_time_out(error: BaseException) -> bool:
    """Whether `error` is a time-out of anyio, asyncio, sockets or trio."""
    # trio cannot have raised anything while it is not imported, and importing it costs 50 ms.
    trio = sys.modules.get("trio")
    return isinstance(error, TimeoutError) or (trio is not None and isinstance(error, trio.TooSlowError))


def program_end(error: BaseException) -> BaseException | None:
    """Return the first SystemExit or KeyboardInterrupt in `error`, which may be a group; None if there is not any."""
    ends = (failure for failure in failures_in(error) if isinstance(failure, (SystemExit, KeyboardInterrupt)))
    return next(ends, None)

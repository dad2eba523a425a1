"""Why work ended: the cause of a cancel, and what an exception tells of.

The cause, and not the type of an exception, decides which answer goes out. The functions tell the backend's
cancellation, and time limits, from what really went wrong, also inside exception groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import cast

import anyio


class Cause(Enum):
    """The first cause recorded on a node stands; later ones change nothing."""

    asked_for: bool
    """Whether the client or its user wanted this, so that it is `cancelled` to them and not a failure."""

    PEER = "peer"
    """The peer sent `$/cancel_request` for this request or for a request that it is nested in."""
    SESSION = "session"
    """The client sent `session/cancel`, or closed or deleted the session."""
    USER = "user"
    """The user stopped just this piece of work, for example one tool."""
    INTERRUPT = "interrupt"
    """The terminal sent an interrupt signal while the turn ran."""
    TIMEOUT = "timeout"
    """A time limit of our own ran out."""
    SHUTDOWN = "shutdown"
    """The program is ending, or the embedding code closed the connection."""
    CLOSED = "closed"
    """The peer is gone."""
    FINISHED = "finished"
    """What it was nested in has ended without it."""


for _cause in Cause:
    _cause.asked_for = _cause in (Cause.PEER, Cause.SESSION, Cause.USER, Cause.INTERRUPT)


def failures_in(error: BaseException | None) -> Iterator[BaseException]:
    """What went wrong, taken out of the groups that it came in; without cancellations. Nothing if nothing did."""
    cancelled = anyio.get_cancelled_exc_class()
    # Not by recursion: there may be more groups within one another than the stack has room for.
    left = [error]
    while left:
        each = left.pop()
        if isinstance(each, BaseExceptionGroup):
            left += reversed(cast("BaseExceptionGroup[BaseException]", each).exceptions)
        elif each is not None and not isinstance(each, cancelled):
            yield each


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` is the backend's cancellation, or a group of nothing else."""
    return next(failures_in(error), None) is None


def is_time_out(error: BaseException) -> bool:
    """Whether `error` says that a time limit ran out, as anyio, asyncio and sockets say it, or as trio does."""
    # Where trio is not loaded, it has raised nothing.
    trio = sys.modules.get("trio")
    return isinstance(error, TimeoutError) or (trio is not None and isinstance(error, trio.TooSlowError))


def program_end(error: BaseException) -> BaseException | None:
    """The SystemExit or KeyboardInterrupt in `error`, which may be a group."""
    ends = (failure for failure in failures_in(error) if isinstance(failure, (SystemExit, KeyboardInterrupt)))
    return next(ends, None)

"""Tells the backend's cancellation, and time limits, from what really went wrong, also inside exception groups."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import cast

import anyio


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

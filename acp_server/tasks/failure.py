"""Tells the backend's cancellation from what really went wrong, also inside exception groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import anyio


def failures_in(error: BaseException) -> Iterator[BaseException]:
    """What went wrong, taken out of the groups that it came in; without cancellations."""
    cancelled = anyio.get_cancelled_exc_class()
    # Not by recursion: there may be more groups within one another than the stack has room for.
    left = [error]
    while left:
        error = left.pop()
        if isinstance(error, BaseExceptionGroup):
            left += reversed(cast("BaseExceptionGroup[BaseException]", error).exceptions)
        elif not isinstance(error, cancelled):
            yield error


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` is the backend's cancellation, or a group of nothing else."""
    return next(failures_in(error), None) is None

"""Tells the backend's cancellation from what really went wrong, also inside exception groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import anyio


def failures_in(error: BaseException) -> Iterator[BaseException]:
    """What went wrong, taken out of the groups that it came in; without cancellations."""
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from failures_in(member)
    elif not isinstance(error, anyio.get_cancelled_exc_class()):
        yield error


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` is the backend's cancellation, or a group of nothing else."""
    return next(failures_in(error), None) is None

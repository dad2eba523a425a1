"""The time from SIGTERM to the end of a gateway: what runs comes to its end, and proxies see that it is not ready."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from acp_server.gateway.errors import ApiError, Code

LAST_LOOK: Final = 2.0
"""Seconds for which an idle gateway stays: clients poll every second for the end of their chats, and proxies look as
often whether the gateway is ready."""


class Drain:
    """It has begun."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """It lasts for so many seconds at most."""
        self._clock = clock
        self._ends = clock() + seconds
        self._idle_until = math.inf

    @property
    def left(self) -> float:
        """Seconds until its end at the latest."""
        return self._ends - self._clock()

    def refusal(self) -> ApiError:
        """What a new chat is told, with HTTP status 503: a proxy gives it to another gateway."""
        retry_after = max(1, math.ceil(self.left))
        return ApiError(Code.BUSY, "the gateway is ending; try again later", retry_after=retry_after)

    def is_over(self, is_working: bool) -> bool:
        """Whether the gateway is to end. Asked again and again, with whether the gateway still works for a client."""
        now = self._clock()
        self._idle_until = math.inf if is_working else min(self._idle_until, now + LAST_LOOK)
        return now >= min(self._ends, self._idle_until)

"""The speed of a client, from which every time-out is derived. It is measured until a case tries its rule."""

from __future__ import annotations

from dataclasses import dataclass

STARTING = 20.0
"""The least time-out until a client starts its agent and sends `initialize`, in seconds."""

_FIRST = 3
"""The very first start, from which the others are measured, may take this many times as long."""


@dataclass(slots=True)
class Pace:
    """The time-outs of one run, in seconds. A slow step raises them for the rest of the run; nothing lowers them."""

    least: float = 5.0
    """The least time-out of one response."""
    least_start: float = STARTING
    _start: float = 0.0
    _latency: float = 0.0

    @property
    def patience(self) -> float:
        """The client's time-out for one response."""
        return max(self.least, 5 * self._latency)

    @property
    def starting(self) -> float:
        """The client's time-out for each step until a case tries its rule."""
        least = max(self.least_start, 2 * self.patience)
        return max(least, 3 * self._start) if self._start else _FIRST * least

    def started(self, seconds: float) -> None:
        """Record the seconds from the client's start to `initialize`."""
        self._start = max(self._start, seconds)

    def answered(self, seconds: float) -> None:
        """Record the seconds of one step before the rule is tried."""
        self._latency = max(self._latency, seconds)

"""How long a client takes, measured while it gets as far as the rule of each case: every wait follows from it."""

from __future__ import annotations

from dataclasses import dataclass

STARTING = 20.0
"""Seconds that a client may take until it starts its agent and sends `initialize`, at least."""

_FIRST = 3
"""How many times that the very first start may take, from which the others are measured."""


@dataclass(slots=True)
class Pace:
    """The waits of one run, in seconds. What is slow once is waited for ever after; nothing makes them shorter."""

    least: float = 5.0
    """What one answer may take, at least."""
    least_start: float = STARTING
    _start: float = 0.0
    _latency: float = 0.0

    @property
    def patience(self) -> float:
        """How long the client may take for one answer."""
        return max(self.least, 5 * self._latency)

    @property
    def starting(self) -> float:
        """How long it may take for each step until the rule of a case is tried."""
        least = max(self.least_start, 2 * self.patience)
        return max(least, 3 * self._start) if self._start else _FIRST * least

    def started(self, seconds: float) -> None:
        """Note how long it took from its start to `initialize`."""
        self._start = max(self._start, seconds)

    def answered(self, seconds: float) -> None:
        """Note how long it took for one step of the opening."""
        self._latency = max(self._latency, seconds)

"""The settings of a connection to a remote agent: its limits and its backoff."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from acp_server.wire.framing import DEFAULT_LINE_LIMIT


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The bounds of a client's connection to a remote agent.

    event (bytes): the longest message of the agent.
    arrived (bytes): messages that the program has not received yet. Above it the client stops reading (HTTP).
    unsent (bytes): messages that wait to be sent. Above it `send` waits, except for cancels, which have as much again.
        Over WebSocket: sent messages that are kept, to be repeated when the WebSocket breaks.
    sessions (number): open sessions, each with its own stream (HTTP).
    asked (number): unanswered requests of the agent (HTTP).
    closing (seconds): how long the stream of a closed session is read after its last response (HTTP).
    silence (seconds): how long a server may be silent. Over HTTP it applies once the server has sent a comment; over
        WebSocket the client pings meanwhile.
    """

    event: int = DEFAULT_LINE_LIMIT
    arrived: int = 16 * 1024 * 1024
    unsent: int = 64 * 1024 * 1024
    sessions: int = 1000
    asked: int = 10_000
    closing: float = 10.0
    silence: float = 75.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Decides how a client reconnects. It tries at most `attempts` times in a row, first after `first` seconds, then
    after twice as long each time, up to `most`. Jitter shortens each pause by up to half, so that the clients of one
    server do not return together."""

    attempts: int = 8
    first: float = 0.2
    most: float = 10.0

    def delays(self) -> Iterator[float]:
        """Yield the pause before each attempt, in seconds."""
        for number in range(self.attempts):
            # The exponent is bounded because a float overflows at 2**1024.
            yield min(self.most, self.first * 2.0 ** min(number, 60)) * random.uniform(0.5, 1.0)

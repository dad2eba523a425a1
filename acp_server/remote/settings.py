"""What can be set about a connection to a remote agent: its bounds, and how long a line that dropped is tried again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from acp_server.wire.framing import DEFAULT_LINE_LIMIT


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The bounds of a client's connection to a remote agent, each in both transports unless it says another thing.

    event (bytes): the longest message that is read.
    arrived (bytes): what waits for the program; beyond it nothing is read from the network.
    unsent (bytes): what waits to be sent. Beyond it the program's messages wait, cancels of what is under way excepted;
        over WebSocket, what is kept to be sent again where the line drops.
    sessions (number): sessions that are open at once, each with a stream of its own (HTTP).
    asked (number): requests of the agent that are not answered.
    silence (seconds): how long a server may send nothing that has sent signs of life before.
    """

    event: int = DEFAULT_LINE_LIMIT
    arrived: int = 16 * 1024 * 1024
    unsent: int = 64 * 1024 * 1024
    sessions: int = 1000
    asked: int = 10_000
    silence: float = 75.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """How a line that dropped is tried again: at most `attempts` times in a row, the first time after about `first`
    seconds, then after twice as long each time, and never after more than `most`. Each wait is drawn by lot between
    half of that and all of it, so that clients of one server do not come back together."""

    attempts: int = 8
    first: float = 0.2
    most: float = 10.0

    def delays(self) -> Iterator[float]:
        """The wait before each attempt, in seconds."""
        for number in range(self.attempts):
            # The power of two is bounded: a float cannot hold any.
            yield min(self.most, self.first * 2.0 ** min(number, 60)) * random.uniform(0.5, 1.0)

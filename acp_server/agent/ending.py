"""The end of the process, as far as it is a matter of time: what may take how long before it is ended by force.

Every end has a deadline from the moment in which it begins, whatever began it: a signal, the end of the input, an
output that the client does not read, a handler. How a process is ended by force is in `acp_server.agent.leave`.
"""

from __future__ import annotations

import signal
import time
from typing import Final

from acp_server.agent.leave import Deadline, leave
from acp_server.peer.limits import Limits

AGAIN: Final = 2.0
"""Seconds after which a further signal is not an echo of the first one, and means that the end takes too long."""

_LOOP_ENDS: Final = 2.0
"""Seconds that the event loop has to end after the last answer is out."""


class Ending:
    """The deadlines of one process that serves within `limits`."""

    def __init__(self, limits: Limits) -> None:
        self._to_hear = limits.grace + _LOOP_ENDS
        # What the connection allows itself, twice over: beyond that it is stuck.
        self._longest = 2 * (limits.drain + limits.grace + limits.flush) + 2 * _LOOP_ENDS
        self._hearing = Deadline()
        self._closing = Deadline()
        self._unheard = False
        self._code: int | None = None
        self._ended = 0.0

    def alarm(self, number: int) -> None:
        """In the signal handler: if the loop is blocked, or through, this is all that will happen."""
        if self._code is not None:
            if time.monotonic() - self._ended > AGAIN:
                leave(self._code, "signalled again at its end")
            return
        if self._unheard or number != signal.SIGINT:
            self._hearing.arm(self._to_hear, 128 + number, "the event loop is blocked")
        self._unheard = True

    def heard(self) -> None:
        """The loop acts on a signal."""
        self._unheard = False
        self._hearing.disarm()

    def begin(self, code: int) -> None:
        """The connection closes. Has an effect only once."""
        self._closing.arm(self._longest, code, "closing takes too long")

    def outside(self, deadline: Deadline) -> None:
        """The client is gone, and the loop, which is held, does not know of it. In any thread."""
        deadline.arm(self._longest, 0, "the client is gone, and the event loop is blocked")

    def served(self, code: int) -> None:
        """The last answer is out."""
        self._closing.disarm()
        self._closing.arm(_LOOP_ENDS, code, "the event loop does not end")

    def through(self, code: int) -> None:
        """The loop has ended, too. What the program still does has no deadline; it is its own."""
        self._code = code
        self._ended = time.monotonic()
        self.stop()

    def stop(self) -> None:
        """There is no deadline any more."""
        self._hearing.disarm()
        self._closing.disarm()

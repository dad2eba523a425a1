"""The updates of a turn that the program has not taken yet: in order, without a gap, and bounded in bytes.

Beyond the bound the updates that arrive are dropped, from there to the end of the turn, and counted; who hears of it is
the turn's matter. Reading does not pause for them: then nothing else would arrive either, no answer to what the program
asks while it handles an update, no request of the agent, no other session.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

from acp_server.schema import SessionUpdate
from acp_server.wire import codec

UNTAKEN_BYTES: Final = 64 * 1024 * 1024
"""What the updates of one turn may take that the program has not taken, as JSON."""

_OVERHEAD: Final = 2 * 1024
"""Bytes that an update takes in memory beside its JSON: the models that it was read into."""

logger = logging.getLogger("acp_server.client")


class Backlog:
    """Updates on their way to one program."""

    __slots__ = ("_size", "_updates", "lost")

    def __init__(self) -> None:
        self._updates: deque[tuple[SessionUpdate, int]] = deque()
        self._size = 0
        self.lost = 0
        """How many were dropped."""

    def put(self, update: SessionUpdate, params: Any) -> None:
        """`update` has arrived, with these parameters of its notification."""
        # The first one is taken at once as a rule, and is kept in any case.
        size = len(codec.encode(params)) + _OVERHEAD if self._updates else 0
        if self.lost or self._size + size > UNTAKEN_BYTES:
            if not self.lost:
                logger.warning("the program does not take the updates of a turn; they are dropped from here on")
            self.lost += 1
            return
        self._updates.append((update, size))
        self._size += size

    def take(self) -> SessionUpdate:
        """The first one; there has to be one."""
        update, size = self._updates.popleft()
        self._size -= size
        return update

    def clear(self) -> None:
        """The program will not take them."""
        self._updates.clear()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._updates)

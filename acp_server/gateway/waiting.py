"""The chats that wait for tool outputs: how many there may be, and which of them goes on when there are more.

How long one chat may wait is decided in `acp_server.gateway.work`.
"""

from __future__ import annotations

import logging
from typing import Protocol

from acp_server.gateway.limits import Limits

logger = logging.getLogger("acp_server.gateway")


class Waits(Protocol):
    """The work of a chat that waits."""

    def dismiss(self) -> None:
        """Dismiss the questions, so that the chat goes on. Never waits."""
        ...


class Waiting:
    """The chats that wait, of all users. They do not count as running, for nothing is done for them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._chats: dict[Waits, str] = {}
        """Whose they are, the one that has waited longest first."""

    def begin(self, chat: Waits, owner: str) -> None:
        """Another chat waits. If there are too many, those of the same owner that have waited longest are dismissed:
        no user loses a question by what others leave unanswered."""
        self._chats[chat] = owner
        mine = [other for other, whose in self._chats.items() if whose == owner]
        while len(mine) > self._limits.waiting_of_one or len(self._chats) > self._limits.waiting:
            logger.warning("too many chats of %s wait for tool outputs; the questions of one are dismissed", owner)
            longest = mine.pop(0)
            self.end(longest)
            longest.dismiss()

    def end(self, chat: Waits) -> None:
        """A chat does not wait any more. No effect on one that does not wait."""
        self._chats.pop(chat, None)

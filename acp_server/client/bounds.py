"""How much an agent may have under way here at once: requests, questions to the user, large answers.

It counts and refuses; it answers nothing itself, and what an agent may keep (terminals, updates) is bounded where it is
kept.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.errors import InternalError
from acp_server.peer.context import Call

logger = logging.getLogger("acp_server.client")

REQUEST_BYTES: Final = 32 * 1024 * 1024
"""What the unanswered requests of an agent may take together, in bytes on the wire. A single one may take more."""
REQUEST_OVERHEAD: Final = 8 * 1024
"""Bytes that a request counts beside those on the wire: its task, its scopes, its place in the tree."""
QUESTIONS: Final = 100
"""Permission requests and elicitations that may be open at once: each is a user's work."""
LARGE_ANSWERS: Final = 2
"""Answers with the content of a file or the output of a command that are made at once."""


class Bounds:
    """The bounds of one agent, and how much of them it takes up."""

    def __init__(self) -> None:
        self._held = 0
        self._questions = 0
        self._large = anyio.Semaphore(LARGE_ANSWERS, fast_acquire=True)
        self._has_told = False

    def admit(self, call: Call) -> None:
        """Take in a request, until it is through; see `acp_server.peer.route.Admit`.

        Raises InternalError, with `{"limit": "requests"}` as its data, if too much is unanswered.
        """
        size = call.request.size + REQUEST_OVERHEAD
        if self._held and self._held + size > REQUEST_BYTES:
            raise self._refusal("requests")
        self._held += size
        call.on_left(lambda: self._let_go(size))

    def admit_question(self, call: Call) -> None:
        """The same for a question to the user. Raises InternalError, with `{"limit": "questions"}`, for too many."""
        if self._questions >= QUESTIONS:
            raise self._refusal("questions")
        self.admit(call)
        self._questions += 1
        call.on_left(self._let_question_go)

    async def large(self, call: Call, answer: Callable[[], Awaitable[Any]]) -> Any:
        """Make an answer that may be large: few at once, and each when the agent has taken the answers before it."""
        async with self._large:
            await call.connection.send_room()
            # It is queued in the same step in which the next one gets its turn, so that one counts it.
            return await answer()

    def _let_go(self, size: int) -> None:
        self._held -= size

    def _let_question_go(self) -> None:
        self._questions -= 1

    def _refusal(self, limit: str) -> InternalError:
        if not self._has_told:
            self._has_told = True
            logger.warning("the agent has more %s under way than are allowed at once; more are refused", limit)
        return InternalError(f"Too many {limit} at once", data={"limit": limit})

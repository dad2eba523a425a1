"""How much an agent may have under way here at once: questions to the user, large answers.

It counts and refuses; it answers nothing itself. Requests of any kind are bounded for both sides alike
(`acp_server.peer.limits`), and what an agent may keep (terminals, updates) where it is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.errors import InternalError
from acp_server.peer.context import Call

logger = logging.getLogger("acp_server.client")

QUESTIONS: Final = 100
"""Permission requests and elicitations that may be open at once: each is a user's work."""
LARGE_ANSWERS: Final = 2
"""Answers with the content of a file or the output of a command that are made at once."""


class Bounds:
    """The bounds of one agent, and how much of them it takes up."""

    def __init__(self) -> None:
        self._questions = 0
        self._large = anyio.Semaphore(LARGE_ANSWERS, fast_acquire=True)
        self._has_told = False

    def admit_question(self, call: Call) -> None:
        """Take in a question to the user, until it is through; see `acp_server.peer.route.Admit`.

        Raises InternalError, with `{"limit": "questions"}` as its data, if too many are open.
        """
        if self._questions >= QUESTIONS:
            if not self._has_told:
                self._has_told = True
                logger.warning("the agent asks more questions than may be open at once; more are refused")
            raise InternalError("Too many questions at once", data={"limit": "questions"})
        self._questions += 1
        call.on_left(self._let_question_go)

    async def large(self, call: Call, answer: Callable[[], Awaitable[Any]]) -> Any:
        """Make an answer that may be large: few at once, and each when the agent has taken the answers before it."""
        async with self._large:
            await call.connection.send_room()
            # It is queued in the same step in which the next one gets its turn, so that one counts it.
            return await answer()

    def _let_question_go(self) -> None:
        self._questions -= 1

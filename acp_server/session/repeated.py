"""Finds the new blocks of a prompt. Some clients begin a prompt with earlier messages, one block each. CodeCompanion
repeats the unanswered messages, Avante the whole conversation.

This module only compares blocks. Its callers decide what to do with repeated blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from acp_server.session.live_session import LiveSession
    from acp_server.store.records import TurnRecord

MOST: Final = 32
"""The most turns that are compared."""


def unrepeated(prompt: list[dict[str, Any]], earlier: Sequence[TurnRecord]) -> list[dict[str, Any]]:
    """Return the blocks after the leading blocks that repeat the prompts of the last `earlier` turns, in order. If
    nothing would be left, return all blocks."""
    repeated = 0
    said: list[dict[str, Any]] = []
    for turn in reversed(earlier[-MOST:]):
        said = [*turn.prompt, *said]
        if len(said) >= len(prompt):
            break
        if prompt[: len(said)] == said:
            repeated = len(said)
    return prompt[repeated:]


def cancelled_before(session: LiveSession) -> list[TurnRecord]:
    """Return the last turns of a session that the user has cancelled in a row, including turns that are being
    cancelled."""
    live = {turn.record: turn.cause for turn in session.turns}
    ended = [turn for turn in session.record.turns or session.cancelled if turn not in live]

    def is_cancelled(turn: TurnRecord) -> bool:
        cause = live.get(turn)
        return turn.status == "canceled" or (cause is not None and cause.asked_for)

    return list(takewhile(is_cancelled, reversed([*ended[-MOST:], *live])))[::-1]

"""What is new in a prompt. Some clients begin a prompt with messages that they have sent before, one block each:
CodeCompanion with those that were not answered, Avante with all of a conversation.

It only compares blocks; what becomes of those that are repeated is decided by its callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from acp_server.session.live_session import LiveSession
    from acp_server.store.records import TurnRecord

MOST: Final = 32
"""Turns that are looked at."""


def unrepeated(prompt: list[dict[str, Any]], earlier: Sequence[TurnRecord]) -> list[dict[str, Any]]:
    """The blocks without those at the beginning that repeat the prompts of the last of the `earlier` turns, in their
    order; all of them, if nothing would be left."""
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
    """The last turns of a session, as far as the user has cancelled all of them, perhaps just now."""
    live = {turn.record: turn.cause for turn in session.turns}
    ended = [turn for turn in session.record.turns or session.cancelled if turn not in live]

    def is_cancelled(turn: TurnRecord) -> bool:
        cause = live.get(turn)
        return turn.status == "canceled" or (cause is not None and cause.asked_for)

    return list(takewhile(is_cancelled, reversed([*ended[-MOST:], *live])))[::-1]

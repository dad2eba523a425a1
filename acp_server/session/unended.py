"""Warns about likely mistakes in the updates of a turn: tool calls and steps of a plan without an end, updates of tool
calls without a beginning, and turns that show nothing.

A client shows an unended call as running for ever. Calls of `turn.call` and steps of `turn.step` begin and end by
themselves. The runtime only logs a warning and ends nothing, because only the handler knows the outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

logger: logging.Logger = logging.getLogger("acp_server.session")

ENDED: Final = frozenset(("completed", "failed"))
"""The final statuses of a tool call."""
MOST: Final = 1_000
"""The most tool calls that are tracked in a turn, and in a session."""
_NAMED: Final = 3


def say_unended(calls: Iterable[str], plan: Sequence[Mapping[str, Any]]) -> None:
    """Warn that a turn completed while these calls, or steps of its plan, had not ended."""
    if calls := list(calls):
        instead = "end each by turn.update(ToolCallProgress(tool_call_id=..., status='completed'))"
        logger.warning("the turn has ended before its tool calls %s; %s", _named(calls), instead)
    left = [entry["content"] for entry in plan if entry.get("status") == "in_progress"]
    if not left and all(map(_is_untouched, plan)):
        left = [entry["content"] for entry in plan]
    if left:
        instead = "async with turn.step(...) begins and ends a step, or show the plan anew"
        logger.warning("the turn has ended before the steps of its plan %s; %s", _named(left), instead)


def say_unbegun(id: str) -> None:
    """Warn about an update of a tool call that no earlier update began. A client does not know where to show such an
    update."""
    instead = "begin it by turn.update(ToolCall(tool_call_id=..., title=...))"
    logger.warning("an update names the tool call %s, which was not begun; %s", _named([id]), instead)


def say_silent() -> None:
    """Warn that a turn completed without any update for the user."""
    logger.warning("a turn has ended without any update for the user: yield text, or await turn.say(...)")


def _is_untouched(entry: Mapping[str, Any]) -> bool:
    return entry.get("status") == "pending" and "outcome" not in entry.get("_meta", {})


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name[:100]) for name in names[:_NAMED]) + more

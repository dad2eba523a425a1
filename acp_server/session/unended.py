"""What a turn has shown, and what its author cannot have meant: tool calls and steps of a plan that do not end, updates
of calls that do not begin, and nothing at all.

A client shows what does not end as running for ever. Calls of `turn.call` and steps of `turn.step` begin and end by
themselves. The log says so, and nothing is ended: what became of it is known to the handler alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

logger: logging.Logger = logging.getLogger("acp_server.session")

ENDED: Final = frozenset(("completed", "failed"))
"""What a tool call is at its end."""
MOST: Final = 1_000
"""Tool calls of one turn that are remembered."""
_NAMED: Final = 3


def say_unended(calls: Iterable[str], plan: Sequence[Mapping[str, Any]]) -> None:
    """A turn has ended by itself: log that these calls have not, and which steps of its plan."""
    if calls := list(calls):
        instead = "end each by turn.update(ToolCallProgress(tool_call_id=..., status='completed'))"
        logger.warning("the turn has ended, and not its tool calls %s: %s", _named(calls), instead)
    left = [entry["content"] for entry in plan if entry.get("status") == "in_progress"]
    if not left and all(map(_is_untouched, plan)):
        left = [entry["content"] for entry in plan]
    if left:
        instead = "async with turn.step(...) begins and ends a step, or show the plan anew"
        logger.warning("the turn has ended, and not the steps of its plan %s: %s", _named(left), instead)


def say_unbegun(id: str) -> None:
    """A turn shows an update of this call, and no client can know what it is an update of."""
    instead = "begin it by turn.update(ToolCall(tool_call_id=..., title=...))"
    logger.warning("an update of a tool call that was not begun, %s: %s", _named([id]), instead)


def say_silent() -> None:
    """A turn has ended by itself, and the user sees nothing of it."""
    logger.warning("a turn has ended, and nothing was shown to the user: yield text, or await turn.say(...)")


def _is_untouched(entry: Mapping[str, Any]) -> bool:
    return entry.get("status") == "pending" and "outcome" not in entry.get("_meta", {})


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name[:100]) for name in names[:_NAMED]) + more

"""What a turn has shown as going on and has not ended: tool calls and steps of a plan that its handler wrote by hand.

A client shows them as running for ever. Calls of `turn.call` and steps of `turn.step` end by themselves. It says so in
the log, and ends nothing: what became of them is known to the handler alone.
"""

from __future__ import annotations

import logging
from typing import Any, Final

logger = logging.getLogger("acp_server.session")

BEGUN: Final = frozenset(("tool_call", "tool_call_update", "plan"))
"""Kinds of update that `Unended.see` is told of."""

_MOST: Final = 1_000
"""Tool calls of one turn that are remembered."""
_NAMED: Final = 3


class Unended:
    """What has not ended of what one turn has shown."""

    def __init__(self) -> None:
        self._calls: dict[str, None] = {}
        self._plan: list[dict[str, Any]] = []

    def see(self, update: dict[str, Any]) -> None:
        """Take in one of the `BEGUN` updates, in its wire form."""
        if update["sessionUpdate"] == "plan":
            self._plan = update["entries"]
            return
        status = update.get("status", "pending" if update["sessionUpdate"] == "tool_call" else None)
        if status in ("completed", "failed"):
            self._calls.pop(update["toolCallId"], None)
        elif status is not None and len(self._calls) < _MOST:
            self._calls[update["toolCallId"]] = None

    def say(self) -> None:
        """The turn has ended by itself: log what has not."""
        if self._calls:
            instead = "end each by turn.update(ToolCallProgress(tool_call_id=..., status='completed'))"
            logger.warning("the turn has ended, and not its tool calls %s: %s", _named(list(self._calls)), instead)
        left = [entry["content"] for entry in self._plan if entry.get("status") == "in_progress"]
        if not left and all(_is_untouched(entry) for entry in self._plan):
            left = [entry["content"] for entry in self._plan]
        if left:
            instead = "async with turn.step(...) begins and ends a step, or show the plan anew"
            logger.warning("the turn has ended, and not the steps of its plan %s: %s", _named(left), instead)


def _is_untouched(entry: dict[str, Any]) -> bool:
    return entry.get("status") == "pending" and "outcome" not in entry.get("_meta", {})


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name[:100]) for name in names[:_NAMED]) + more

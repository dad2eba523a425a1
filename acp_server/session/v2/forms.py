"""Updates in the form of version 1, which authors write and stores keep, in the form of version 2 (ACP v2, updates).

Plain objects in, plain objects out; what is put in is not changed. What needs to be known of a session or of a turn is
in `speech`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acp_server.session.v2.patch import diff

PLAN: Final = "plan"
"""The id of the plan: in version 1 a session has one."""

FINAL: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses of a tool call that has ended."""


def tool_call(update: Mapping[str, Any]) -> dict[str, Any]:
    """A `tool_call` or `tool_call_update` as a `tool_call_update`, which is both."""
    told: dict[str, Any] = {**update, "sessionUpdate": "tool_call_update"}
    if content := told.get("content"):
        told["content"] = [tool_content(piece) for piece in content]
    if places := told.get("locations"):
        told["locations"] = [_place(place) for place in places]
    meta: dict[str, Any] = told.get("_meta") or {}
    if meta.get("outcome") == "cancelled":
        # It has a status of its own, where version 1 has none.
        told["status"] = "cancelled"
        told["_meta"] = {key: value for key, value in meta.items() if key != "outcome"}
        if not told["_meta"]:
            del told["_meta"]
    return told


def tool_content(piece: dict[str, Any]) -> dict[str, Any]:
    """What a tool shows."""
    return diff(piece) if piece.get("type") == "diff" and "newText" in piece else piece


def _place(place: dict[str, Any]) -> dict[str, Any]:
    # Lines are counted from 1; version 1 lets 0 pass.
    return place if place.get("line") != 0 else {key: value for key, value in place.items() if key != "line"}


def plan(update: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of the session."""
    told = {key: value for key, value in update.items() if key != "entries"}
    told["sessionUpdate"] = "plan_update"
    told["plan"] = {"type": "items", "planId": PLAN, "entries": update.get("entries", [])}
    return told


def commands(update: Mapping[str, Any]) -> dict[str, Any]:
    """The commands of the user."""
    return {**update, "availableCommands": [_command(command) for command in update.get("availableCommands", [])]}


def _command(command: Mapping[str, Any]) -> dict[str, Any]:
    told = {"type": "command", **command}
    if isinstance(given := told.get("input"), dict) and "type" not in given:
        told["input"] = {"type": "text", **given}
    return told

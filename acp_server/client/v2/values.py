"""Values that the two versions write differently, as they are on the wire of each.

What comes in here was read as version 2 before. What version 1 has no field for stays in it, as a field of its own.
"""

from __future__ import annotations

import re
from typing import Any, Final

from acp_server.schema import v2

Wire = dict[str, Any]

MODE: Final = "mode"
"""The category of the option that stands for the modes of a session."""

STATUSES: Final = {"paused": "in_progress", "cancelled": "failed"}
"""Statuses of a tool call that version 1 does not have, and what programs that know version 1 alone can show."""


_CLEARED: Final[Wire] = {"kind": "other", "status": "pending", "title": "", "content": [], "locations": []}
"""What a field of a tool call is when it is cleared, where version 1 has a word for it."""


def config_options(options: list[Wire]) -> list[Wire]:
    """Configuration options as version 1 has them."""
    return [_config_option(option) for option in options]


def _config_option(option: Wire) -> Wire:
    if option["type"] == "select":
        values: list[Wire] = option["options"]
        groups = [{**value, "group": value["groupId"]} if "groupId" in value else value for value in values]
        return {**option, "id": option["configId"], "options": groups}
    return {**option, "id": option["configId"]}


def modes(options: list[Wire]) -> Wire | None:
    """The option that stands for the modes of a session, as version 1 has modes; None if there is none."""
    for option in options:
        if option["type"] == "select" and option.get("category") == MODE:
            groups = [each.get("options", [each]) for each in option["options"]]
            choices = [{**value, "id": value["value"]} for group in groups for value in group]
            return {"currentModeId": option["currentValue"], "availableModes": choices}
    return None


def tool_content(item: Wire) -> Wire:
    """One piece of a tool call's output. Version 1 has the whole text of one file in a diff, and version 2 a patch of
    many files, so that a diff is shown as text."""
    if item["type"] != "diff":
        return item
    return {"type": "content", "content": {"type": "text", "text": _shown(v2.Diff.from_wire(item))}, "diff": item}


def _shown(diff: v2.Diff) -> str:
    if diff.patch is not None:
        # Longer than any fence in the patch.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", diff.patch.text)), default=0))
        return f"{fence}diff\n{diff.patch.text.rstrip()}\n{fence}"
    changes = [change.to_wire() for change in diff.changes]
    return "\n".join(f"{change['operation']} {change.get('path', '')}".rstrip() for change in changes)


def tool_call(call: Wire) -> Wire:
    """The fields of a tool call that are set. A cleared one has its default, and so has its content's form."""
    plain = {key: value for key, value in call.items() if value is not None}
    plain |= {key: default for key, default in _CLEARED.items() if key in call and call[key] is None}
    if "content" in plain:
        plain["content"] = [tool_content(item) for item in plain["content"]]
    if (status := plain.get("status")) in STATUSES:
        plain |= {"status": STATUSES[status], "_meta": {**plain.get("_meta", {}), "acp_server.status": status}}
    return plain


def permission(question: v2.RequestPermissionRequest, name: str) -> Wire:
    """The parameters of a permission request. A question that is about no tool call gets one of the given name."""
    subject, wire = question.subject, question.to_wire()
    call: Wire = {"toolCallId": name, "title": question.title}
    if isinstance(subject, v2.ToolCallPermissionSubject):
        told = tool_call(subject.tool_call.to_wire())
        call = {**told, "title": told.get("title") or question.title}
    elif isinstance(subject, v2.CommandPermissionSubject):
        command = {"command": subject.command, "cwd": subject.cwd}
        call |= {"toolCallId": subject.tool_call_id or name, "kind": "execute", "rawInput": command}
        call["content"] = [_text(f"{subject.command}\n(in {subject.cwd})")]
    if question.description and not call.get("content"):
        call["content"] = [_text(question.description)]
    return {**wire, "toolCall": call}


def _text(text: str) -> Wire:
    return {"type": "content", "content": {"type": "text", "text": text}}

"""Converts messages whose form in the pages of version 1 differs from the form in its schema. Both forms are valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NULL = frozenset({"session/load", "fs/write_text_file"})
"""Methods whose result is null on a page (Session Setup, File System), and an object in the schema."""


def result_of_schema(method: str, result: Any) -> Any:
    """Convert the result of a method to the form of the schema."""
    return {} if result is None and method in _NULL else result


def params_of_schema(method: str, params: Any) -> Any:
    """Convert the params of a method to the form of the schema."""
    if not isinstance(params, Mapping):
        return params
    if method == "session/update":
        return {**params, "update": _mode_update(params["update"])} if "update" in params else params
    if method == "session/request_permission":
        return {**params, "toolCall": _tool_call(params["toolCall"])} if "toolCall" in params else params
    return params


def _mode_update(update: Any) -> Any:
    """Rename `modeId` to `currentModeId` (Session Modes, From the Agent)."""
    if not isinstance(update, Mapping) or update.get("sessionUpdate") != "current_mode_update":
        return update
    if "modeId" not in update or "currentModeId" in update:
        return update
    return {**{key: each for key, each in update.items() if key != "modeId"}, "currentModeId": update["modeId"]}


def _tool_call(call: Any) -> Any:
    """Wrap text as the content of a tool call (Session Modes, Exiting plan modes)."""
    if not isinstance(call, Mapping) or not isinstance(call.get("content"), list):
        return call
    return {**call, "content": [_wrapped(each) for each in call["content"]]}


def _wrapped(content: Any) -> Any:
    bare = isinstance(content, Mapping) and content.get("type") == "text"
    return {"type": "content", "content": content} if bare else content

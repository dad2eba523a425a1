"""Redacts messages, so that a recording can be passed on. Structure and types are kept, and texts are removed.

The structure, numbers, methods, ids and enum values of the protocol are kept. Every other text is replaced by its
length. Values that authors and users fill in freely, such as the input of a tool, are emptied.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

_KEPT: Final = {
    *("jsonrpc", "method", "id", "sessionId", "toolCallId", "terminalId", "messageId", "requestId", "elicitationId"),
    *("optionId", "modeId", "currentModeId", "configId", "methodId", "serverId", "sessionUpdate", "type", "kind"),
    *("status", "stopReason", "outcome", "role", "priority", "mode", "action", "signal", "mimeType", "state"),
}
"""The members whose text is an id or an enum value of the protocol."""

_FREE: Final = {"_meta", "rawInput", "rawOutput", "data", "arguments"}
"""The members with free content."""

_IDENTITY: Final = {"agentInfo", "clientInfo"}
_LONGEST: Final = 80
"""The most characters of an id, of an enum value, or of a program's name."""
_WORD: Final = re.compile(rf"[\w.:$/+-]{{1,{_LONGEST}}}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_$][\w$-]{0,40}", re.ASCII)


def redacted(message: Any) -> Any:
    """Return a JSON value without the texts of the conversation."""
    if isinstance(message, list):
        return [redacted(each) for each in cast("list[Any]", message)]
    if isinstance(message, dict):
        method = cast("dict[str, Any]", message).get("method")
        # The parameters of an extension are defined by its author, whatever their names are.
        if isinstance(method, str) and method.startswith("_"):
            return {
                _named(key): _bare(each) if key == "params" else _value(key, each) for key, each in _members(message)
            }
    return _value("", message)


def length_of(text: str) -> str:
    """Return the text that replaces `text`: its length."""
    return f"[{len(text)} characters]"


def _value(key: str, value: Any) -> Any:
    """Redact `value`, which is the member `key` of its object, or an item of that member's array."""
    if key in _FREE:
        return _bare(value)
    if isinstance(value, str):
        return value if key in _KEPT and _WORD.fullmatch(value) else length_of(value)
    if isinstance(value, list):
        return [_value(key, each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    if key in _IDENTITY:
        return {name: _short(each) for name, each in _members(value) if name in ("name", "version")}
    return {_named(name): _value(name, each) for name, each in _members(value)}


def _short(value: Any) -> Any:
    return value if isinstance(value, str) and len(value) <= _LONGEST else _bare(value)


def _bare(value: Any) -> Any:
    """Return an empty value of the same type."""
    if isinstance(value, str):
        return length_of(value)
    if isinstance(value, dict | list):
        return {} if isinstance(value, dict) else []
    return value if value is None or isinstance(value, bool) else 0


def _members(value: Any) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", value).items())


def _named(name: str) -> str:
    return name if _NAME.fullmatch(name) else length_of(name)

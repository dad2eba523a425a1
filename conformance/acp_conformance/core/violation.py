"""A finding of the background check: the rule that a message breaks, and how the message breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal[
    "utf-8",
    "json",
    "newline",
    "batch",
    "message",
    "version",
    "kind",
    "id-type",
    "null-id",
    "error-object",
    "params-structured",
    "method-name",
    "direction",
    "unasked-answer",
    "answered-twice",
    "reused-id",
    "capability",
    "result",
    "request",
    "update",
    "absolute-path",
    "line-number",
    "session",
    "tool-order",
    "extra-member",
    "custom-name",
    "background",
    "offer",
    "terminal-reused",
    "patch",
    "config-option",
    "command",
    "date",
    "base64",
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that one message breaks."""

    rule: Rule
    what: str
    """The fault, with the place in the message."""
    line: str
    """The message, shortened."""

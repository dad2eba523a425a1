"""Messages of chats, and their content for an agent. Their text can always be encoded as UTF-8."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.safe_text import whole
from acp_server.schema import AvailableCommand, ContentBlock, ResourceLink, TextContent

_DEEPEST: Final = 100
"""The most levels of nested lists and objects. The API needs only a few."""


class TooDeep(ValueError):
    """Raised if a value has more levels than a client can need."""


def whole_json(value: Any, levels: int = _DEEPEST) -> Any:
    """Return `value`, parsed JSON, with texts that can be encoded. Raises TooDeep."""
    if isinstance(value, str):
        return whole(value)
    if not isinstance(value, list | dict):
        return value
    if not levels:
        raise TooDeep
    if isinstance(value, list):
        return [whole_json(item, levels - 1) for item in cast("list[Any]", value)]
    return {whole(key): whole_json(item, levels - 1) for key, item in cast("dict[str, Any]", value).items()}


TEXT: Final = "text"
OBJECTS: Final = "object_string"
CARD: Final = "card"
QUESTION: Final = "question"
ANSWER: Final = "answer"

_CONTEXT_BEFORE: Final = "Earlier in this conversation:"
_CONTEXT_CUT: Final = "Earlier in this conversation, of which the beginning is left out:"
_WEB: Final = ("http://", "https://")
_CONTEXT_AFTER: Final = "The message to reply to now follows."


@dataclass
class ChatMessage:
    """One message. Times are in Unix seconds."""

    id: str
    conversation_id: str
    section_id: str
    role: str
    type: str
    content: str
    content_type: str = TEXT
    meta_data: dict[str, str] = field(default_factory=dict[str, str])
    chat_id: str | None = None
    bot_id: str | None = None
    given: bool = False
    """Whether the message came from a client. Otherwise it came from an agent."""
    reasoning_content: str = ""
    created_at: int = field(default_factory=lambda: int(time.time()))
    updated_at: int = field(default_factory=lambda: int(time.time()))

    def to_wire(self) -> dict[str, Any]:
        """Return the message in the form of the API."""
        wire: dict[str, Any] = {
            "id": self.id,
            "conversation_id": self.conversation_id,
            "section_id": self.section_id,
            "role": self.role,
            "type": self.type,
            "content": self.content,
            "content_type": self.content_type,
            "meta_data": dict(self.meta_data),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }
        if self.chat_id is not None:
            wire["chat_id"] = self.chat_id
            wire["bot_id"] = self.bot_id
        if self.reasoning_content:
            wire["reasoning_content"] = self.reasoning_content
        return wire


def check_content(content: str, content_type: str) -> None:
    """Raise ApiError 4005 for content that cannot be passed to an agent."""
    if content_type == OBJECTS:
        _objects(content)
    elif content_type not in (TEXT, CARD):
        raise ApiError(Code.BAD_MESSAGE, f"content cannot be of type {content_type!r} here")


def check_links(content: str, content_type: str) -> None:
    """Raise ApiError 4005 for a link to anything but the web, because an agent would read a local file for it."""
    for part in _objects(content) if content_type == OBJECTS else []:
        if part["type"] != "text" and not part["file_url"].lower().startswith(_WEB):
            raise ApiError(Code.BAD_MESSAGE, "a file_url has to begin with http:// or https://")


def check_said(content: str) -> None:
    """Raise ApiError 4005 for a message without content."""
    if not content:
        raise ApiError(Code.BAD_MESSAGE, "a message needs content")


def blocks(message: ChatMessage) -> list[ContentBlock]:
    """Return a message as content of a prompt (ACP, Content): text, and links to files."""
    if message.content_type != OBJECTS:
        return [TextContent(text=message.content)]
    return [
        TextContent(text=part["text"])
        if part["type"] == "text"
        else ResourceLink(name=part.get("name") or part["type"], uri=part["file_url"])
        for part in _objects(message.content)
    ]


def context(messages: Sequence[ChatMessage], cut: bool = False) -> list[ContentBlock]:
    """Return earlier messages as one block, for an agent that does not know them; an empty list without messages.
    `cut`: whether older messages are omitted."""
    said = [text for text in map(as_context, messages) if text]
    if not said:
        return []
    before = _CONTEXT_CUT if cut else _CONTEXT_BEFORE
    return [TextContent(text="\n\n".join([before, *said, _CONTEXT_AFTER]))]


def as_context(message: ChatMessage) -> str:
    """Return a message as a part of `context`; "" if it has no text."""
    text = _plain(message)
    return f"{message.role}: {text}" if text else ""


def is_command(query: Sequence[ContentBlock], commands: Sequence[AvailableCommand]) -> bool:
    """Whether a prompt is a command (ACP, Slash Commands): one of `commands`, or a command that is not announced
    yet."""
    if not query or not isinstance(query[0], TextContent) or not query[0].text.startswith("/"):
        return False
    name = query[0].text.split(maxsplit=1)[0].removeprefix("/")
    # More slashes mean a path, unless the command is known.
    return (bool(name) and "/" not in name) or name in {command.name for command in commands}


def _plain(message: ChatMessage) -> str:
    return "\n".join(
        block.text if isinstance(block, TextContent) else block.uri
        for block in blocks(message)
        if isinstance(block, TextContent | ResourceLink)
    )


def _objects(content: str) -> list[dict[str, str]]:
    try:
        parts = whole_json(json.loads(content))
    except (ValueError, RecursionError):
        raise ApiError(Code.BAD_MESSAGE, "content of type object_string has to be a JSON array") from None
    if not isinstance(parts, list) or not parts:
        raise ApiError(Code.BAD_MESSAGE, "content of type object_string has to be a JSON array of objects")
    read = [_object(part) for part in cast("list[Any]", parts)]
    if not any(part["type"] == "text" for part in read):
        raise ApiError(Code.BAD_MESSAGE, "content of type object_string needs a text beside its files")
    return read


def _object(part: Any) -> dict[str, str]:
    if not isinstance(part, dict):
        raise ApiError(Code.BAD_MESSAGE, "content of type object_string has to be a JSON array of objects")
    fields = {key: value for key, value in cast("dict[str, Any]", part).items() if isinstance(value, str)}
    kind = fields.get("type")
    if kind == "text" and "text" in fields:
        return fields
    if kind in ("image", "file", "audio", "video"):
        if fields.get("file_url"):
            return fields
        raise ApiError(Code.BAD_MESSAGE, "files can be given by file_url only")
    raise ApiError(Code.BAD_MESSAGE, "an object of the content is neither a text nor a file")

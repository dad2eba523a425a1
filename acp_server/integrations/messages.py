"""Converts the conversation of a session to messages for models.

`openai_messages` and `anthropic_messages` return the forms of those APIs. `History` stores a framework's messages with
the turns that produced them. `cut` bounds one text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from acp_server import EncodeError, Message, Session, Turn, TurnRecord, UsageError

logger: logging.Logger = logging.getLogger("acp_server.integrations")


def openai_messages(context: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the `messages` for OpenAI's chat completions and for compatible APIs. LangChain also accepts them.

    If a message has only text, its content is one string. Images and recordings are separate parts. Resources become
    text.
    """
    messages: list[dict[str, Any]] = []
    for role, content in context:
        results = [block for block in content if block["type"] == "tool_result"]
        messages += [
            {"role": "tool", "tool_call_id": block["toolUseId"], "content": _text(block["content"])}
            for block in results
        ]
        calls = [_openai_call(block) for block in content if block["type"] == "tool_use"]
        parts = [part for block in content if (part := _openai_part(block)) is not None]
        if calls:
            text = "\n".join(part["text"] for part in parts if part["type"] == "text")
            messages.append({"role": role, "content": text or None, "tool_calls": calls})
        elif parts and all(part["type"] == "text" for part in parts):
            messages.append({"role": role, "content": "\n".join(part["text"] for part in parts)})
        elif parts or not results:
            messages.append({"role": role, "content": parts or ""})
    return messages


def anthropic_messages(context: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the `messages` for Anthropic's API. Consecutive messages of one role are merged, because the API requires
    that."""
    messages: list[dict[str, Any]] = []
    for role, content in context:
        parts = [part for block in content if (part := _anthropic_part(block)) is not None]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += parts
        elif parts:
            messages.append({"role": role, "content": parts})
    return messages


def _openai_call(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def _openai_part(block: dict[str, Any]) -> dict[str, Any] | None:
    kind = block["type"]
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{block['mimeType']};base64,{block['data']}"}}
    if kind == "audio":
        audio = {"data": block["data"], "format": block["mimeType"].rpartition("/")[2]}
        return {"type": "input_audio", "input_audio": audio}
    return _as_text(block)


def _anthropic_part(block: dict[str, Any]) -> dict[str, Any] | None:
    kind = block["type"]
    if kind == "image":
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        return {"type": "image", "source": source}
    if kind == "tool_use":
        return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"]}
    if kind == "tool_result":
        content = [part for inner in block["content"] if (part := _anthropic_part(inner)) is not None]
        result = {"type": "tool_result", "tool_use_id": block["toolUseId"], "content": content}
        return {**result, "is_error": True} if block["isError"] else result
    return _as_text(block)


def _as_text(block: dict[str, Any]) -> dict[str, Any] | None:
    """Return a text part for both APIs. None for blocks that neither API accepts, and for empty text, which Anthropic
    refuses."""
    text = text_of(block)
    return {"type": "text", "text": text} if text else None


def text_of(block: Mapping[str, Any]) -> str | None:
    """Return a content block (ACP, Content) as text for a model; None for an image or a recording."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "name": name, "uri": uri}:
            return f"[{name}]({uri})"
        case {"type": "resource", "resource": {"uri": uri, "text": text}}:
            return f"{uri}:\n{text}"
        case _:
            return None


def _text(content: Sequence[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def appending(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an `Agent`, with `system_prompt="append"` unless they set it."""
    return {"system_prompt": "append", **options}


def replaces_instructions(turn: Turn) -> bool:
    """Whether the client's system prompt replaces the agent's own (ACP, System Prompt)."""
    prompt = turn.session.system_prompt
    return prompt is not None and prompt.mode == "override"


MOST: Final = 32 * 1024
"""The most characters of one result for the model. The middle of a longer result is omitted."""

_FIRST: Final = MOST * 3 // 4


def cut(text: str) -> str:
    """Return the text. If it has more than `MOST` characters, its middle is omitted."""
    if len(text) <= MOST:
        return text
    left_out = f"\n[{len(text) - MOST:,} characters omitted]\n"
    return text[:_FIRST] + left_out + text[len(text) - (MOST - _FIRST) :]


class History:
    """Stores a framework's messages with each turn (`Turn.keep`), so that a turn that is cancelled or fails leaves
    none.

    `key`, `version`: the key and the version of the stored value. `dump` converts the framework's messages to JSON, and
    `load` converts them back; `load` raises ValueError for unreadable values. `said` converts the conversation of a
    turn to such messages.
    """

    def __init__(
        self,
        key: str,
        version: int,
        *,
        dump: Callable[[list[Any]], Any],
        load: Callable[[Any], list[Any]],
        said: Callable[[Sequence[Message]], list[Any]],
    ) -> None:
        self._key = key
        self._version = version
        self._dump = dump
        self._load = load
        self._said = said
        self._last: WeakKeyDictionary[Session, tuple[TurnRecord, list[Any]]] = WeakKeyDictionary()
        """For each open session, its last turn and the messages up to that turn, so that they need not be loaded
        again."""

    def before(self, turn: Turn) -> list[Any]:
        """Return the stored messages of the earlier turns. For a turn without stored messages, its conversation is
        converted."""
        past = [record for record in turn.session.record.context() if record is not turn.record]
        last = self._last.get(turn.session)
        if last is not None and past and past[-1] is last[0]:
            return last[1]
        messages: list[Any] = []
        for record in past:
            kept = record.kept(self._key, self._version)
            try:
                added = self._said(record.messages()) if kept is None else self._load(kept["messages"])
            except ValueError:
                logger.warning(
                    "the stored messages of turn %s cannot be read; the model gets the text of the turn instead",
                    record.id,
                )
                kept, added = None, self._said(record.messages())
            messages = [*([] if kept is not None and kept["whole"] else messages), *added]
        return messages

    def keep(self, turn: Turn, before: list[Any], behind: list[Any]) -> None:
        """Store the messages that the turn has added. If the turn has changed earlier messages, all messages are
        stored."""
        whole = behind[: len(before)] != before
        try:
            added = self._dump(behind if whole else behind[len(before) :])
            turn.keep(self._key, {"whole": whole, "messages": added}, version=self._version)
        except (UsageError, EncodeError):
            logger.warning("the messages of a turn are too large to store; only the text of the turn is stored")
        self._last[turn.session] = turn.record, behind


__all__ = ["anthropic_messages", "cut", "openai_messages"]

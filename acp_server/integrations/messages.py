"""What was said in a session (`Turn.context(tools=True)`) in the shapes that the APIs of models take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from acp_server.store.records import Message


def openai_messages(context: Iterable[Message]) -> list[dict[str, Any]]:
    """The `messages` of OpenAI's chat completions, and of all that is compatible with them; LangChain takes them, too.

    A user's text is one text if there is nothing else; images and recordings are parts. Resources become text.
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
    """The `messages` of Anthropic's API. Messages of one side that follow each other are one, as it wants them."""
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
    """What both take as text; None for what neither takes, and for text that is empty, which Anthropic refuses."""
    kind = block["type"]
    text = ""
    if kind == "text":
        text = block["text"]
    elif kind == "resource_link":
        text = f"[{block['name']}]({block['uri']})"
    elif kind == "resource" and "text" in block["resource"]:
        text = f"{block['resource']['uri']}:\n{block['resource']['text']}"
    return {"type": "text", "text": text} if text else None


def _text(content: Sequence[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in content if block["type"] == "text")

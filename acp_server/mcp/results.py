"""What a tool of an MCP server returns, as the user and the model get it (MCP, Tools: tool result)."""

from __future__ import annotations

from typing import Any, Final, cast

from acp_server.errors import EncodeError, ToolFailed
from acp_server.schema.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink
from acp_server.tools.context import ToolContext
from acp_server.tools.output import Output
from acp_server.tools.view import as_content
from acp_server.wire import codec

TEXT: Final = 100_000
"""Characters of text that are passed on of one result: more fills the context of a model. Of longer text the beginning
and the end."""

_STRUCTURED: Final = 1024 * 1024
"""Bytes of structured content that are passed on."""

_BLOCKS: Final[dict[str, Any]] = {
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}


def output(result: Any, call: ToolContext) -> Output:
    """A `CallToolResult`. Text goes to both; images, recordings and resources are shown to the user, and the model is
    told of them. The value is the structured content; else the text, or all content blocks if there is more than text.

    Raises ToolFailed for a result that says that it is an error.
    """
    most = call.client.connection.limits.content
    texts: list[str] = []
    blocks: list[Any] = []
    for block in cast(
        "list[dict[str, Any]]", [block.model_dump(by_alias=True, mode="json") for block in result.content]
    ):
        if block["type"] == "text":
            texts.append(block["text"])
            continue
        size = _size(block)
        most -= size
        texts.append(_told(block) if most >= 0 else f"[{block['type']} of {size} characters: too long, left out]")
        if most >= 0:
            blocks.append(_BLOCKS[block["type"]].from_wire({k: v for k, v in block.items() if v is not None}))
    text = shortened("\n".join(texts))
    if result.is_error:
        for block in blocks:
            call.progress(block)
        raise ToolFailed(text or "The tool failed.")
    structured = _structured(result.structured_content)
    if structured is not None and not text:
        text = codec.encode(structured).decode().rstrip("\n")
    told = Output(text)
    told.content = [as_content(block) for block in blocks]
    told.value = structured if structured is not None else [text, *blocks] if blocks else text
    if structured is not None:
        told.changes["raw_output"] = structured
    return told


def shortened(text: str, most: int = TEXT) -> str:
    """The text, or its beginning and end if it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"


def _structured(value: Any) -> Any:
    try:
        return value if value is not None and len(codec.encode(value)) <= _STRUCTURED else None
    except EncodeError:
        return None


def _size(block: dict[str, Any]) -> int:
    held: dict[str, Any] = block.get("resource") or block
    return sum(len(held.get(name) or "") for name in ("data", "blob", "text"))


def _told(block: dict[str, Any]) -> str:
    """What a model is told of what is not text."""
    if block["type"] == "resource_link":
        return f"[{block['name']}]({block['uri']})"
    if block["type"] != "resource":
        return f"[{block['type']}, {block['mimeType']}: shown to the user]"
    resource = block["resource"]
    return (
        f"{resource['uri']}:\n{resource['text']}" if "text" in resource else f"[{resource['uri']}: shown to the user]"
    )

"""How programs write it that use the types of the protocol: checked by pyright in strict mode, and run by its test."""

# pyright: strict

from collections.abc import Sequence

from acp_server import Turn, schema
from acp_server.client import RemoteSession
from acp_server.schema import NULL, SessionUpdate, v2


def text_of(block: schema.ContentBlock) -> str:
    """Behind its tag, a member of a union is known by its class."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.mime_type}]"
        case "resource_link":
            return block.uri
        case "resource":
            return block.resource.uri
        case _:
            return f"[{block.tag}]"


def told(update: SessionUpdate) -> str:
    """The same by `if`."""
    if update.session_update == "plan":
        return ", ".join(entry.content for entry in update.entries)
    if update.session_update == "agent_message_chunk":
        return text_of(update.content)
    if update.session_update == "tool_call":
        return f"{update.title}: {update.status or 'pending'}"
    if isinstance(update, schema.UnknownSessionUpdate):
        return update.tag
    return ""


def server_of(server: schema.McpServer) -> str:
    """A member whose tag may be absent is known by its class."""
    if isinstance(server, schema.McpServerStdio):
        return server.command
    return server.url if server.type == "http" or server.type == "sse" else server.tag


def choice_of(answer: schema.RequestPermissionResponse) -> str | None:
    """So are outcomes."""
    return answer.outcome.option_id if answer.outcome.outcome == "selected" else None


def said_by(update: v2.SessionUpdate) -> Sequence[v2.ContentBlock]:
    """Version 2 does it alike."""
    match update.session_update:
        case "agent_message":
            return update.content or []
        case "agent_message_chunk":
            return [update.content]
        case _:
            return []


def made() -> list[schema.Record]:
    """Any sequence may be given where a list is kept, also of a narrower kind, and None for what may be unset."""
    blocks = [schema.TextContent(text="a"), schema.TextContent(text="b")]
    contents: list[schema.Content] = [schema.Content(content=block) for block in blocks]
    places = (schema.ToolCallLocation(path="/a"),)
    call = schema.ToolCall(tool_call_id="c", title="t", kind=None, content=contents, locations=places, meta={"a": 1})
    call.content = contents
    kept: list[schema.ToolCallContent] | None = call.content
    return [
        call,
        schema.ToolCallProgress(tool_call_id="c", content=kept, locations=None),
        schema.Plan(entries=tuple(schema.PlanEntry(content=c, priority="low", status="pending") for c in "ab")),
        schema.PromptRequest(session_id="s", prompt=blocks),
        schema.SessionInfoUpdate(title=NULL),
    ]


async def shown(turn: Turn, updates: Sequence[SessionUpdate]) -> None:
    """An agent passes on any update of the union."""
    for update in updates:
        await turn.update(update)
        turn.put(update)
        await turn.session.update(update)


async def asked(session: RemoteSession, blocks: Sequence[schema.TextContent]) -> list[str]:
    """A client reads the same union, and sends any sequence."""
    async with session.prompt(blocks) as turn:
        return [told(update) async for update in turn]


def meta_of(block: schema.ContentBlock) -> dict[str, object] | None:
    """What every member has needs no narrowing."""
    return block.meta

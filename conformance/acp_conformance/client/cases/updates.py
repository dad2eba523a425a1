"""How a client reacts to session/update: known kinds, unknown kinds, many updates."""

from typing import Any

from acp_conformance.client.registry import case
from acp_conformance.client.subject import Client
from acp_conformance.core.case import MUST, SHOULD

_ACP = "ACP v1"
_TEXT = {"type": "text", "text": "héllo\n"}
_META = {"conformance": {"a": [1, None, "é"]}}

_UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "content": _TEXT},
    {"sessionUpdate": "agent_thought_chunk", "content": _TEXT},
    {"sessionUpdate": "agent_message_chunk", "messageId": "m-1", "content": _TEXT},
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "resource_link", "uri": "file:///tmp/a.txt", "name": "a.txt"},
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "resource", "resource": {"uri": "file:///tmp/a.txt", "text": "hello"}},
    },
    {
        "sessionUpdate": "plan",
        "entries": [
            {"content": "look", "priority": "high", "status": "in_progress"},
            {"content": "write", "priority": "low", "status": "pending"},
        ],
    },
    {"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Looking", "kind": "read", "status": "pending"},
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call-1",
        "status": "in_progress",
        "locations": [{"path": "/tmp/a.txt", "line": 3}],
        "rawInput": {"path": "/tmp/a.txt"},
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call-1",
        "status": "completed",
        "content": [
            {"type": "content", "content": _TEXT},
            {"type": "diff", "path": "/tmp/a.txt", "oldText": None, "newText": "new\n"},
        ],
        "rawOutput": {"lines": 3},
    },
    {"sessionUpdate": "tool_call", "toolCallId": "call-2", "title": "Bare"},
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            {"name": "plan", "description": "Make a plan", "input": {"hint": "what for"}},
            {"name": "test", "description": "Run the tests"},
        ],
    },
    {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "session_info_update", "title": "A session", "updatedAt": "2026-01-01T00:00:00Z"},
    {"sessionUpdate": "usage_update", "used": 53000, "size": 200000, "cost": {"amount": 0.045, "currency": "USD"}},
]


@case("updates/known-kinds", level=MUST, source=_ACP, section="Prompt Turn, Agent Reports Output")
async def known_kinds(client: Client) -> None:
    """A client accepts every kind of update of the protocol, and answers no update."""
    await client.prompt()
    for update in _UPDATES:
        await client.update(update)
    await client.nothing_answered("an update")


@case("updates/unknown-tool-call", level=SHOULD, source=_ACP, section="Tool Calls, Updating")
async def unknown_tool_call(client: Client) -> None:
    """An update of an unknown tool call is accepted and not answered."""
    await client.prompt()
    await client.update({"sessionUpdate": "tool_call_update", "toolCallId": "never", "status": "completed"})
    await client.nothing_answered("an update for an unknown tool call")


@case("updates/meta", level=MUST, source=_ACP, section="Extensibility, The _meta Field")
async def meta(client: Client) -> None:
    """A client accepts _meta in every object."""
    await client.prompt()
    await client.conversation.notify(
        "session/update",
        {
            "sessionId": client.session_id,
            "update": {
                "sessionUpdate": "tool_call",
                "toolCallId": "call-1",
                "title": "Looking",
                "content": [{"type": "content", "content": {**_TEXT, "_meta": _META}, "_meta": None}],
                "_meta": _META,
            },
            "_meta": _META,
        },
    )
    await client.nothing_answered("an update with _meta")


@case("updates/unknown-kind", level=SHOULD, source=_ACP, section="Extensibility, Custom Notifications")
async def unknown_kind(client: Client) -> None:
    """An update of an unknown kind is ignored."""
    await client.prompt()
    await client.update({"sessionUpdate": "mood_update", "mood": "good"})
    await client.update(
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "data": "aGVsbG8=", "uri": "x:y"}}
    )
    await client.alive()


@case("updates/unknown-fields", level=SHOULD, source=_ACP, section="Extensibility")
async def unknown_fields(client: Client) -> None:
    """A client ignores unknown fields, which later versions may have."""
    await client.prompt()
    await client.update(
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "call-1",
            "title": "Looking",
            "mood": "good",
            "content": [{"type": "content", "content": {**_TEXT, "colour": "red"}, "width": 3}],
        }
    )
    await client.alive()


@case("updates/unknown-session", level=SHOULD, source=_ACP, section="Prompt Turn, Agent Reports Output")
async def unknown_session(client: Client) -> None:
    """An update for an unknown session is ignored."""
    await client.prompt()
    await client.conversation.notify(
        "session/update",
        {"sessionId": "unknown", "update": {"sessionUpdate": "agent_message_chunk", "content": _TEXT}},
    )
    await client.nothing_answered("an update for another session")


@case("updates/many", level=MUST, source=_ACP, section="Prompt Turn, Agent Reports Output")
async def many(client: Client) -> None:
    """A thousand updates in a row are accepted."""
    await client.prompt()
    for number in range(1000):
        await client.say(f"{number} ")
    await client.nothing_answered("an update")

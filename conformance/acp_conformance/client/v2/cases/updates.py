"""How a client reacts to updates, which are patches: an absent member is unchanged, null clears a member, a value
replaces it."""

from typing import Any

from acp_conformance.client.subject import Client
from acp_conformance.client.v2.registry import SOURCE, case
from acp_conformance.core.case import MUST

_TEXT = {"type": "text", "text": "héllo\n"}
_CALL = {"sessionUpdate": "tool_call_update", "toolCallId": "call-1"}
_TERMINAL = {"sessionUpdate": "terminal_update", "terminalId": "t-1"}

_UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "messageId": "u-1", "content": _TEXT},
    {"sessionUpdate": "user_message", "messageId": "u-1", "content": [_TEXT]},
    {"sessionUpdate": "agent_thought_chunk", "messageId": "th-1", "content": _TEXT},
    {"sessionUpdate": "agent_thought", "messageId": "th-1", "content": [_TEXT]},
    {"sessionUpdate": "agent_message_chunk", "messageId": "a-1", "content": _TEXT},
    {"sessionUpdate": "agent_message_chunk", "messageId": "a-2", "content": _TEXT},
    {"sessionUpdate": "agent_message", "messageId": "a-1", "content": [_TEXT]},
    {**_CALL, "title": "Looking", "kind": "read", "status": "in_progress", "capabilities": {"cancel": {}}},
    {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": "call-1",
        "content": {"type": "content", "content": _TEXT},
    },
    {**_CALL, "status": "paused"},
    {**_CALL, "content": [{"type": "terminal", "terminalId": "t-1"}]},
    {**_CALL, "content": [{"type": "diff", "changes": [{"operation": "add", "path": "/tmp/a.txt"}]}]},
    {**_CALL, "status": "completed", "rawOutput": {"lines": 3}},
    {**_TERMINAL, "command": "make", "cwd": "/tmp"},
    {"sessionUpdate": "terminal_output_chunk", "terminalId": "t-1", "data": "w6k="},
    {**_TERMINAL, "exitStatus": {"exitCode": 0}},
    {
        "sessionUpdate": "plan_update",
        "plan": {
            "type": "items",
            "planId": "p-1",
            "entries": [{"content": "look", "priority": "high", "status": "pending"}],
        },
    },
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "session_info_update", "title": "A session", "updatedAt": "2026-01-01T00:00:00Z"},
    {"sessionUpdate": "usage_update", "used": 53000, "size": 200000},
]


@case("v2-updates/known-kinds", level=MUST, source=SOURCE, section="Session updates")
async def known_kinds(client: Client) -> None:
    """A client accepts every kind of update, and answers no update."""
    await client.prompt()
    for update in _UPDATES:
        await client.update(update)
    await client.nothing_answered("an update")


@case("v2-updates/null-clears", level=MUST, source=SOURCE, section="Session updates")
async def null_clears(client: Client) -> None:
    """A client accepts patches in which a field is null, which clears it, or absent, which leaves it unchanged."""
    await client.prompt()
    await client.update({**_CALL, "title": "Looking", "kind": "read", "status": "pending", "content": []})
    cleared = ("name", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "capabilities")
    await client.update({**_CALL, **dict.fromkeys(cleared), "_meta": None})
    await client.update(_CALL)
    await client.update({**_TERMINAL, "command": "make", "cwd": "/tmp"})
    await client.update({**_TERMINAL, "command": None, "output": None, "exitStatus": None, "capabilities": None})
    await client.say("a message")
    await client.update({**client.dialect.message(""), "sessionUpdate": "agent_message", "content": None})
    await client.nothing_answered("a patch")


@case("v2-updates/unknown-kinds", level=MUST, source=SOURCE, section="Extensibility")
async def unknown_kinds(client: Client) -> None:
    """A client accepts unknown updates, content, states and kinds."""
    await client.prompt()
    await client.update({"sessionUpdate": "mood_update", "mood": "good"})
    await client.update({"sessionUpdate": "_conformance/mood", "mood": {"a": [None]}})
    await client.update({**client.dialect.message(""), "content": {"type": "hologram", "data": "aGVsbG8="}})
    await client.update({**_CALL, "title": "Looking", "kind": "_dream", "status": "_dreaming"})
    await client.update({**_CALL, "content": [{"type": "hologram", "data": 3}]})
    await client.update({"sessionUpdate": "plan_update", "plan": {"type": "_map", "planId": "p-1", "roads": []}})
    await client.nothing_answered("an update of an unknown kind")


@case("v2-updates/first-sight", level=MUST, source=SOURCE, section="Session updates")
async def first_sight(client: Client) -> None:
    """A client accepts a first patch of an id with any fields."""
    await client.prompt()
    await client.update({"sessionUpdate": "tool_call_update", "toolCallId": "new-1"})
    await client.update({"sessionUpdate": "tool_call_update", "toolCallId": "new-2", "status": "failed"})
    await client.update({"sessionUpdate": "terminal_update", "terminalId": "new-1"})
    await client.update({"sessionUpdate": "agent_message", "messageId": "new-1"})
    await client.nothing_answered("a patch")

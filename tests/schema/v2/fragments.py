"""Objects of version 2 as they appear on the wire, of which the examples are made, and all session updates."""

from typing import Any

from tests.schema import examples as v1
from tests.schema.fragments import SYSTEM_PROMPT, USAGE

META: dict[str, Any] = {"example.org/trace": {"id": 7, "parent": None}, "example.org/gone": None}
ABSENT: dict[str, Any] = {}
SESSION = {"sessionId": "sess_1"}
TEXT = {"type": "text", "text": "Where is the parser?"}
ICON = {"src": "file:///a.svg", "mimeType": "image/svg+xml", "sizes": ["any"], "theme": "dark", "_meta": META}
ERROR: dict[str, Any] = {"code": -32603, "message": "Internal error", "data": {"reason": "tired"}}
STATUS = {"exitCode": -1, "signal": "SIGTERM", "_meta": META}
STDIO = {"type": "stdio", "name": "files", "command": "/bin/mcp", "_meta": META}
SERVERS = [
    {**STDIO, "args": ["--root"], "env": [{"name": "A", "value": ""}]},
    STDIO,
    {
        "type": "http",
        "name": "web",
        "url": "https://mcp.example/",
        "headers": [{"name": "K", "value": "v"}],
        "_meta": META,
    },
]
COMMANDS = [
    {"type": "command", "name": "test", "description": "Runs the tests", "_meta": META},
    {
        "type": "command",
        "name": "web",
        "description": "d",
        "input": {"type": "text", "hint": "what for", "_meta": META},
    },
]
VALUE = {"value": "large", "name": "Large", "description": "Slow", "_meta": META}
GROUP = {"groupId": "fast", "name": "Fast ones", "options": [VALUE], "_meta": META}
OPTION = {"configId": "model", "name": "Model", "description": "Which one", "category": "model", "_meta": META}
OPTIONS: list[dict[str, Any]] = [
    {"type": "select", **OPTION, "currentValue": "large", "options": [VALUE]},
    {"type": "select", "configId": "m", "name": "M", "currentValue": "large", "options": [GROUP]},
    {"type": "boolean", **OPTION, "currentValue": False},
]
SETTINGS: list[dict[str, Any]] = [
    {"type": "id", **SESSION, "configId": "model", "value": "large", "_meta": META},
    {"type": "boolean", **SESSION, "configId": "web", "value": True, "_meta": META},
]
INITIAL = [
    {"configId": "model", "type": "id", "value": "large", "_meta": META},
    {"configId": "web", "type": "boolean", "value": True, "_meta": META},
]
SETUP = {
    "cwd": "/w",
    "additionalDirectories": ["/x"],
    "mcpServers": SERVERS,
    "systemPrompt": SYSTEM_PROMPT,
    "configOptions": INITIAL,
    "_meta": META,
}
READY = {"configOptions": OPTIONS, "availableCommands": COMMANDS, "_meta": META}
METHODS = [
    {"type": "agent", "methodId": "web", "name": "Web", "description": "Opens a page", "_meta": META},
    {
        "type": "terminal",
        "methodId": "tty",
        "name": "Terminal",
        "description": "Asks for a key",
        "args": ["--login"],
        "env": [{"name": "A", "value": "b"}],
        "_meta": META,
    },
]
PROMPT_CAPABILITIES = {"image": ABSENT, "audio": ABSENT, "embeddedContext": ABSENT, "_meta": META}
SESSION_CAPABILITIES = {
    "prompt": PROMPT_CAPABILITIES,
    "mcp": {"stdio": ABSENT, "http": ABSENT, "_meta": META},
    "delete": ABSENT,
    "additionalDirectories": ABSENT,
    "systemPrompt": {"mode": {"override": ABSENT}},
    "fork": ABSENT,
    "options": ABSENT,
    "title": ABSENT,
    "archive": ABSENT,
    "status": ABSENT,
    "_meta": META,
}
AGENT = {"session": SESSION_CAPABILITIES, "auth": ABSENT, "_meta": META}
CLIENT = {
    "auth": {"terminal": ABSENT, "_meta": META},
    "elicitation": {"form": ABSENT, "url": ABSENT, "_meta": META},
    "_meta": META,
}
PROGRAM = {"name": "editor", "title": "Editor", "version": "1", "_meta": META}
BLOCKS: list[dict[str, Any]] = [
    *v1.CONTENT_BLOCKS,
    {"type": "image", "data": "", "mimeType": "x/y", "_meta": META},
    {"type": "resource_link", "uri": "file:///a", "name": "a", "icons": [ICON], "size": 2**63},
]
PATH = {"path": "/w/a.py", "fileType": "text", "mimeType": "text/x-python", "_meta": META}
PAIR = {**PATH, "oldPath": "/w/b.py"}
CHANGES = [
    {"operation": "add", **PATH},
    {"operation": "delete", **PATH},
    {"operation": "modify", "path": "/w/c"},
    {"operation": "move", **PAIR},
    {"operation": "copy", **PAIR},
]
PATCH = {"format": "git_patch", "text": "diff --git", "_meta": META}
OUTPUTS: list[dict[str, Any]] = [
    {"type": "content", "content": TEXT, "_meta": META},
    {"type": "diff", "changes": CHANGES, "patch": PATCH, "_meta": META},
    {"type": "terminal", "terminalId": "term_1", "_meta": META},
]
TOOL_CALLS: list[dict[str, Any]] = [
    {
        "toolCallId": "call_1",
        "name": "grep",
        "title": "Search",
        "kind": "search",
        "status": "paused",
        "content": OUTPUTS,
        "locations": [{"path": "/w/a.py", "line": 3, "_meta": META}],
        "rawInput": {"pattern": "def .*", "limit": None},
        "rawOutput": [1, "two", None],
        "capabilities": {"cancel": {"_meta": META}, "_meta": META},
        "_meta": META,
    },
    {
        "toolCallId": "call_1",
        "name": None,
        "title": None,
        "kind": None,
        "status": None,
        "content": None,
        "locations": None,
        "rawInput": None,
        "rawOutput": None,
        "capabilities": None,
        "_meta": None,
    },
    {"toolCallId": "call_1"},
]
MESSAGES: list[dict[str, Any]] = [
    {"messageId": "m1", "content": BLOCKS, "_meta": META},
    {"messageId": "m1", "content": None, "_meta": None},
    {"messageId": "m1"},
]
CHUNK = {"messageId": "m1", "content": TEXT, "_meta": META}
BACKGROUND = [
    {"type": "terminal", "terminalId": "term_1", "_meta": META},
    {"type": "tool_call", "toolCallId": "call_1", "_meta": META},
    {"type": "subagent", "sessionId": "s2", "_meta": META},
]
TERMINALS: list[dict[str, Any]] = [
    {
        "terminalId": "term_1",
        "command": "make",
        "cwd": "/w",
        "output": {"data": "aGk=", "_meta": META},
        "exitStatus": STATUS,
        "size": {"cols": 80, "rows": 24, "_meta": META},
        "capabilities": {"cancel": {"_meta": META}, "_meta": META},
        "_meta": META,
    },
    {"terminalId": "term_1", "command": None, "output": None, "exitStatus": ABSENT, "capabilities": None},
]
PLAN = {
    "type": "items",
    "planId": "p1",
    "entries": [{"content": "Read", "priority": "high", "status": "cancelled", "_meta": META}],
    "_meta": META,
}
COMPACTIONS: list[dict[str, Any]] = [
    {"compactionId": "c1", "status": "failed", "summary": [TEXT], "error": "full", "_meta": META},
    {"compactionId": "c1", "status": "in_progress", "summary": None, "error": None, "_meta": None},
]


def tagged(tag: str, *examples: dict[str, Any]) -> list[dict[str, Any]]:
    """The examples as session updates of one kind."""
    return [{"sessionUpdate": tag, **example} for example in examples]


UPDATES: dict[str, list[dict[str, Any]]] = {
    "UserMessageChunk": tagged("user_message_chunk", CHUNK),
    "UserMessage": tagged("user_message", *MESSAGES),
    "AgentMessageChunk": tagged("agent_message_chunk", CHUNK),
    "AgentMessage": tagged("agent_message", *MESSAGES),
    "AgentThoughtChunk": tagged("agent_thought_chunk", CHUNK),
    "AgentThought": tagged("agent_thought", *MESSAGES),
    "StateUpdate": tagged(
        "state_update",
        {"state": "running", "background": BACKGROUND, "_meta": META},
        {"state": "requires_action", "background": []},
        {"state": "idle", "stopReason": "error", "error": ERROR, "usage": USAGE, "_meta": META},
        {"state": "idle", "stopReason": "end_turn"},
        {"state": "idle"},
        {"state": "unknown", "background": []},
        {"state": "_thinking", "depth": 3},
    ),
    "ToolCallContentChunk": tagged(
        "tool_call_content_chunk", {"toolCallId": "c", "content": OUTPUTS[0], "_meta": META}
    ),
    "ToolCallProgress": tagged("tool_call_update", *TOOL_CALLS),
    "TerminalUpdate": tagged("terminal_update", *TERMINALS),
    "TerminalOutputChunk": tagged("terminal_output_chunk", {"terminalId": "term_1", "data": "aGk=", "_meta": META}),
    "PlanUpdate": tagged("plan_update", {"plan": PLAN, "_meta": META}),
    "AvailableCommandsUpdate": tagged("available_commands_update", {"availableCommands": COMMANDS, "_meta": META}),
    "ConfigOptionUpdate": tagged("config_option_update", {"configOptions": OPTIONS, "_meta": META}),
    "SessionInfoUpdate": tagged(
        "session_info_update",
        {"title": "Parser", "updatedAt": "2026-01-01T00:00:00Z", "_meta": META},
        {"title": None, "updatedAt": None, "_meta": None},
        ABSENT,
    ),
    "UsageUpdate": tagged(
        "usage_update",
        {"used": 10, "size": 2**33, "cost": {"amount": 0.25, "currency": "EUR", "_meta": META}, "_meta": META},
        {"used": 10, "size": 20, "cost": None},
    ),
    "Notice": tagged("notice", {"severity": "warning", "title": "Slow", "description": "Very", "_meta": META}),
    "CompactionUpdate": tagged("compaction_update", *COMPACTIONS),
    "CompactionSummaryChunk": tagged(
        "compaction_summary_chunk", {"compactionId": "c1", "content": TEXT, "_meta": META}
    ),
    "SubagentUpdate": tagged("subagent_update", *v1.CHILDREN),
    "SessionMessage": tagged("session_message", *v1.BETWEEN_SESSIONS),
    "SessionMessageChunk": tagged("session_message_chunk", CHUNK),
}

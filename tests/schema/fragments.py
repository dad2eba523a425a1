"""Objects as they appear on the wire, of which the examples are made."""

from typing import Any

META: dict[str, Any] = {"example.org/trace": {"id": 7, "parent": None}}
ABSENT: dict[str, Any] = {}

TEXT = {"type": "text", "text": "Where is the parser?"}
LINK = {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py"}
SESSION = {"sessionId": "sess_1"}
TERMINAL = {"sessionId": "sess_1", "terminalId": "term_1"}
STDIO = {"name": "files", "command": "/bin/mcp", "args": ["--root", "/w"], "env": [{"name": "A", "value": ""}]}
HTTP = {"type": "http", "name": "web", "url": "https://mcp.example/", "headers": [{"name": "X-Key", "value": "k"}]}
SSE = {"type": "sse", "name": "old", "url": "https://sse.example/", "headers": []}
SELECT: dict[str, Any] = {
    "type": "select",
    "id": "model",
    "name": "Model",
    "currentValue": "large",
    "options": [{"value": "large", "name": "Large"}],
}
GROUP = {"group": "fast", "name": "Fast ones", "options": [{"value": "small", "name": "Small"}], "_meta": META}
SWITCH: dict[str, Any] = {"type": "boolean", "id": "web", "name": "Web search", "currentValue": False}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask", "description": "Asks first"}]}
ENTRY = {"content": "Read the parser", "priority": "high", "status": "in_progress"}
LOCATION = {"path": "/w/a.py", "line": 3}
DIFF = {"type": "diff", "path": "/w/a.py", "oldText": "a\n", "newText": "b\n"}
TOOL_CONTENT = [{"type": "content", "content": TEXT}, DIFF, {"type": "terminal", "terminalId": "term_1"}]
TOOL_FIELDS: dict[str, Any] = {
    "toolCallId": "call_1",
    "title": "Search",
    "name": "grep",
    "kind": "search",
    "status": "completed",
    "content": TOOL_CONTENT,
    "locations": [LOCATION],
    "rawInput": {"pattern": "def .*", "limit": None},
    "rawOutput": [1, "two", None, {"three": 3.5}],
    "_meta": META,
}
COMMAND = {"name": "search", "description": "Search the files", "input": {"hint": "PATTERN"}}
AUTH_TERMINAL = {
    "type": "terminal",
    "id": "login",
    "name": "Log in",
    "description": "In a terminal",
    "args": ["login"],
    "env": {"FORCE": "1"},
    "_meta": META,
}
AUTH_AGENT = {"id": "oauth", "name": "Browser", "description": "Opens a browser", "_meta": META}
FORM: dict[str, Any] = {
    "type": "object",
    "title": "Deploy",
    "description": "Where to?",
    "properties": {
        "host": {"type": "string", "title": "Host", "minLength": 1, "maxLength": 80, "pattern": "^[a-z]+$"},
        "date": {"type": "string", "format": "date", "default": "2026-01-01", "description": "When"},
        "colour": {"type": "string", "enum": ["red", "green"]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small", "description": "A few"}]},
        "load": {"type": "number", "minimum": 0.5, "maximum": 1.5, "default": 1.0},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3, "title": "Count"},
        "dry": {"type": "boolean", "default": True, "title": "Dry run", "description": "Only look"},
        "tags": {
            "type": "array",
            "items": {"type": "string", "enum": ["a", "b"]},
            "minItems": 1,
            "maxItems": 2,
            "default": ["a"],
        },
        "zones": {"type": "array", "items": {"anyOf": [{"const": "eu", "title": "Europe"}]}, "title": "Zones"},
        "later": {"type": "_colour_wheel", "steps": None},
    },
    "required": ["host"],
    "_meta": META,
}
FORM_REQUEST = {
    "mode": "form",
    "message": "Where to?",
    "sessionId": "sess_1",
    "toolCallId": "call_1",
    "requestedSchema": FORM,
    "_meta": META,
}
URL_REQUEST = {"mode": "url", "message": "Log in", "requestId": 12, "elicitationId": "e1", "url": "https://x.example"}
AGENT_CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True, "_meta": META},
    "mcpCapabilities": {"http": True, "sse": True, "_meta": META},
    "sessionCapabilities": {
        "list": {"_meta": META},
        "delete": {},
        "additionalDirectories": {},
        "resume": {},
        "close": {},
        "systemPrompt": {"mode": {"override": {"_meta": META}, "_meta": META}, "_meta": META},
        "fork": {"_meta": META},
        "options": {"_meta": META},
        "title": {},
        "archive": {},
        "status": {},
        "_meta": META,
    },
    "auth": {"logout": {"_meta": META}, "_meta": META},
    "_meta": META,
}
CLIENT_CAPABILITIES: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": False, "_meta": META},
    "terminal": True,
    "session": {
        "compaction": {},
        "configOptions": {"boolean": {"_meta": META}, "_meta": META},
        "notices": {},
        "_meta": META,
    },
    "auth": {"terminal": True, "_meta": META},
    "elicitation": {"form": {"_meta": META}, "url": {"_meta": META}, "_meta": META},
    "subagents": {"_meta": META},
    "_meta": META,
}
PROGRAM = {"name": "example", "title": "Example", "version": "1.2", "_meta": META}
SYSTEM_PROMPT = {"mode": "append", "content": [TEXT], "_meta": META}
INITIAL = [
    {"configId": "model", "value": "large", "_meta": META},
    {"configId": "web", "type": "boolean", "value": True},
]
MCP_SESSION = {
    "cwd": "/w",
    "additionalDirectories": ["/lib"],
    "mcpServers": [STDIO, HTTP, SSE],
    "systemPrompt": SYSTEM_PROMPT,
    "configOptions": INITIAL,
    "_meta": META,
}
USAGE = {
    "totalTokens": 9,
    "inputTokens": 5,
    "outputTokens": 4,
    "thoughtTokens": 1,
    "cachedReadTokens": 2,
    "cachedWriteTokens": 0,
    "_meta": META,
}
SESSION_STATE = {"modes": MODES, "configOptions": [SELECT, SWITCH], "_meta": META}

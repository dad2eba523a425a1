"""For every definition one or more objects as they appear on the wire. Together they use every property once."""

from typing import Any

META: dict[str, Any] = {"example.org/trace": {"id": 7, "parent": None}}
ABSENT: dict[str, Any] = {}

_TEXT = {"type": "text", "text": "Where is the parser?"}
_LINK = {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py"}
_SESSION = {"sessionId": "sess_1"}
_TERMINAL = {"sessionId": "sess_1", "terminalId": "term_1"}
_STDIO = {"name": "files", "command": "/bin/mcp", "args": ["--root", "/w"], "env": [{"name": "A", "value": ""}]}
_HTTP = {"type": "http", "name": "web", "url": "https://mcp.example/", "headers": [{"name": "X-Key", "value": "k"}]}
_SSE = {"type": "sse", "name": "old", "url": "https://sse.example/", "headers": []}
_SELECT: dict[str, Any] = {
    "type": "select",
    "id": "model",
    "name": "Model",
    "currentValue": "large",
    "options": [{"value": "large", "name": "Large"}],
}
_GROUP = {"group": "fast", "name": "Fast ones", "options": [{"value": "small", "name": "Small"}], "_meta": META}
_SWITCH: dict[str, Any] = {"type": "boolean", "id": "web", "name": "Web search", "currentValue": False}
_MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask", "description": "Asks first"}]}
_ENTRY = {"content": "Read the parser", "priority": "high", "status": "in_progress"}
_LOCATION = {"path": "/w/a.py", "line": 3}
_DIFF = {"type": "diff", "path": "/w/a.py", "oldText": "a\n", "newText": "b\n"}
_TOOL_CONTENT = [{"type": "content", "content": _TEXT}, _DIFF, {"type": "terminal", "terminalId": "term_1"}]
_TOOL_FIELDS: dict[str, Any] = {
    "toolCallId": "call_1",
    "title": "Search",
    "name": "grep",
    "kind": "search",
    "status": "completed",
    "content": _TOOL_CONTENT,
    "locations": [_LOCATION],
    "rawInput": {"pattern": "def .*", "limit": None},
    "rawOutput": [1, "two", None, {"three": 3.5}],
    "_meta": META,
}
_COMMAND = {"name": "search", "description": "Search the files", "input": {"hint": "PATTERN"}}
_AUTH_TERMINAL = {
    "type": "terminal",
    "id": "login",
    "name": "Log in",
    "description": "In a terminal",
    "args": ["login"],
    "env": {"FORCE": "1"},
    "_meta": META,
}
_AUTH_AGENT = {"id": "oauth", "name": "Browser", "description": "Opens a browser", "_meta": META}
_FORM: dict[str, Any] = {
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
_FORM_REQUEST = {
    "mode": "form",
    "message": "Where to?",
    "sessionId": "sess_1",
    "toolCallId": "call_1",
    "requestedSchema": _FORM,
    "_meta": META,
}
_URL_REQUEST = {"mode": "url", "message": "Log in", "requestId": 12, "elicitationId": "e1", "url": "https://x.example"}
_AGENT_CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True, "_meta": META},
    "mcpCapabilities": {"http": True, "sse": True, "_meta": META},
    "sessionCapabilities": {
        "list": {"_meta": META},
        "delete": {},
        "additionalDirectories": {},
        "resume": {},
        "close": {},
        "_meta": META,
    },
    "auth": {"logout": {"_meta": META}, "_meta": META},
    "_meta": META,
}
_CLIENT_CAPABILITIES: dict[str, Any] = {
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
    "_meta": META,
}
_PROGRAM = {"name": "example", "title": "Example", "version": "1.2", "_meta": META}
_MCP_SESSION = {"cwd": "/w", "additionalDirectories": ["/lib"], "mcpServers": [_STDIO, _HTTP, _SSE], "_meta": META}
_SESSION_STATE = {"modes": _MODES, "configOptions": [_SELECT, _SWITCH], "_meta": META}

CONTENT_BLOCKS: list[dict[str, Any]] = [
    _TEXT,
    {"type": "text", "text": "", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": META},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///a.png", "annotations": {}},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "annotations": {}, "_meta": META},
    {
        **_LINK,
        "title": "A",
        "description": "The parser",
        "mimeType": "text/x-python",
        "size": 120,
        "annotations": {},
        "_meta": META,
    },
    {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}, "annotations": {}, "_meta": META},
    {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk=", "mimeType": "x/y"}},
]

SESSION_UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "content": _TEXT, "messageId": "m1", "_meta": META},
    {"sessionUpdate": "agent_message_chunk", "content": _TEXT, "messageId": "m1", "_meta": META},
    {"sessionUpdate": "agent_thought_chunk", "content": _LINK, "messageId": "m1", "_meta": META},
    {"sessionUpdate": "tool_call", **_TOOL_FIELDS},
    {"sessionUpdate": "tool_call", "toolCallId": "call_2", "title": "Think"},
    {"sessionUpdate": "tool_call_update", **_TOOL_FIELDS},
    {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "content": []},
    {"sessionUpdate": "plan", "entries": [_ENTRY, {**_ENTRY, "_meta": META}], "_meta": META},
    {"sessionUpdate": "available_commands_update", "availableCommands": [_COMMAND], "_meta": META},
    {"sessionUpdate": "current_mode_update", "currentModeId": "code", "_meta": META},
    {"sessionUpdate": "config_option_update", "configOptions": [_SELECT, _SWITCH], "_meta": META},
    {"sessionUpdate": "session_info_update", "title": "Parser", "updatedAt": "2026-01-01T00:00:00Z", "_meta": META},
    {"sessionUpdate": "session_info_update", "title": None, "updatedAt": None},
    {"sessionUpdate": "session_info_update"},
    {
        "sessionUpdate": "usage_update",
        "used": 10,
        "size": 2**33,
        "cost": {"amount": 0.25, "currency": "EUR", "_meta": META},
        "_meta": META,
    },
    {"sessionUpdate": "notice", "severity": "warning", "title": "Slow", "description": "Very", "_meta": META},
    {
        "sessionUpdate": "compaction_update",
        "compactionId": "c1",
        "status": "completed",
        "summary": [_TEXT],
        "error": "none",
        "_meta": META,
    },
    {
        "sessionUpdate": "compaction_update",
        "compactionId": "c1",
        "status": "_paused",
        "summary": None,
        "error": None,
        "_meta": None,
    },
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c1", "content": _TEXT, "_meta": META},
]


def _tagged(members: list[dict[str, Any]], key: str, tag: str) -> list[dict[str, Any]]:
    return [member for member in members if member[key] == tag]


def _update(tag: str) -> list[dict[str, Any]]:
    return _tagged(SESSION_UPDATES, "sessionUpdate", tag)


def _block(tag: str) -> list[dict[str, Any]]:
    return [*_tagged(CONTENT_BLOCKS, "type", tag), {**_tagged(CONTENT_BLOCKS, "type", tag)[0], "_meta": META}]


def _untagged(example: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in example.items() if key != "sessionUpdate"}


def _field(name: str) -> dict[str, Any]:
    return _FORM["properties"][name]


_WITH_META = [{"_meta": META}, ABSENT]

EXAMPLES: dict[str, list[Any]] = {
    # content
    "Annotations": [{"audience": ["user", "assistant"], "lastModified": "2026-01-01", "priority": 1.0, "_meta": META}],
    "TextContent": _block("text"),
    "ImageContent": _block("image"),
    "AudioContent": _block("audio"),
    "ResourceLink": _block("resource_link"),
    "EmbeddedResource": _block("resource"),
    "TextResourceContents": [{"uri": "file:///a", "text": "x", "mimeType": "text/plain", "_meta": META}],
    "BlobResourceContents": [{"uri": "file:///b", "blob": "aGk=", "mimeType": "x/y", "_meta": META}],
    "EmbeddedResourceResource": [{"uri": "file:///a", "text": "x"}, {"uri": "file:///b", "blob": "aGk="}],
    "ContentBlock": CONTENT_BLOCKS,
    # plans and tool calls
    "PlanEntry": [{**_ENTRY, "_meta": META}],
    "Plan": _update("plan"),
    "Content": [{"type": "content", "content": _TEXT, "_meta": META}],
    "Diff": [{**_DIFF, "_meta": META}, {"type": "diff", "path": "/w/new", "newText": ""}],
    "Terminal": [{"type": "terminal", "terminalId": "term_1", "_meta": META}],
    "ToolCallContent": _TOOL_CONTENT,
    "ToolCallLocation": [{**_LOCATION, "_meta": META}, {"path": "/w"}],
    "ToolCall": _update("tool_call"),
    "ToolCallUpdate": [_untagged(example) for example in _update("tool_call_update")],
    "ToolCallProgress": _update("tool_call_update"),
    # MCP servers
    "EnvVariable": [{"name": "A", "value": "1", "_meta": META}],
    "HttpHeader": [{"name": "A", "value": "1", "_meta": META}],
    "McpServerStdio": [{**_STDIO, "_meta": META}, {**_STDIO, "args": [], "env": []}],
    "McpServerHttp": [{**_HTTP, "_meta": META}],
    "McpServerSse": [{**_SSE, "_meta": META}],
    "McpServer": [_STDIO, _HTTP, _SSE],
    # capabilities
    "PromptCapabilities": [_AGENT_CAPABILITIES["promptCapabilities"], ABSENT],
    "McpCapabilities": [_AGENT_CAPABILITIES["mcpCapabilities"], ABSENT],
    "SessionCapabilities": [_AGENT_CAPABILITIES["sessionCapabilities"], ABSENT],
    "SessionListCapabilities": _WITH_META,
    "SessionDeleteCapabilities": _WITH_META,
    "SessionAdditionalDirectoriesCapabilities": _WITH_META,
    "SessionResumeCapabilities": _WITH_META,
    "SessionCloseCapabilities": _WITH_META,
    "AgentAuthCapabilities": [_AGENT_CAPABILITIES["auth"], ABSENT],
    "LogoutCapabilities": _WITH_META,
    "AgentCapabilities": [_AGENT_CAPABILITIES, ABSENT],
    "FileSystemCapabilities": [_CLIENT_CAPABILITIES["fs"], ABSENT],
    "ClientSessionCapabilities": [_CLIENT_CAPABILITIES["session"], ABSENT],
    "CompactionCapabilities": [ABSENT],
    "SessionConfigOptionsCapabilities": [_CLIENT_CAPABILITIES["session"]["configOptions"], ABSENT],
    "BooleanConfigOptionCapabilities": _WITH_META,
    "NoticeCapabilities": [ABSENT],
    "AuthCapabilities": [_CLIENT_CAPABILITIES["auth"], ABSENT],
    "ElicitationCapabilities": [_CLIENT_CAPABILITIES["elicitation"], ABSENT],
    "ElicitationFormCapabilities": _WITH_META,
    "ElicitationUrlCapabilities": _WITH_META,
    "ClientCapabilities": [_CLIENT_CAPABILITIES, ABSENT],
    # initialize, authenticate, logout
    "Implementation": [_PROGRAM, {"name": "x", "version": ""}],
    "InitializeRequest": [
        {"protocolVersion": 1, "clientCapabilities": _CLIENT_CAPABILITIES, "clientInfo": _PROGRAM, "_meta": META},
        {"protocolVersion": 1},
    ],
    "InitializeResponse": [
        {
            "protocolVersion": 1,
            "agentCapabilities": _AGENT_CAPABILITIES,
            "authMethods": [_AUTH_TERMINAL, _AUTH_AGENT],
            "agentInfo": _PROGRAM,
            "_meta": META,
        },
        {"protocolVersion": 1},
    ],
    "AuthMethodTerminal": [_AUTH_TERMINAL, {"type": "terminal", "id": "a", "name": "b"}],
    "AuthMethodAgent": [_AUTH_AGENT],
    "AuthMethod": [_AUTH_TERMINAL, _AUTH_AGENT],
    "AuthenticateRequest": [{"methodId": "oauth", "_meta": META}],
    "AuthenticateResponse": _WITH_META,
    "LogoutRequest": _WITH_META,
    "LogoutResponse": _WITH_META,
    # modes and configuration options
    "SessionMode": [{"id": "ask", "name": "Ask", "description": "Asks first", "_meta": META}],
    "SessionModeState": [{**_MODES, "_meta": META}],
    "SetSessionModeRequest": [{**_SESSION, "modeId": "code", "_meta": META}],
    "SetSessionModeResponse": _WITH_META,
    "SessionConfigSelectOption": [{"value": "a", "name": "A", "description": "First", "_meta": META}],
    "SessionConfigSelectGroup": [_GROUP],
    "SessionConfigSelectOptions": [[], [{"value": "a", "name": "A"}], [_GROUP]],
    "SessionConfigSelect": [
        {**_SELECT, "description": "Which", "category": "model", "_meta": META},
        {**_SELECT, "options": [_GROUP]},
    ],
    "SessionConfigBoolean": [{**_SWITCH, "description": "Look it up", "category": "_mine", "_meta": META}],
    "SessionConfigOption": [_SELECT, _SWITCH],
    "SetSessionConfigOptionRequest": [
        {**_SESSION, "configId": "model", "value": "large", "_meta": META},
        {**_SESSION, "configId": "web", "type": "boolean", "value": True},
    ],
    "SetSessionConfigOptionResponse": [{"configOptions": [_SELECT, _SWITCH], "_meta": META}],
    # sessions
    "NewSessionRequest": [_MCP_SESSION, {"cwd": "/w", "mcpServers": []}],
    "NewSessionResponse": [{**_SESSION, **_SESSION_STATE}, _SESSION],
    "LoadSessionRequest": [{**_SESSION, **_MCP_SESSION}],
    "LoadSessionResponse": [_SESSION_STATE, ABSENT],
    "ResumeSessionRequest": [{**_SESSION, **_MCP_SESSION}, {**_SESSION, "cwd": "/w"}],
    "ResumeSessionResponse": [_SESSION_STATE, ABSENT],
    "ListSessionsRequest": [{"cwd": "/w", "cursor": "2", "_meta": META}, ABSENT],
    "SessionInfo": [
        {
            **_SESSION,
            "cwd": "/w",
            "additionalDirectories": ["/lib"],
            "title": "Parser",
            "updatedAt": "2026-01-01T00:00:00Z",
            "_meta": META,
        }
    ],
    "ListSessionsResponse": [{"sessions": [{**_SESSION, "cwd": "/w"}], "nextCursor": "3", "_meta": META}],
    "CloseSessionRequest": [{**_SESSION, "_meta": META}],
    "CloseSessionResponse": _WITH_META,
    "DeleteSessionRequest": [{**_SESSION, "_meta": META}],
    "DeleteSessionResponse": _WITH_META,
    # turns
    "PromptRequest": [{**_SESSION, "prompt": CONTENT_BLOCKS, "_meta": META}, {**_SESSION, "prompt": []}],
    "PromptResponse": [{"stopReason": "end_turn", "_meta": META}],
    "CancelNotification": [{**_SESSION, "_meta": META}],
    "CancelRequestNotification": [{"requestId": 7, "_meta": META}, {"requestId": "7"}, {"requestId": None}],
    # updates
    "ContentChunk": [_untagged(_update("agent_message_chunk")[0])],
    "UserMessageChunk": _update("user_message_chunk"),
    "AgentMessageChunk": _update("agent_message_chunk"),
    "AgentThoughtChunk": _update("agent_thought_chunk"),
    "UnstructuredCommandInput": [{"hint": "PATTERN", "_meta": META}],
    "AvailableCommandInput": [{"hint": "PATTERN"}],
    "AvailableCommand": [{**_COMMAND, "_meta": META}, {"name": "help", "description": "Help"}],
    "AvailableCommandsUpdate": _update("available_commands_update"),
    "CurrentModeUpdate": _update("current_mode_update"),
    "ConfigOptionUpdate": _update("config_option_update"),
    "SessionInfoUpdate": _update("session_info_update"),
    "Cost": [{"amount": 0.25, "currency": "EUR", "_meta": META}],
    "UsageUpdate": _update("usage_update"),
    "Notice": _update("notice"),
    "CompactionUpdate": _update("compaction_update"),
    "CompactionSummaryChunk": _update("compaction_summary_chunk"),
    "SessionUpdate": SESSION_UPDATES,
    "SessionNotification": [{**_SESSION, "update": update, "_meta": META} for update in SESSION_UPDATES],
    # files and terminals
    "ReadTextFileRequest": [{**_SESSION, "path": "/w/a", "line": 1, "limit": 20, "_meta": META}],
    "ReadTextFileResponse": [{"content": "", "_meta": META}],
    "WriteTextFileRequest": [{**_SESSION, "path": "/w/a", "content": "x\n", "_meta": META}],
    "WriteTextFileResponse": _WITH_META,
    "CreateTerminalRequest": [
        {
            **_SESSION,
            "command": "make",
            "args": ["test"],
            "env": [{"name": "A", "value": "1"}],
            "cwd": "/w",
            "outputByteLimit": 2**40,
            "_meta": META,
        },
        {**_SESSION, "command": "ls"},
    ],
    "CreateTerminalResponse": [{"terminalId": "term_1", "_meta": META}],
    "TerminalOutputRequest": [{**_TERMINAL, "_meta": META}],
    "TerminalExitStatus": [{"exitCode": 0, "signal": "KILL", "_meta": META}, {"signal": "KILL"}],
    "TerminalOutputResponse": [
        {"output": "ok", "truncated": False, "exitStatus": {"exitCode": 0}, "_meta": META},
        {"output": "", "truncated": True},
    ],
    "WaitForTerminalExitRequest": [{**_TERMINAL, "_meta": META}],
    "WaitForTerminalExitResponse": [{"exitCode": 2, "signal": "TERM", "_meta": META}, {"exitCode": 0}],
    "KillTerminalRequest": [{**_TERMINAL, "_meta": META}],
    "KillTerminalResponse": _WITH_META,
    "ReleaseTerminalRequest": [{**_TERMINAL, "_meta": META}],
    "ReleaseTerminalResponse": _WITH_META,
    # permission
    "PermissionOption": [{"optionId": "yes", "name": "Yes", "kind": "allow_once", "_meta": META}],
    "RequestPermissionRequest": [
        {
            **_SESSION,
            "toolCall": _TOOL_FIELDS,
            "options": [{"optionId": "no", "name": "Never", "kind": "reject_always"}],
            "_meta": META,
        }
    ],
    "SelectedPermissionOutcome": [{"outcome": "selected", "optionId": "yes", "_meta": META}],
    "CancelledPermissionOutcome": [{"outcome": "cancelled"}],
    "RequestPermissionOutcome": [{"outcome": "cancelled"}, {"outcome": "selected", "optionId": "yes"}],
    "RequestPermissionResponse": [{"outcome": {"outcome": "cancelled"}, "_meta": META}],
    # elicitation
    "EnumOption": [{"const": "s", "title": "Small", "description": "A few", "_meta": META}],
    "StringPropertySchema": [
        {**_field("host"), "_meta": META},
        _field("date"),
        _field("colour"),
        _field("size"),
    ],
    "NumberPropertySchema": [{**_field("load"), "title": "Load", "description": "Relative", "_meta": META}],
    "IntegerPropertySchema": [{**_field("count"), "description": "How many", "_meta": META}],
    "BooleanPropertySchema": [{**_field("dry"), "_meta": META}],
    "StringMultiSelectItems": [{"type": "string", "enum": ["a"], "_meta": META}],
    "TitledMultiSelectItems": [{"anyOf": [{"const": "a", "title": "A"}], "_meta": META}],
    "MultiSelectItems": [{"type": "string", "enum": ["a"]}, {"anyOf": [{"const": "a", "title": "A"}]}],
    "MultiSelectPropertySchema": [
        {**_field("tags"), "title": "Tags", "description": "Some", "_meta": META},
        _field("zones"),
    ],
    "ElicitationPropertySchema": list(_FORM["properties"].values()),
    "ElicitationSchema": [_FORM, {"type": "object", "properties": {}}],
    "ElicitationSessionScope": [{**_SESSION, "toolCallId": "call_1"}, _SESSION],
    "ElicitationRequestScope": [{"requestId": 3}, {"requestId": None}],
    "ElicitationFormMode": [_FORM_REQUEST, {**_URL_REQUEST, "mode": "form", "requestedSchema": _FORM}],
    "ElicitationUrlMode": [_URL_REQUEST, {**_URL_REQUEST, "requestId": None, "_meta": META}],
    "CreateElicitationRequest": [_FORM_REQUEST, _URL_REQUEST],
    "ElicitationAcceptAction": [
        {"action": "accept", "content": {"a": "b", "c": 1, "d": 1.5, "e": True, "f": ["g"]}, "_meta": META},
        {"action": "accept"},
    ],
    "ElicitationDeclineAction": [{"action": "decline", "_meta": META}],
    "ElicitationCancelAction": [{"action": "cancel", "_meta": META}],
    "CreateElicitationResponse": [{"action": "accept", "content": {}}, {"action": "decline"}, {"action": "cancel"}],
    "CompleteElicitationNotification": [{"elicitationId": "e1", "_meta": META}],
    # errors
    "Error": [{"code": -32602, "message": "Invalid params", "data": {"at": None}}, {"code": 7, "message": ""}],
}

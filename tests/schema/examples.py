"""For every definition one or more objects as they appear on the wire. Together they use every property once."""

from typing import Any

from tests.schema.fragments import (
    ABSENT,
    AGENT_CAPABILITIES,
    AUTH_AGENT,
    AUTH_TERMINAL,
    CLIENT_CAPABILITIES,
    COMMAND,
    DIFF,
    ENTRY,
    FORM,
    FORM_REQUEST,
    GROUP,
    HTTP,
    LINK,
    LOCATION,
    MCP_SESSION,
    META,
    MODES,
    PROGRAM,
    SELECT,
    SESSION,
    SESSION_STATE,
    SSE,
    STDIO,
    SWITCH,
    SYSTEM_PROMPT,
    TERMINAL,
    TEXT,
    TOOL_CONTENT,
    TOOL_FIELDS,
    URL_REQUEST,
    USAGE,
)

CONTENT_BLOCKS: list[dict[str, Any]] = [
    TEXT,
    {"type": "text", "text": "", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": META},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///a.png", "annotations": {}},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "annotations": {}, "_meta": META},
    {
        **LINK,
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
    {"sessionUpdate": "user_message_chunk", "content": TEXT, "messageId": "m1", "_meta": META},
    {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m1", "_meta": META},
    {"sessionUpdate": "agent_thought_chunk", "content": LINK, "messageId": "m1", "_meta": META},
    {"sessionUpdate": "tool_call", **TOOL_FIELDS},
    {"sessionUpdate": "tool_call", "toolCallId": "call_2", "title": "Think"},
    {"sessionUpdate": "tool_call_update", **TOOL_FIELDS},
    {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "content": []},
    {"sessionUpdate": "plan", "entries": [ENTRY, {**ENTRY, "_meta": META}], "_meta": META},
    {"sessionUpdate": "available_commands_update", "availableCommands": [COMMAND], "_meta": META},
    {"sessionUpdate": "current_mode_update", "currentModeId": "code", "_meta": META},
    {"sessionUpdate": "config_option_update", "configOptions": [SELECT, SWITCH], "_meta": META},
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
        "summary": [TEXT],
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
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c1", "content": TEXT, "_meta": META},
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
    return FORM["properties"][name]


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
    "PlanEntry": [{**ENTRY, "_meta": META}],
    "Plan": _update("plan"),
    "Content": [{"type": "content", "content": TEXT, "_meta": META}],
    "Diff": [{**DIFF, "_meta": META}, {"type": "diff", "path": "/w/new", "newText": ""}],
    "Terminal": [{"type": "terminal", "terminalId": "term_1", "_meta": META}],
    "ToolCallContent": TOOL_CONTENT,
    "ToolCallLocation": [{**LOCATION, "_meta": META}, {"path": "/w"}],
    "ToolCall": _update("tool_call"),
    "ToolCallUpdate": [_untagged(example) for example in _update("tool_call_update")],
    "ToolCallProgress": _update("tool_call_update"),
    # MCP servers
    "EnvVariable": [{"name": "A", "value": "1", "_meta": META}],
    "HttpHeader": [{"name": "A", "value": "1", "_meta": META}],
    "McpServerStdio": [{**STDIO, "_meta": META}, {**STDIO, "args": [], "env": []}],
    "McpServerHttp": [{**HTTP, "_meta": META}],
    "McpServerSse": [{**SSE, "_meta": META}],
    "McpServer": [STDIO, HTTP, SSE],
    # capabilities
    "PromptCapabilities": [AGENT_CAPABILITIES["promptCapabilities"], ABSENT],
    "McpCapabilities": [AGENT_CAPABILITIES["mcpCapabilities"], ABSENT],
    "SessionCapabilities": [AGENT_CAPABILITIES["sessionCapabilities"], ABSENT],
    "SessionListCapabilities": _WITH_META,
    "SessionDeleteCapabilities": _WITH_META,
    "SessionAdditionalDirectoriesCapabilities": _WITH_META,
    "SessionResumeCapabilities": _WITH_META,
    "SessionCloseCapabilities": _WITH_META,
    "SessionSystemPromptCapabilities": [{"mode": {"override": {}}, "_meta": META}, ABSENT],
    "SessionSystemPromptModeCapabilities": [{"override": {}, "_meta": META}, ABSENT],
    "SessionSystemPromptOverrideCapabilities": _WITH_META,
    "SessionForkCapabilities": _WITH_META,
    "SessionTitleCapabilities": _WITH_META,
    "SessionArchiveCapabilities": _WITH_META,
    "SessionStatusCapabilities": _WITH_META,
    "AgentAuthCapabilities": [AGENT_CAPABILITIES["auth"], ABSENT],
    "LogoutCapabilities": _WITH_META,
    "AgentCapabilities": [AGENT_CAPABILITIES, ABSENT],
    "FileSystemCapabilities": [CLIENT_CAPABILITIES["fs"], ABSENT],
    "ClientSessionCapabilities": [CLIENT_CAPABILITIES["session"], ABSENT],
    "CompactionCapabilities": [ABSENT],
    "SessionConfigOptionsCapabilities": [CLIENT_CAPABILITIES["session"]["configOptions"], ABSENT],
    "BooleanConfigOptionCapabilities": _WITH_META,
    "NoticeCapabilities": [ABSENT],
    "AuthCapabilities": [CLIENT_CAPABILITIES["auth"], ABSENT],
    "ElicitationCapabilities": [CLIENT_CAPABILITIES["elicitation"], ABSENT],
    "ElicitationFormCapabilities": _WITH_META,
    "ElicitationUrlCapabilities": _WITH_META,
    "ClientCapabilities": [CLIENT_CAPABILITIES, ABSENT],
    # initialize, authenticate, logout
    "Implementation": [PROGRAM, {"name": "x", "version": ""}],
    "InitializeRequest": [
        {"protocolVersion": 1, "clientCapabilities": CLIENT_CAPABILITIES, "clientInfo": PROGRAM, "_meta": META},
        {"protocolVersion": 1},
    ],
    "InitializeResponse": [
        {
            "protocolVersion": 1,
            "agentCapabilities": AGENT_CAPABILITIES,
            "authMethods": [AUTH_TERMINAL, AUTH_AGENT],
            "agentInfo": PROGRAM,
            "_meta": META,
        },
        {"protocolVersion": 1},
    ],
    "AuthMethodTerminal": [AUTH_TERMINAL, {"type": "terminal", "id": "a", "name": "b"}],
    "AuthMethodAgent": [AUTH_AGENT],
    "AuthMethod": [AUTH_TERMINAL, AUTH_AGENT],
    "AuthenticateRequest": [{"methodId": "oauth", "_meta": META}],
    "AuthenticateResponse": _WITH_META,
    "LogoutRequest": _WITH_META,
    "LogoutResponse": _WITH_META,
    # modes and configuration options
    "SessionMode": [{"id": "ask", "name": "Ask", "description": "Asks first", "_meta": META}],
    "SessionModeState": [{**MODES, "_meta": META}],
    "SetSessionModeRequest": [{**SESSION, "modeId": "code", "_meta": META}],
    "SetSessionModeResponse": _WITH_META,
    "SessionConfigSelectOption": [{"value": "a", "name": "A", "description": "First", "_meta": META}],
    "SessionConfigSelectGroup": [GROUP],
    "SessionConfigSelectOptions": [[], [{"value": "a", "name": "A"}], [GROUP]],
    "SessionConfigSelect": [
        {**SELECT, "description": "Which", "category": "model", "_meta": META},
        {**SELECT, "options": [GROUP]},
    ],
    "SessionConfigBoolean": [{**SWITCH, "description": "Look it up", "category": "_mine", "_meta": META}],
    "SessionConfigOption": [SELECT, SWITCH],
    "SetSessionConfigOptionRequest": [
        {**SESSION, "configId": "model", "value": "large", "_meta": META},
        {**SESSION, "configId": "web", "type": "boolean", "value": True},
    ],
    "SetSessionConfigOptionResponse": [{"configOptions": [SELECT, SWITCH], "_meta": META}],
    # sessions
    "NewSessionRequest": [MCP_SESSION, {"cwd": "/w", "mcpServers": []}],
    "NewSessionResponse": [{**SESSION, **SESSION_STATE}, SESSION],
    "LoadSessionRequest": [{**SESSION, **MCP_SESSION}],
    "LoadSessionResponse": [SESSION_STATE, ABSENT],
    "ResumeSessionRequest": [{**SESSION, **MCP_SESSION}, {**SESSION, "cwd": "/w"}],
    "ResumeSessionResponse": [SESSION_STATE, ABSENT],
    "SystemPrompt": [SYSTEM_PROMPT, {"mode": "override", "content": [TEXT]}],
    "ForkSessionRequest": [{**SESSION, **MCP_SESSION}, {**SESSION, "cwd": "/w"}],
    "ForkSessionResponse": [{**SESSION, **SESSION_STATE}, SESSION],
    "ListSessionsRequest": [{"cwd": "/w", "cursor": "2", "archived": "only", "_meta": META}, ABSENT],
    "SetSessionTitleRequest": [{**SESSION, "title": "Parser", "_meta": META}],
    "SetSessionTitleResponse": [{"title": "Parser", "_meta": META}],
    "ArchiveSessionRequest": [{**SESSION, "_meta": META}],
    "ArchiveSessionResponse": _WITH_META,
    "UnarchiveSessionRequest": [{**SESSION, "_meta": META}],
    "UnarchiveSessionResponse": _WITH_META,
    "SessionStatusRequest": [{**SESSION, "_meta": META}],
    "SessionStatusResponse": [{"status": "open", "_meta": META}, {"status": "saved"}],
    "SessionInfo": [
        {
            **SESSION,
            "cwd": "/w",
            "additionalDirectories": ["/lib"],
            "title": "Parser",
            "updatedAt": "2026-01-01T00:00:00Z",
            "archived": False,
            "_meta": META,
        }
    ],
    "ListSessionsResponse": [{"sessions": [{**SESSION, "cwd": "/w"}], "nextCursor": "3", "_meta": META}],
    "CloseSessionRequest": [{**SESSION, "_meta": META}],
    "CloseSessionResponse": _WITH_META,
    "DeleteSessionRequest": [{**SESSION, "_meta": META}],
    "DeleteSessionResponse": _WITH_META,
    # turns
    "PromptRequest": [{**SESSION, "prompt": CONTENT_BLOCKS, "_meta": META}, {**SESSION, "prompt": []}],
    "PromptResponse": [{"stopReason": "end_turn", "usage": USAGE, "_meta": META}],
    "Usage": [USAGE, {"totalTokens": 2**40, "inputTokens": 1, "outputTokens": 0}],
    "CancelNotification": [{**SESSION, "_meta": META}],
    "CancelRequestNotification": [{"requestId": 7, "_meta": META}, {"requestId": "7"}, {"requestId": None}],
    # updates
    "ContentChunk": [_untagged(_update("agent_message_chunk")[0])],
    "UserMessageChunk": _update("user_message_chunk"),
    "AgentMessageChunk": _update("agent_message_chunk"),
    "AgentThoughtChunk": _update("agent_thought_chunk"),
    "UnstructuredCommandInput": [{"hint": "PATTERN", "_meta": META}],
    "AvailableCommandInput": [{"hint": "PATTERN"}],
    "AvailableCommand": [{**COMMAND, "_meta": META}, {"name": "help", "description": "Help"}],
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
    "SessionNotification": [{**SESSION, "update": update, "_meta": META} for update in SESSION_UPDATES],
    # files and terminals
    "ReadTextFileRequest": [{**SESSION, "path": "/w/a", "line": 1, "limit": 20, "_meta": META}],
    "ReadTextFileResponse": [{"content": "", "_meta": META}],
    "WriteTextFileRequest": [{**SESSION, "path": "/w/a", "content": "x\n", "_meta": META}],
    "WriteTextFileResponse": _WITH_META,
    "CreateTerminalRequest": [
        {
            **SESSION,
            "command": "make",
            "args": ["test"],
            "env": [{"name": "A", "value": "1"}],
            "cwd": "/w",
            "outputByteLimit": 2**40,
            "_meta": META,
        },
        {**SESSION, "command": "ls"},
    ],
    "CreateTerminalResponse": [{"terminalId": "term_1", "_meta": META}],
    "TerminalOutputRequest": [{**TERMINAL, "_meta": META}],
    "TerminalExitStatus": [{"exitCode": 0, "signal": "KILL", "_meta": META}, {"signal": "KILL"}],
    "TerminalOutputResponse": [
        {"output": "ok", "truncated": False, "exitStatus": {"exitCode": 0}, "_meta": META},
        {"output": "", "truncated": True},
    ],
    "WaitForTerminalExitRequest": [{**TERMINAL, "_meta": META}],
    "WaitForTerminalExitResponse": [{"exitCode": 2, "signal": "TERM", "_meta": META}, {"exitCode": 0}],
    "KillTerminalRequest": [{**TERMINAL, "_meta": META}],
    "KillTerminalResponse": _WITH_META,
    "ReleaseTerminalRequest": [{**TERMINAL, "_meta": META}],
    "ReleaseTerminalResponse": _WITH_META,
    # permission
    "PermissionOption": [{"optionId": "yes", "name": "Yes", "kind": "allow_once", "_meta": META}],
    "RequestPermissionRequest": [
        {
            **SESSION,
            "toolCall": TOOL_FIELDS,
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
    "ElicitationPropertySchema": list(FORM["properties"].values()),
    "ElicitationSchema": [FORM, {"type": "object", "properties": {}}],
    "ElicitationSessionScope": [{**SESSION, "toolCallId": "call_1"}, SESSION],
    "ElicitationRequestScope": [{"requestId": 3}, {"requestId": None}],
    "ElicitationFormMode": [FORM_REQUEST, {**URL_REQUEST, "mode": "form", "requestedSchema": FORM}],
    "ElicitationUrlMode": [URL_REQUEST, {**URL_REQUEST, "requestId": None, "_meta": META}],
    "CreateElicitationRequest": [FORM_REQUEST, URL_REQUEST],
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

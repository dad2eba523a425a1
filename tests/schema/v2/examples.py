"""For every definition of version 2 one or more objects as they appear on the wire. Every property is used."""

from typing import Any

from acp_server import schema
from acp_server.schema import v2
from tests.schema import examples as v1
from tests.schema.v2.fragments import (
    ABSENT,
    AGENT,
    BACKGROUND,
    BLOCKS,
    CHANGES,
    CHUNK,
    CLIENT,
    COMMANDS,
    ERROR,
    GROUP,
    ICON,
    META,
    METHODS,
    OPTIONS,
    OUTPUTS,
    PAIR,
    PATCH,
    PATH,
    PLAN,
    PROGRAM,
    PROMPT_CAPABILITIES,
    READY,
    SERVERS,
    SESSION,
    SESSION_CAPABILITIES,
    SETTINGS,
    SETUP,
    STATUS,
    TOOL_CALLS,
    UPDATES,
    VALUE,
)

SUBJECTS = [
    {"type": "tool_call", "toolCall": TOOL_CALLS[0], "_meta": META},
    {
        "type": "command",
        "command": "make",
        "cwd": "/w",
        "toolCallId": "call_1",
        "terminalId": "term_1",
        "_meta": META,
    },
]
CHOICE = {"optionId": "yes", "name": "Yes", "kind": "allow_once", "_meta": META}
OUTCOMES = [{"outcome": "selected", "optionId": "yes", "_meta": META}, {"outcome": "cancelled", "_meta": META}]
FORM: dict[str, Any] = {
    "type": "object",
    "title": "Key",
    "description": "For the registry",
    "properties": {
        "key": {
            "type": "string",
            "title": "Key",
            "description": "A key",
            "minLength": 1,
            "maxLength": 9,
            "pattern": "^k",
            "format": "_key",
            "default": "k",
            "_meta": META,
        },
        "one": {
            "type": "string",
            "enum": ["a"],
            "oneOf": [{"const": "a", "title": "A", "description": "d", "_meta": META}],
        },
        **v1.EXAMPLES["ElicitationSchema"][0]["properties"],
    },
    "required": ["key"],
    "_meta": META,
}
QUESTIONS: list[dict[str, Any]] = [
    {"mode": "form", **SESSION, "toolCallId": "call_1", "message": "Key?", "requestedSchema": FORM, "_meta": META},
    {
        "mode": "url",
        "requestId": 7,
        "message": "Log in",
        "elicitationId": "e1",
        "url": "https://x.example/",
        "_meta": META,
    },
]
ANSWERS: list[dict[str, Any]] = [
    {"action": "accept", "content": {"key": "k", "n": 1.5, "of_tomorrow": {"a": [None]}}, "_meta": META},
    {"action": "decline", "_meta": META},
    {"action": "cancel", "_meta": META},
]
EMPTY = [{"_meta": META}, ABSENT]

# The types that are as in version 1 have their examples there.
SHARED = [name for name in v1.EXAMPLES if v2.area_of(name) and getattr(v2, name) is getattr(schema, name)]

EXAMPLES: dict[str, list[Any]] = {
    **{name: v1.EXAMPLES[name] for name in SHARED},
    **UPDATES,
    "SessionUpdate": [example for examples in UPDATES.values() for example in examples],
    "UpdateSessionNotification": [{**SESSION, "update": UPDATES["UserMessage"][0], "_meta": META}],
    "AgentAuthCapabilities": EMPTY,
    "AgentCapabilities": [AGENT, ABSENT],
    "Annotations": [{"audience": ["user", "_me"], "lastModified": "2026", "priority": 1.0, "_meta": META}],
    "AuthMethod": METHODS,
    "AuthMethodAgent": METHODS[:1],
    "AuthMethodTerminal": METHODS[1:],
    "AvailableCommand": COMMANDS,
    "AvailableCommandInput": [COMMANDS[1]["input"]],
    "BackgroundTerminal": BACKGROUND[:1],
    "BackgroundToolCall": BACKGROUND[1:],
    "BackgroundWork": BACKGROUND,
    "CancelRequestNotification": [{"requestId": "a", "_meta": META}, {"requestId": 7}],
    "CancelSessionNotification": [{**SESSION, "_meta": META}],
    "CancelTerminalRequest": [{**SESSION, "terminalId": "term_1", "_meta": META}],
    "CancelTerminalResponse": EMPTY,
    "CancelToolCallRequest": [{**SESSION, "toolCallId": "call_1", "_meta": META}],
    "CancelToolCallResponse": EMPTY,
    "CancelledPermissionOutcome": OUTCOMES[1:],
    "ClientAuthCapabilities": [CLIENT["auth"], ABSENT],
    "ClientCapabilities": [CLIENT, ABSENT],
    "Command": COMMANDS,
    "CommandPermissionSubject": SUBJECTS[1:],
    "Content": OUTPUTS[:1],
    "ContentBlock": BLOCKS,
    **{
        name: [block for block in BLOCKS if block["type"] == tag]
        for name, tag in {
            "TextContent": "text",
            "ImageContent": "image",
            "AudioContent": "audio",
            "ResourceLink": "resource_link",
            "EmbeddedResource": "resource",
        }.items()
    },
    "ContentChunk": [CHUNK],
    "CreateElicitationRequest": QUESTIONS,
    "CreateElicitationResponse": ANSWERS,
    "Diff": OUTPUTS[1:2],
    "DiffChange": CHANGES,
    "DiffAdd": CHANGES[:1],
    "DiffDelete": CHANGES[1:2],
    "DiffModify": [{**PATH, "operation": "modify"}],
    "DiffMove": CHANGES[3:4],
    "DiffCopy": CHANGES[4:],
    "DiffPatch": [PATCH],
    "DiffPathChange": [PATH],
    "DiffPathPairChange": [PAIR],
    "ElicitationAcceptAction": ANSWERS[:1],
    "ElicitationFormMode": QUESTIONS[:1],
    "ElicitationPropertySchema": list(FORM["properties"].values()),
    "ElicitationRequestScope": [{"requestId": "a"}],
    "ElicitationSchema": [FORM],
    "ElicitationUrlMode": QUESTIONS[1:],
    "EmbeddedResourceResource": [{"uri": "file:///a", "text": ""}, {"uri": "file:///b", "blob": "aGk="}],
    "Error": [ERROR, {"code": -32002, "message": "m", "data": SESSION}, {"code": 1, "message": "m", "data": [1]}],
    "Icon": [ICON],
    "InitializeRequest": [
        {"protocolVersion": 2, "info": PROGRAM, "capabilities": CLIENT, "_meta": META},
        {"protocolVersion": 2, "info": {"name": "e", "version": "1"}},
    ],
    "InitializeResponse": [
        {"protocolVersion": 2, "info": PROGRAM, "capabilities": AGENT, "authMethods": METHODS, "_meta": META}
    ],
    "ListSessionsRequest": [{"cwd": "/w", "cursor": "2", "_meta": META}, ABSENT],
    "ListSessionsResponse": [
        {
            "sessions": [
                {
                    **SESSION,
                    "cwd": "/w",
                    "additionalDirectories": ["/x"],
                    "title": "Parser",
                    "updatedAt": "2026-01-01T00:00:00Z",
                    "_meta": META,
                }
            ],
            "nextCursor": "3",
            "_meta": META,
        }
    ],
    "LoginAuthRequest": [{"methodId": "web", "_meta": META}],
    "LoginAuthResponse": EMPTY,
    "LogoutAuthRequest": EMPTY,
    "LogoutAuthResponse": EMPTY,
    "McpCapabilities": [SESSION_CAPABILITIES["mcp"]],
    "McpHttpCapabilities": EMPTY,
    "McpServer": SERVERS,
    "McpServerHttp": SERVERS[2:],
    "McpServerStdio": SERVERS[:2],
    "McpStdioCapabilities": EMPTY,
    "NewSessionRequest": [SETUP, {"cwd": "/w"}],
    "NewSessionResponse": [{**SESSION, **READY}, SESSION],
    "PermissionOption": [CHOICE],
    "PlanEntry": PLAN["entries"],
    "PlanItems": [PLAN],
    "PlanUpdateContent": [PLAN],
    "PromptAudioCapabilities": EMPTY,
    "PromptCapabilities": [PROMPT_CAPABILITIES],
    "PromptEmbeddedContextCapabilities": EMPTY,
    "PromptImageCapabilities": EMPTY,
    "PromptRequest": [{**SESSION, "prompt": BLOCKS, "_meta": META}],
    "PromptResponse": [{"messageId": "m1", "_meta": META}],
    "ReplayFrom": [{"type": "start", "_meta": META}],
    "ReplayFromStart": [{"type": "start", "_meta": META}],
    "RequestPermissionOutcome": OUTCOMES,
    "RequestPermissionRequest": [
        {**SESSION, "title": "Run?", "description": "It may", "subject": subject, "options": [CHOICE], "_meta": META}
        for subject in SUBJECTS
    ],
    "RequestPermissionResponse": [{"outcome": outcome, "_meta": META} for outcome in OUTCOMES],
    "RequestPermissionSubject": SUBJECTS,
    "ResumeSessionRequest": [{**SESSION, **SETUP, "replayFrom": {"type": "start"}}, {**SESSION, "cwd": "/w"}],
    "ResumeSessionResponse": [READY, ABSENT],
    "SessionCapabilities": [SESSION_CAPABILITIES, ABSENT],
    "SessionConfigBoolean": OPTIONS[2:],
    "SessionConfigOption": OPTIONS,
    "SessionConfigSelect": OPTIONS[:2],
    "SessionConfigSelectGroup": [GROUP],
    "SessionConfigSelectOptions": [[VALUE], [GROUP]],
    "SessionNotFoundErrorData": [{**SESSION, "_meta": META}],
    "SetSessionConfigBoolean": SETTINGS[1:],
    "SetSessionConfigOptionRequest": SETTINGS,
    "SetSessionConfigOptionResponse": [{"configOptions": OPTIONS, "_meta": META}],
    "SetSessionConfigValue": SETTINGS[:1],
    "StringPropertySchema": [{**FORM["properties"]["key"], **FORM["properties"]["one"]}],
    "Terminal": OUTPUTS[2:],
    "TerminalAuthCapabilities": EMPTY,
    "TerminalCancelCapabilities": EMPTY,
    "TerminalCapabilities": [{"cancel": ABSENT, "_meta": META}, ABSENT],
    "TerminalExitStatus": [STATUS, ABSENT],
    "TerminalOutput": [{"data": "aGk=", "_meta": META}],
    "TerminalSize": [{"cols": 1, "rows": 65535, "_meta": META}],
    "TextCommandInput": [COMMANDS[1]["input"]],
    "TextResourceContents": [{"uri": "file:///a", "text": "", "mimeType": "text/plain", "_meta": META}],
    "BlobResourceContents": [{"uri": "file:///a", "blob": "aGk=", "mimeType": "x/y", "_meta": META}],
    "ToolCallCancelCapabilities": EMPTY,
    "ToolCallCapabilities": [{"cancel": ABSENT, "_meta": META}, ABSENT],
    "ToolCallContent": OUTPUTS,
    "ToolCallLocation": [{"path": "/w/a.py", "line": 1, "_meta": META}],
    "ToolCallPermissionSubject": SUBJECTS[:1],
    "ToolCallUpdate": TOOL_CALLS,
    "SessionInfo": [],
    "UnsupportedProtocolVersionErrorData": [{"requested": 0, "supported": [1, 2], "_meta": META}],
}
EXAMPLES["SessionInfo"] = EXAMPLES["ListSessionsResponse"][0]["sessions"]
EXAMPLES["ErrorData"] = [*EXAMPLES["UnsupportedProtocolVersionErrorData"], *EXAMPLES["SessionNotFoundErrorData"]]

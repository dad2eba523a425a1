"""Where the types of this library differ from a published schema on purpose, and why."""

from collections.abc import Mapping

from acp_server.schema.features import FEATURES, PUBLISHED

TAG = "the tag is part of the class here, and of the union around it there; the unions are compared whole"
MEMBER = "has the fields here that stand beside the union there; the union is compared whole"
RAW = "what an unknown member holds is not looked into"

STATE = "one class with an open enumeration here, a class for each state and stop reason there; compared below"

TOLERATED_V1: dict[tuple[str, str], str] = {
    **{
        (name, f"object.{part}.{tag}"): TAG
        for tag, names in {
            "type": (
                "TextContent ImageContent AudioContent ResourceLink EmbeddedResource Content Diff Terminal "
                "McpServerHttp McpServerSse AuthMethodTerminal StringPropertySchema NumberPropertySchema "
                "IntegerPropertySchema BooleanPropertySchema MultiSelectPropertySchema StringMultiSelectItems"
            ),
            "sessionUpdate": (
                "ToolCall Plan AvailableCommandsUpdate CurrentModeUpdate ConfigOptionUpdate SessionInfoUpdate "
                "UsageUpdate Notice CompactionUpdate CompactionSummaryChunk SubagentUpdate SessionMessage "
                "SessionMessageChunk"
            ),
            "outcome": "SelectedPermissionOutcome",
            "action": "ElicitationAcceptAction",
        }.items()
        for name in names.split()
        for part in ("properties", "required")
    },
    ("SessionConfigSelect", ""): MEMBER,
    ("SessionConfigBoolean", ""): MEMBER,
    ("ElicitationFormMode", ""): MEMBER,
    ("ElicitationUrlMode", ""): MEMBER,
    ("ElicitationAcceptAction", "object.properties._meta"): MEMBER,
    ("CreateElicitationRequest", "object()"): RAW,
    ("CreateElicitationRequest", "object(: message, mode, requestId)"): RAW,
    ("CreateElicitationRequest", "object(: message, mode, sessionId)"): RAW,
    ("CreateElicitationResponse", "object().properties._meta"): RAW,
    ("SubagentUpdate", "object.properties.state"): STATE,
}
"""The differences that are meant: where, and why. An entry covers everything inside the place it names."""

ALONE_V1 = {
    "UserMessageChunk": "ContentChunk with its tag",
    "AgentMessageChunk": "ContentChunk with its tag",
    "AgentThoughtChunk": "ContentChunk with its tag",
    "ToolCallProgress": "ToolCallUpdate with its tag",
    "CancelledPermissionOutcome": "has no name there",
    "ElicitationDeclineAction": "has no name there",
    "ElicitationCancelAction": "has no name there",
    **dict.fromkeys(("SubagentActivity", "SubagentState", "SubagentStopReason"), STATE),
}
"""Definitions that the published schema does not have, and why."""

# Version 2.

TAGGED = {
    "type": (
        "TextContent ImageContent AudioContent ResourceLink EmbeddedResource Content Diff Terminal McpServerHttp "
        "McpServerStdio AuthMethodTerminal AuthMethodAgent StringPropertySchema NumberPropertySchema "
        "IntegerPropertySchema BooleanPropertySchema MultiSelectPropertySchema StringMultiSelectItems "
        "BackgroundTerminal BackgroundToolCall BackgroundSubagent Command TextCommandInput CommandPermissionSubject "
        "ToolCallPermissionSubject PlanItems ReplayFromStart"
    ),
    "sessionUpdate": (
        "UserMessage AgentMessage AgentThought ToolCallContentChunk TerminalUpdate TerminalOutputChunk PlanUpdate "
        "AvailableCommandsUpdate ConfigOptionUpdate SessionInfoUpdate UsageUpdate Notice CompactionUpdate "
        "CompactionSummaryChunk SubagentUpdate SessionMessage SessionMessageChunk"
    ),
    "outcome": "SelectedPermissionOutcome CancelledPermissionOutcome",
    "action": "ElicitationAcceptAction",
}
"""The classes that have their tag here."""

TOLERATED_V2: dict[tuple[str, str], str] = {
    **{
        (name, f"object.{part}.{tag}"): TAG
        for tag, names in TAGGED.items()
        for name in names.split()
        for part in ("properties", "required")
    },
    **{(name, ""): MEMBER for name in ("SessionConfigSelect", "SessionConfigBoolean")},
    **{(name, ""): MEMBER for name in ("ElicitationFormMode", "ElicitationUrlMode")},
    ("ElicitationAcceptAction", "object.properties._meta"): MEMBER,
    **{
        (name, f"object.properties.{key}"): MEMBER
        for name in ("DiffPathChange", "DiffPathPairChange")
        for key in ("_meta", "fileType", "mimeType")
    },
    **{
        (name, "object().properties"): RAW
        for name in (
            "AuthMethod",
            "CreateElicitationResponse",
            "DiffChange",
            "PlanUpdateContent",
            "SessionConfigOption",
            "SetSessionConfigOptionRequest",
        )
    },
    ("CreateElicitationRequest", "object()"): RAW,
    ("CreateElicitationRequest", "object(: message, mode, requestId)"): RAW,
    ("CreateElicitationRequest", "object(: message, mode, sessionId)"): RAW,
    ("StateUpdate", ""): STATE,
    ("SessionStatusResponse", "object.properties.state"): STATE,
    ("SubagentUpdate", "object.properties.state"): STATE,
    ("SessionUpdate", "object(sessionUpdate='state_update')"): STATE,
    **{
        ("SessionUpdate", f"object(sessionUpdate='state_update', state={state})"): STATE
        for state in (
            "'running'",
            "'requires_action'",
            "'idle': sessionUpdate, state",
            "'idle': sessionUpdate, state, stopReason",
            "'idle', stopReason='end_turn'",
            "'idle', stopReason='max_tokens'",
            "'idle', stopReason='max_turn_requests'",
            "'idle', stopReason='refusal'",
            "'idle', stopReason='cancelled'",
            "'idle', stopReason='error'",
            "'unknown'",
        )
    },
}
"""The differences that are meant: where, and why. An entry covers everything inside the place it names."""

ALONE_V2 = {
    **dict.fromkeys(("UserMessageChunk", "AgentMessageChunk", "AgentThoughtChunk"), "ContentChunk with its tag"),
    "ToolCallProgress": "ToolCallUpdate with its tag",
    **dict.fromkeys(("DiffAdd", "DiffDelete", "DiffModify"), "DiffPathChange with its tag"),
    **dict.fromkeys(("DiffMove", "DiffCopy"), "DiffPathPairChange with its tag"),
    **dict.fromkeys(("ElicitationDeclineAction", "ElicitationCancelAction"), "has no name there"),
    **dict.fromkeys(("SetSessionConfigValue", "SetSessionConfigBoolean"), "has no name there"),
    **dict.fromkeys(("SessionState", "StateSnapshot", "StopReason"), STATE),
}
"""Definitions that the published schema does not have, and why."""

_STATES = (
    *("RunningStateUpdate", "RequiresActionStateUpdate", "IdleStateUpdate", "UnknownStateUpdate"),
    "ErrorStopReason",
)

THEIRS_ALONE: Mapping[int, Mapping[str, str]] = {
    1: dict.fromkeys(("StateUpdate", *_STATES), STATE),
    2: dict.fromkeys(_STATES, STATE),
}
"""Definitions that we do not have, and why."""

ALONE: Mapping[int, Mapping[str, str]] = {1: ALONE_V1, 2: ALONE_V2}
TOLERATED: Mapping[int, Mapping[tuple[str, str], str]] = {1: TOLERATED_V1, 2: TOLERATED_V2}


_AHEAD = [feature for feature in FEATURES.values() if feature.release != PUBLISHED.name]
AHEAD_METHODS = {method for feature in _AHEAD for method in feature.methods}
"""Methods that the published schema does not have yet."""
AHEAD_TYPES = {name for feature in _AHEAD if feature.methods for name in feature.types}
"""Types of those methods."""


def covers(entry: tuple[str, str], found: tuple[str, str]) -> bool:
    """Whether an entry of the table is about a difference."""
    (name, place), (where, at) = entry, found
    return name == where and (not place or at == place or at.startswith(f"{place}."))

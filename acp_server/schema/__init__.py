"""The types of the Agent Client Protocol, version 1, with one file for each area of the protocol.

    base             code that all types share: reading, writing, `_meta`, unknown fields and members, lenient fields
    types            identifiers, numbers, open unions and enumerations, the error object
    content          content blocks, `session/prompt` and the two cancels
    tool_call        tool calls, `session/request_permission`
    initialization   `initialize` with the capabilities of both sides, `authenticate`, `logout`
    config_options   config options and modes
    session          `session/new` and the rest of a session's life, with its MCP servers
    updates          `session/update`, including plans
    subagents        child sessions in `session/update`
    client_methods   `fs/*` and `terminal/*`
    elicitation      `elicitation/*`, with its forms
    methods          the table of methods
    features         the table of unstable features
    reading          reads any of these types leniently, and explains errors

Every public name is available here, and is imported at its first use. A program that only answers `initialize` imports
only the types for that method. This package does no I/O.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_server.schema.base import *  # noqa: F403
    from acp_server.schema.client_methods import *  # noqa: F403
    from acp_server.schema.config_options import *  # noqa: F403
    from acp_server.schema.content import *  # noqa: F403
    from acp_server.schema.elicitation import *  # noqa: F403
    from acp_server.schema.features import *  # noqa: F403
    from acp_server.schema.initialization import *  # noqa: F403
    from acp_server.schema.methods import *  # noqa: F403
    from acp_server.schema.reading import *  # noqa: F403
    from acp_server.schema.session import *  # noqa: F403
    from acp_server.schema.subagents import *  # noqa: F403
    from acp_server.schema.tool_call import *  # noqa: F403
    from acp_server.schema.types import *  # noqa: F403
    from acp_server.schema.updates import *  # noqa: F403
    from acp_server.schema.words import *  # noqa: F403


def offer(package: str, areas: Mapping[str, str]) -> tuple[Callable[[str], str | None], Any, Callable[[], list[str]]]:
    """Return `area_of`, `__getattr__` and `__dir__` of a package. `areas`: its areas with their public names."""
    module, found = sys.modules[package], {name: area for area, names in areas.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{found[name]}"), name)
        setattr(module, name, value)
        return value

    return found.get, load, lambda: sorted({*vars(module), *found})


# The areas and their public names. This is their only list: an area has no `__all__`.
_NAMES = {
    "base": "NULL Record Unknown first_problem",
    "config_options": (
        "InitialSessionConfigOption SessionConfigBoolean SessionConfigOption SessionConfigOptionCategory "
        "SessionConfigSelect SessionConfigSelectGroup SessionConfigSelectOption SessionConfigSelectOptions "
        "SessionMode SessionModeState SetSessionConfigOptionRequest SetSessionConfigOptionResponse "
        "SetSessionModeRequest SetSessionModeResponse UnknownSessionConfigOption"
    ),
    "content": (
        "Annotations AudioContent BlobResourceContents CancelNotification CancelRequestNotification "
        "ContentBlock EmbeddedResource EmbeddedResourceResource ImageContent PromptRequest PromptResponse "
        "ResourceLink Role StopReason TextContent TextResourceContents UnknownContentBlock "
        "UnknownResourceContents Usage"
    ),
    "elicitation": (
        "BooleanPropertySchema CompleteElicitationNotification CreateElicitationRequest "
        "CreateElicitationResponse ElicitationAcceptAction ElicitationCancelAction ElicitationContentValue "
        "ElicitationDeclineAction ElicitationFormMode ElicitationPropertySchema ElicitationRequestScope "
        "ElicitationSchema ElicitationSchemaType ElicitationSessionScope ElicitationUrlMode EnumOption "
        "IntegerPropertySchema MultiSelectItems MultiSelectPropertySchema NumberPropertySchema StringFormat "
        "StringMultiSelectItems StringPropertySchema TitledMultiSelectItems UnknownElicitationAction "
        "UnknownElicitationMode UnknownMultiSelectItems UnknownPropertySchema"
    ),
    "initialization": (
        "AgentAuthCapabilities AgentCapabilities AuthCapabilities AuthenticateRequest AuthenticateResponse "
        "AuthMethod AuthMethodAgent AuthMethodTerminal BooleanConfigOptionCapabilities ClientCapabilities "
        "ClientSessionCapabilities CompactionCapabilities ElicitationCapabilities ElicitationFormCapabilities "
        "ElicitationUrlCapabilities FileSystemCapabilities Implementation InitializeRequest "
        "InitializeResponse LogoutCapabilities LogoutRequest LogoutResponse McpCapabilities "
        "NoticeCapabilities PromptCapabilities SessionAdditionalDirectoriesCapabilities "
        "SessionArchiveCapabilities SessionCapabilities SessionCloseCapabilities "
        "SessionConfigOptionsCapabilities SessionDeleteCapabilities SessionForkCapabilities "
        "SessionListCapabilities SessionOptionsCapabilities SessionResumeCapabilities SessionStatusCapabilities "
        "SessionSystemPromptCapabilities SessionSystemPromptModeCapabilities "
        "SessionSystemPromptOverrideCapabilities SessionTitleCapabilities SubagentCapabilities UnknownAuthMethod"
    ),
    "features": "ABSENT FEATURES PUBLISHED Feature Release Unstable",
    "methods": "MEMBER_CAPABILITIES METHODS Method is_announced",
    "reading": "explain from_wire place_of problem",
    "session": (
        "ArchiveSessionRequest ArchiveSessionResponse CloseSessionRequest CloseSessionResponse DeleteSessionRequest "
        "DeleteSessionResponse EnvVariable ForkSessionRequest ForkSessionResponse HttpHeader ListSessionsRequest "
        "ListSessionsResponse LoadSessionRequest LoadSessionResponse McpServer McpServerHttp McpServerSse "
        "McpServerStdio NewSessionRequest NewSessionResponse ResumeSessionRequest ResumeSessionResponse "
        "SessionArchiveFilter SessionInfo SessionOptionsRequest SessionOptionsResponse SessionStatus "
        "SessionStatusRequest SessionStatusResponse SetSessionTitleRequest SetSessionTitleResponse SystemPrompt "
        "SystemPromptMode UnarchiveSessionRequest UnarchiveSessionResponse UnknownMcpServer"
    ),
    "client_methods": (
        "CreateTerminalRequest CreateTerminalResponse KillTerminalRequest KillTerminalResponse "
        "ReadTextFileRequest ReadTextFileResponse ReleaseTerminalRequest ReleaseTerminalResponse "
        "TerminalExitStatus TerminalOutputRequest TerminalOutputResponse WaitForTerminalExitRequest "
        "WaitForTerminalExitResponse WriteTextFileRequest WriteTextFileResponse"
    ),
    "subagents": (
        "SessionCancelCapabilities SessionMessage SessionMessageChunk SubagentActivity "
        "SubagentSessionCapabilities SubagentState SubagentStopReason SubagentUpdate"
    ),
    "tool_call": (
        "CancelledPermissionOutcome Content Diff PermissionOption PermissionOptionKind "
        "RequestPermissionOutcome RequestPermissionRequest RequestPermissionResponse "
        "SelectedPermissionOutcome Terminal ToolCall ToolCallContent ToolCallLocation ToolCallProgress "
        "ToolCallStatus ToolCallUpdate ToolKind UnknownPermissionOutcome UnknownToolCallContent"
    ),
    "types": (
        "AuthMethodId CompactionId ElicitationId Error ErrorCode MessageId PermissionOptionId "
        "PROTOCOL_VERSION ProtocolVersion RequestId SessionConfigGroupId SessionConfigId SessionConfigValueId "
        "SessionId SessionModeId TerminalId ToolCallId"
    ),
    "updates": (
        "AgentMessageChunk AgentThoughtChunk AvailableCommand AvailableCommandInput AvailableCommandsUpdate "
        "CompactionStatus CompactionSummaryChunk CompactionUpdate ConfigOptionUpdate ContentChunk Cost "
        "CurrentModeUpdate Notice NoticeSeverity Plan PlanEntry PlanEntryPriority PlanEntryStatus "
        "SessionInfoUpdate SessionNotification SessionUpdate UnknownCommandInput UnknownSessionUpdate "
        "UnstructuredCommandInput UsageUpdate UserMessageChunk"
    ),
    "words": "OwnWord",
}
# `area_of` gives the area of a public name, and None for any other name.
area_of: Callable[[str], str | None]
__dir__: Callable[[], list[str]]
area_of, _load, __dir__ = offer(__name__, _NAMES)

if not TYPE_CHECKING:  # with it, type checkers would take every name for a public one
    __getattr__ = _load
    __all__ = [name for names in _NAMES.values() for name in names.split()]

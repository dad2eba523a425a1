"""The types of the Agent Client Protocol, version 2: the stable set of its draft, with one file for each area.

    types            identifiers, numbers, the error object, and patches: fields that are absent, null or a value
    content          content blocks, `session/prompt` and the two cancels
    tool_call        tool calls with their changes to files, terminals, and the cancels of both
    initialization   `initialize` with the capabilities of both sides, `auth/login`, `auth/logout`
    session          `session/new` and the rest of a session's life, with its MCP servers, commands and options
    updates          `session/update`: messages, plans, states, and more
    record           the state of a session, built from its updates
    questions        `session/request_permission` and `elicitation/*`, with its forms
    methods          the table of methods

The draft may change. As in `acp_server.schema`, a name is imported at its first use, and this package does no I/O. If a
type has the same meaning as in version 1, it is the same class.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from acp_server.schema import offer
from acp_server.schema.versions import Version, register

if TYPE_CHECKING:
    from acp_server.schema.v2.content import *  # noqa: F403
    from acp_server.schema.v2.initialization import *  # noqa: F403
    from acp_server.schema.v2.methods import *  # noqa: F403
    from acp_server.schema.v2.questions import *  # noqa: F403
    from acp_server.schema.v2.record import *  # noqa: F403
    from acp_server.schema.v2.session import *  # noqa: F403
    from acp_server.schema.v2.tool_call import *  # noqa: F403
    from acp_server.schema.v2.types import *  # noqa: F403
    from acp_server.schema.v2.updates import *  # noqa: F403

# The areas and their public names. This is their only list: an area has no `__all__`.
_NAMES = {
    "content": (
        "Annotations AudioContent BlobResourceContents CancelRequestNotification CancelSessionNotification "
        "ContentBlock EmbeddedResource EmbeddedResourceResource Icon IconTheme ImageContent PromptRequest "
        "PromptResponse ResourceLink Role TextContent TextResourceContents UnknownContentBlock"
    ),
    "initialization": (
        "AgentAuthCapabilities AgentCapabilities AuthMethod AuthMethodAgent AuthMethodTerminal "
        "ClientAuthCapabilities ClientCapabilities ElicitationCapabilities ElicitationFormCapabilities "
        "ElicitationUrlCapabilities Implementation InitializeRequest InitializeResponse LoginAuthRequest "
        "LoginAuthResponse LogoutAuthRequest LogoutAuthResponse McpCapabilities McpHttpCapabilities "
        "McpStdioCapabilities PromptAudioCapabilities PromptCapabilities PromptEmbeddedContextCapabilities "
        "PromptImageCapabilities SessionAdditionalDirectoriesCapabilities SessionArchiveCapabilities "
        "SessionCapabilities SessionDeleteCapabilities SessionForkCapabilities SessionOptionsCapabilities "
        "SessionStatusCapabilities SessionSystemPromptCapabilities SessionSystemPromptModeCapabilities "
        "SessionSystemPromptOverrideCapabilities SessionTitleCapabilities TerminalAuthCapabilities UnknownAuthMethod"
    ),
    "methods": "MEMBER_CAPABILITIES METHODS Method",
    "questions": (
        "BooleanPropertySchema CancelledPermissionOutcome CommandPermissionSubject "
        "CompleteElicitationNotification CreateElicitationRequest CreateElicitationResponse "
        "ElicitationAcceptAction ElicitationCancelAction ElicitationContentValue ElicitationDeclineAction "
        "ElicitationFormMode ElicitationPropertySchema ElicitationRequestScope ElicitationSchema "
        "ElicitationSchemaType ElicitationSessionScope ElicitationUrlMode EnumOption IntegerPropertySchema "
        "MultiSelectItems MultiSelectPropertySchema NumberPropertySchema PermissionOption PermissionOptionKind "
        "RequestPermissionOutcome RequestPermissionRequest RequestPermissionResponse RequestPermissionSubject "
        "SelectedPermissionOutcome StringFormat StringMultiSelectItems StringPropertySchema "
        "TitledMultiSelectItems ToolCallPermissionSubject UnknownElicitationAction UnknownElicitationMode "
        "UnknownMultiSelectItems UnknownPermissionOutcome UnknownPermissionSubject UnknownPropertySchema"
    ),
    "record": "SessionRecord TerminalRecord",
    "session": (
        "ArchiveSessionRequest ArchiveSessionResponse AvailableCommand AvailableCommandInput CloseSessionRequest "
        "CloseSessionResponse Command DeleteSessionRequest DeleteSessionResponse EnvVariable ForkSessionRequest "
        "ForkSessionResponse HttpHeader InitialSessionConfigBoolean InitialSessionConfigOption "
        "InitialSessionConfigValue ListSessionsRequest ListSessionsResponse McpServer McpServerHttp McpServerStdio "
        "NewSessionRequest NewSessionResponse ReplayFrom ReplayFromStart ResumeSessionRequest ResumeSessionResponse "
        "SessionArchiveFilter SessionConfigBoolean SessionConfigOption SessionConfigOptionCategory "
        "SessionConfigSelect SessionConfigSelectGroup SessionConfigSelectOption SessionConfigSelectOptions "
        "SessionInfo SessionOptionsRequest SessionOptionsResponse SessionStatusRequest SetSessionConfigBoolean "
        "SetSessionConfigOptionRequest SetSessionConfigOptionResponse SetSessionConfigValue SetSessionTitleRequest "
        "SetSessionTitleResponse SystemPrompt SystemPromptMode TextCommandInput UnarchiveSessionRequest "
        "UnarchiveSessionResponse UnknownCommand UnknownCommandInput UnknownInitialSessionConfigOption "
        "UnknownMcpServer UnknownReplayFrom UnknownSessionConfigOption UnknownSessionConfigValue"
    ),
    "tool_call": (
        "CancelTerminalRequest CancelTerminalResponse CancelToolCallRequest CancelToolCallResponse Content Diff "
        "DiffAdd DiffChange DiffCopy DiffDelete DiffFileType DiffModify DiffMove DiffPatch DiffPatchFormat "
        "DiffPathChange DiffPathPairChange Terminal TerminalCancelCapabilities TerminalCapabilities "
        "TerminalExitStatus TerminalOutput TerminalOutputChunk TerminalSize TerminalUpdate "
        "ToolCallCancelCapabilities ToolCallCapabilities ToolCallContent ToolCallContentChunk ToolCallLocation "
        "ToolCallProgress ToolCallStatus ToolCallUpdate ToolKind UnknownDiffChange UnknownToolCallContent"
    ),
    "types": (
        "AbsolutePath AuthMethodId CompactionId ElicitationId Error ErrorCode ErrorData MediaType MessageId "
        "Patch PermissionOptionId PlanId PROTOCOL_VERSION ProtocolVersion RequestId SessionConfigGroupId "
        "SessionConfigId SessionConfigValueId SessionId SessionListCursor SessionNotFoundErrorData TerminalId "
        "ToolCallId UnsupportedProtocolVersionErrorData"
    ),
    "updates": (
        "AgentMessage AgentMessageChunk AgentThought AgentThoughtChunk AvailableCommandsUpdate "
        "BackgroundSubagent BackgroundTerminal BackgroundToolCall BackgroundWork CompactionStatus "
        "CompactionSummaryChunk CompactionUpdate ConfigOptionUpdate ContentChunk Cost Notice NoticeSeverity "
        "PlanEntry PlanEntryPriority PlanEntryStatus PlanItems PlanUpdate PlanUpdateContent "
        "SessionCancelCapabilities SessionInfoUpdate SessionMessage SessionMessageChunk SessionState "
        "SessionStatus SessionStatusResponse SessionUpdate StateSnapshot StateUpdate StopReason "
        "SubagentSessionCapabilities SubagentUpdate UnknownBackgroundWork UnknownPlan UnknownSessionUpdate "
        "UpdateSessionNotification Usage UsageUpdate UserMessage UserMessageChunk"
    ),
}
area_of: Callable[[str], str | None]
__dir__: Callable[[], list[str]]
area_of, _load, __dir__ = offer(__name__, _NAMES)

if not TYPE_CHECKING:  # as in version 1
    __getattr__ = _load
    __all__ = [name for names in _NAMES.values() for name in names.split()]

NUMBER: Final = 2
"""The version number. `PROTOCOL_VERSION` is the same number, but reading it would import the types."""

register(Version(NUMBER, sys.modules[__name__]))

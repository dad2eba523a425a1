"""`session/update`: the updates that the agent sends while it works (protocol: prompt turn, agent plan).

Tool calls have their own file.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    UNSET,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Sent,
    Sparse,
    Unknown,
    UnknownTag,
    Unsaid,
)
from acp_server.schema.config_options import SessionConfigOption
from acp_server.schema.content import ContentBlock
from acp_server.schema.subagents import SessionMessage, SessionMessageChunk, SubagentUpdate
from acp_server.schema.tool_call import ToolCall, ToolCallProgress
from acp_server.schema.types import (
    ByKey,
    CompactionId,
    Double,
    MessageId,
    SessionId,
    SessionModeId,
    Tagged,
    UInt64,
)
from acp_server.schema.words import OpenEnum

PlanEntryPriority = TypeAliasType("PlanEntryPriority", Annotated[Literal["high", "medium", "low"] | str, OpenEnum()])
"""The importance of a step."""

PlanEntryStatus = TypeAliasType(
    "PlanEntryStatus", Annotated[Literal["pending", "in_progress", "completed"] | str, OpenEnum()]
)
"""The status of a step."""


class PlanEntry(Model):
    """One step of a plan."""

    content: str
    """The goal of the step, as a text for the user."""
    priority: Unsaid[PlanEntryPriority] = "medium"
    """Its importance."""
    status: Unsaid[PlanEntryStatus] = "pending"
    """Its status."""


class Plan(Model):
    """The session update `plan`: the whole plan, replacing the previous one."""

    session_update: Sent[Literal["plan"]] = "plan"
    entries: LenientItems[Items[PlanEntry]]
    """All steps, in order, each with its current status."""


class ContentChunk(Model):
    """A chunk of a streamed message. Each of the three classes below is for one sender."""

    content: ContentBlock
    """The content of the chunk."""
    message_id: Lenient[MessageId | None] = None
    """The message that the chunk belongs to. Another id begins another message."""


class UserMessageChunk(ContentChunk):
    """The session update `user_message_chunk`: a chunk of a message from the user, in a replay."""

    session_update: Sent[Literal["user_message_chunk"]] = "user_message_chunk"


class AgentMessageChunk(ContentChunk):
    """The session update `agent_message_chunk`: a chunk of a message from the agent."""

    session_update: Sent[Literal["agent_message_chunk"]] = "agent_message_chunk"


class AgentThoughtChunk(ContentChunk):
    """The session update `agent_thought_chunk`: a chunk of a thought from the agent."""

    session_update: Sent[Literal["agent_thought_chunk"]] = "agent_thought_chunk"


class UnstructuredCommandInput(Model):
    """The command takes any text after its name."""

    hint: str
    """A text that is shown until the user types."""


class UnknownCommandInput(Unknown):
    """Input in a form that this version does not have."""


AvailableCommandInput = TypeAliasType(
    "AvailableCommandInput", Annotated[UnstructuredCommandInput | UnknownCommandInput, ByKey("hint")]
)
"""The input of a command."""


class AvailableCommand(Model):
    """A command that the user can give by its name (protocol: slash commands)."""

    name: str
    """The name, without the slash."""
    description: str
    """The effect of the command."""
    input: Lenient[AvailableCommandInput | None] = None
    """The input of the command; None if it takes none."""


class AvailableCommandsUpdate(Model):
    """The session update `available_commands_update`: all commands, replacing the previous ones."""

    session_update: Sent[Literal["available_commands_update"]] = "available_commands_update"
    available_commands: LenientItems[Items[AvailableCommand]]
    """All commands."""


class CurrentModeUpdate(Model):
    """The session update `current_mode_update`: the session has entered another mode."""

    session_update: Sent[Literal["current_mode_update"]] = "current_mode_update"
    current_mode_id: SessionModeId
    """The new mode."""


class ConfigOptionUpdate(Model):
    """The session update `config_option_update`: all config options, replacing the previous ones."""

    session_update: Sent[Literal["config_option_update"]] = "config_option_update"
    config_options: LenientItems[Items[SessionConfigOption]]
    """All options with their current values."""


class SessionInfoUpdate(Sparse, Model):
    """The session update `session_info_update`. It is a patch: members that are set change, and null clears a
    member."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"title", "updated_at"})

    session_update: Sent[Literal["session_info_update"]] = "session_info_update"
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[str | None] = None
    """The time of the last activity, ISO 8601."""


class Cost(Model):
    """The cost of the session so far."""

    amount: Double
    """The amount."""
    currency: str
    """The currency: an ISO 4217 code, or another unit such as `credits`."""


class UsageUpdate(Model):
    """The session update `usage_update`: the usage of the context window, and the cost."""

    session_update: Sent[Literal["usage_update"]] = "usage_update"
    used: UInt64
    """Tokens in the context."""
    size: UInt64
    """Tokens that fit into the context."""
    cost: Lenient[Cost | None] = None
    """The cost of the session so far."""


NoticeSeverity = TypeAliasType(
    "NoticeSeverity", Annotated[Literal["info", "warning", "error"] | str, OpenEnum(extensible=True)]
)
"""How a notice is shown. Custom severities begin with `_`."""


class Notice(Model):
    """The session update `notice`: a message for the user outside of the session's history.

    Only for clients with `session.notices`. An agent must not assume that the user sees it.
    """

    session_update: Sent[Literal["notice"]] = "notice"
    severity: NoticeSeverity
    """How to show it."""
    title: str = Field(min_length=1)
    """A plain text that is understandable without the description."""
    description: Lenient[str | None] = None
    """More details, plain text."""


CompactionStatus = TypeAliasType(
    "CompactionStatus",
    Annotated[Literal["in_progress", "completed", "failed", "cancelled"] | str, OpenEnum(extensible=True)],
)
"""The status of a compaction. Custom statuses begin with `_`."""


class CompactionUpdate(Sparse, Model):
    """The session update `compaction_update`: the context is being compacted.

    Members that are set change, and null clears a member. Only for clients with `session.compaction`.
    """

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"summary", "error", "meta"})

    session_update: Sent[Literal["compaction_update"]] = "compaction_update"
    compaction_id: CompactionId
    """The compaction. The first update with an id adds the compaction to the history."""
    status: CompactionStatus
    """Its status."""
    summary: LenientItems[MaybeItems[ContentBlock]] = UNSET
    """The summary of the removed part. It replaces the summary so far."""
    error: Lenient[str | None] = None
    """The error."""


class CompactionSummaryChunk(Model):
    """The session update `compaction_summary_chunk`: one more block of a compaction's summary."""

    session_update: Sent[Literal["compaction_summary_chunk"]] = "compaction_summary_chunk"
    compaction_id: CompactionId
    """The compaction."""
    content: ContentBlock
    """The block to append."""


class UnknownSessionUpdate(Unknown):
    """A kind of update that this version does not have."""

    session_update: UnknownTag


SessionUpdate = TypeAliasType(
    "SessionUpdate",
    Annotated[
        UserMessageChunk
        | AgentMessageChunk
        | AgentThoughtChunk
        | ToolCall
        | ToolCallProgress
        | Plan
        | AvailableCommandsUpdate
        | CurrentModeUpdate
        | ConfigOptionUpdate
        | SessionInfoUpdate
        | UsageUpdate
        | Notice
        | CompactionUpdate
        | CompactionSummaryChunk
        | SubagentUpdate
        | SessionMessage
        | SessionMessageChunk
        | UnknownSessionUpdate,
        Tagged("sessionUpdate"),
    ],
)
"""A session update, distinguished by `sessionUpdate`."""


class SessionNotification(Model):
    """Parameters of `session/update`."""

    session_id: SessionId
    """The session."""
    update: SessionUpdate
    """The update."""

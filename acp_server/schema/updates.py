"""`session/update`: what the agent shows the client while it works (protocol: prompt turn, agent plan).

Tool calls have a file of their own.
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
"""How much a step matters to the whole."""

PlanEntryStatus = TypeAliasType(
    "PlanEntryStatus", Annotated[Literal["pending", "in_progress", "completed"] | str, OpenEnum()]
)
"""How far a step is."""


class PlanEntry(Model):
    """One step of a plan."""

    content: str
    """What the step achieves, in words for the user."""
    priority: Unsaid[PlanEntryPriority] = "medium"
    """How much it matters."""
    status: Unsaid[PlanEntryStatus] = "pending"
    """How far it is."""


class Plan(Model):
    """The session update `plan`: the whole plan, in the place of the one before."""

    session_update: Sent[Literal["plan"]] = "plan"
    entries: LenientItems[Items[PlanEntry]]
    """All steps, in order, each with its present status."""


class ContentChunk(Model):
    """A piece of a message, as it streams. Who speaks is said by the three classes below."""

    content: ContentBlock
    """The piece."""
    message_id: Lenient[MessageId | None] = None
    """The message it belongs to: another id begins another message."""


class UserMessageChunk(ContentChunk):
    """The session update `user_message_chunk`: something the user said, replayed."""

    session_update: Sent[Literal["user_message_chunk"]] = "user_message_chunk"


class AgentMessageChunk(ContentChunk):
    """The session update `agent_message_chunk`: something the agent says."""

    session_update: Sent[Literal["agent_message_chunk"]] = "agent_message_chunk"


class AgentThoughtChunk(ContentChunk):
    """The session update `agent_thought_chunk`: something the agent thinks."""

    session_update: Sent[Literal["agent_thought_chunk"]] = "agent_thought_chunk"


class UnstructuredCommandInput(Model):
    """The command takes whatever is typed after its name."""

    hint: str
    """Shown while nothing has been typed."""


class UnknownCommandInput(Unknown):
    """Input in a form that this version does not have."""


AvailableCommandInput = TypeAliasType(
    "AvailableCommandInput", Annotated[UnstructuredCommandInput | UnknownCommandInput, ByKey("hint")]
)
"""What a command takes."""


class AvailableCommand(Model):
    """A command that the user can give by its name (protocol: slash commands)."""

    name: str
    """The name, without the slash."""
    description: str
    """What the command does."""
    input: Lenient[AvailableCommandInput | None] = None
    """What it takes; None for nothing."""


class AvailableCommandsUpdate(Model):
    """The session update `available_commands_update`: the commands, in the place of those before."""

    session_update: Sent[Literal["available_commands_update"]] = "available_commands_update"
    available_commands: LenientItems[Items[AvailableCommand]]
    """All commands."""


class CurrentModeUpdate(Model):
    """The session update `current_mode_update`: the session is in another mode."""

    session_update: Sent[Literal["current_mode_update"]] = "current_mode_update"
    current_mode_id: SessionModeId
    """The mode it is in now."""


class ConfigOptionUpdate(Model):
    """The session update `config_option_update`: the configuration options, in the place of those before."""

    session_update: Sent[Literal["config_option_update"]] = "config_option_update"
    config_options: LenientItems[Items[SessionConfigOption]]
    """All options with their present values."""


class SessionInfoUpdate(Sparse, Model):
    """The session update `session_info_update`: what is set changes; an explicit None clears."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"title", "updated_at"})

    session_update: Sent[Literal["session_info_update"]] = "session_info_update"
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[str | None] = None
    """When something last happened, ISO 8601."""


class Cost(Model):
    """What the session has cost so far."""

    amount: Double
    """How much."""
    currency: str
    """Of what: an ISO 4217 code, or another unit such as `credits`."""


class UsageUpdate(Model):
    """The session update `usage_update`: how full the context is, and what it has cost."""

    session_update: Sent[Literal["usage_update"]] = "usage_update"
    used: UInt64
    """Tokens in the context."""
    size: UInt64
    """Tokens that fit into it."""
    cost: Lenient[Cost | None] = None
    """The cost of the session so far."""


NoticeSeverity = TypeAliasType(
    "NoticeSeverity", Annotated[Literal["info", "warning", "error"] | str, OpenEnum(extensible=True)]
)
"""How a notice is shown. Names of one's own begin with `_`."""


class Notice(Model):
    """The session update `notice`: tells the user something that is not part of the session's history.

    Only for clients with `session.notices`. An agent must not rely on it being seen.
    """

    session_update: Sent[Literal["notice"]] = "notice"
    severity: NoticeSeverity
    """How to show it."""
    title: str = Field(min_length=1)
    """Plain text that can stand alone."""
    description: Lenient[str | None] = None
    """More of it, plain text."""


CompactionStatus = TypeAliasType(
    "CompactionStatus",
    Annotated[Literal["in_progress", "completed", "failed", "cancelled"] | str, OpenEnum(extensible=True)],
)
"""How far a compaction is. Names of one's own begin with `_`."""


class CompactionUpdate(Sparse, Model):
    """The session update `compaction_update`: the context is being shortened.

    What is set changes, an explicit None clears. Only for clients with `session.compaction`.
    """

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"summary", "error", "meta"})

    session_update: Sent[Literal["compaction_update"]] = "compaction_update"
    compaction_id: CompactionId
    """The compaction; the first update with an id puts it into the history."""
    status: CompactionStatus
    """How far it is."""
    summary: LenientItems[MaybeItems[ContentBlock]] = UNSET
    """What stays of the shortened part, in the place of what was said before."""
    error: Lenient[str | None] = None
    """What went wrong."""


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
"""Something that the client shows, told apart by `sessionUpdate`."""


class SessionNotification(Model):
    """Parameters of `session/update`."""

    session_id: SessionId
    """The session."""
    update: SessionUpdate
    """What happened in it."""

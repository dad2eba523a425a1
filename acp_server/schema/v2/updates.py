"""`session/update`: what the agent shows the client (ACP v2, prompt lifecycle, session states, agent plan).

Messages come whole, or as they stream. An id belongs to one kind of message: a message of the user and one of the agent
may have the same. A session may have several plans, by id. Tool calls and terminals have a file of their own.
"""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema import updates as v1
from acp_server.schema.base import (
    UNSET,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Sent,
    Unknown,
    UnknownTag,
    Wire,
)
from acp_server.schema.content import Usage as Usage
from acp_server.schema.session import SessionStatus as SessionStatus
from acp_server.schema.subagents import SessionCancelCapabilities as SessionCancelCapabilities
from acp_server.schema.subagents import SubagentSessionCapabilities
from acp_server.schema.types import Tagged, UInt64
from acp_server.schema.updates import CompactionStatus, Cost, UnknownSessionUpdate
from acp_server.schema.updates import NoticeSeverity as NoticeSeverity
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.session import AvailableCommand, SessionConfigOption
from acp_server.schema.v2.tool_call import TerminalOutputChunk, TerminalUpdate, ToolCallContentChunk, ToolCallProgress
from acp_server.schema.v2.types import (
    AbsolutePath,
    CompactionId,
    Error,
    MessageId,
    Patch,
    PlanId,
    SessionId,
    TerminalId,
    Timestamp,
    ToolCallId,
)
from acp_server.schema.words import OpenEnum


class _Message(Patch):
    """What every kind of message has."""

    message_id: MessageId
    """The message; the first update with an id makes it."""
    content: LenientItems[MaybeItems[ContentBlock]] = UNSET
    """Everything that is said in it, in the place of what was said before."""


class UserMessage(_Message):
    """The session update `user_message`: something the user said."""

    session_update: Sent[Literal["user_message"]] = "user_message"


class AgentMessage(_Message):
    """The session update `agent_message`: something the agent said."""

    session_update: Sent[Literal["agent_message"]] = "agent_message"


class AgentThought(_Message):
    """The session update `agent_thought`: something the agent thought."""

    session_update: Sent[Literal["agent_thought"]] = "agent_thought"


class ContentChunk(Model):
    """A piece of a message, as it streams. Who speaks is said by the three classes below."""

    message_id: MessageId
    """The message that it is appended to. Chunks of several messages may be mixed."""
    content: ContentBlock
    """The piece."""


class UserMessageChunk(ContentChunk):
    """The session update `user_message_chunk`: something the user said."""

    session_update: Sent[Literal["user_message_chunk"]] = "user_message_chunk"


class AgentMessageChunk(ContentChunk):
    """The session update `agent_message_chunk`: something the agent says."""

    session_update: Sent[Literal["agent_message_chunk"]] = "agent_message_chunk"


class AgentThoughtChunk(ContentChunk):
    """The session update `agent_thought_chunk`: something the agent thinks."""

    session_update: Sent[Literal["agent_thought_chunk"]] = "agent_thought_chunk"


SessionState = TypeAliasType(
    "SessionState", Annotated[Literal["running", "idle", "requires_action", "unknown"] | str, OpenEnum(extensible=True)]
)
"""What the foreground does. Another state is never idle: show that the agent is busy. `unknown`: the agent has lost
sight of it, which ends nothing."""

StopReason = TypeAliasType(
    "StopReason",
    Annotated[
        Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str,
        OpenEnum(extensible=True),
    ],
)
"""Why the foreground work ended. `cancelled` only if the user or the client chose to stop it."""


class BackgroundTerminal(Model):
    """A command that goes on in a terminal."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal."""


class BackgroundToolCall(Model):
    """A tool call that goes on."""

    type: Sent[Literal["tool_call"]] = "tool_call"
    tool_call_id: ToolCallId
    """The call."""


class BackgroundSubagent(Model):
    """A child session that goes on."""

    type: Sent[Literal["subagent"]] = "subagent"
    session_id: SessionId
    """The child."""


class UnknownBackgroundWork(Unknown):
    """Work of a kind that this version does not have."""

    type: UnknownTag


BackgroundWork = TypeAliasType(
    "BackgroundWork",
    Annotated[
        BackgroundTerminal | BackgroundToolCall | BackgroundSubagent | UnknownBackgroundWork,
        Tagged("type", extensible=True),
    ],
)
"""Work that goes on whatever the foreground does, told apart by `type`."""


class StateSnapshot(Model):
    """The state of a session's foreground.

    One class for every state: each of its fields but `state` may be absent, and a client needs no other field for a
    state of tomorrow.
    """

    state: SessionState
    """What the foreground does."""
    background: Lenient[MaybeItems[BackgroundWork]] = UNSET
    """All work in the background; None says that the agent does not tell, `[]` that there is none."""
    stop_reason: Lenient[StopReason | None] = None
    """Why the foreground work ended. Only when idle."""
    error: Lenient[Error | None] = None
    """What went wrong. Only with the stop reason `error`."""
    usage: Lenient[Usage | None] = None
    """What the work that has ended has cost. Only when idle."""


class StateUpdate(StateSnapshot):
    """The session update `state_update`: a snapshot. To send the same one twice changes nothing."""

    session_update: Sent[Literal["state_update"]] = "state_update"


class SubagentUpdate(Patch):
    """The session update `subagent_update`: the session has this child, or what is known of the child changes."""

    session_update: Sent[Literal["subagent_update"]] = "subagent_update"
    session_id: SessionId
    """The child. The first update with an id makes it a child of the session that the update belongs to."""
    title: Lenient[str | None] = None
    """What the parent calls it."""
    description: Lenient[str | None] = None
    """What it is for, in words for the user."""
    capabilities: Lenient[SubagentSessionCapabilities | None] = None
    """What the client may do to it, in the place of what was said before; nothing if that was never said."""
    state: Lenient[StateSnapshot | None] = None
    """What it does, as its own `state_update` tells it; None if that is not confirmed any more."""
    cwd: AbsolutePath | None = None
    """Where it works. Unset, it works where its parent does."""
    additional_directories: MaybeItems[AbsolutePath] = UNSET
    """More directories. Unset, it has those of its parent."""


class SessionMessage(Patch):
    """The session update `session_message`: what one session says to another."""

    session_update: Sent[Literal["session_message"]] = "session_message"
    message_id: MessageId
    """The message, within the conversation of the session that the update belongs to."""
    sender_session_id: Lenient[SessionId | None] = None
    """The session that says it."""
    recipient_session_id: Lenient[SessionId | None] = None
    """The session that it is said to."""
    sender_message_id: Lenient[MessageId | None] = None
    """The same message in the sender's conversation."""
    recipient_message_id: Lenient[MessageId | None] = None
    """The same message in the recipient's conversation."""
    content: LenientItems[MaybeItems[ContentBlock]] = UNSET
    """All that is said in it, in the place of what was said before."""


class SessionMessageChunk(Model):
    """The session update `session_message_chunk`: one more block of such a message."""

    session_update: Sent[Literal["session_message_chunk"]] = "session_message_chunk"
    message_id: MessageId
    """The message."""
    content: ContentBlock
    """The block to append."""


class SessionStatusResponse(Model):
    """Result of `session/status`."""

    status: SessionStatus
    """Whether the session is open."""
    state: Lenient[StateSnapshot | None] = None
    """What its foreground does; None if the agent does not tell. Only if it is open."""


PlanEntryPriority = TypeAliasType(
    "PlanEntryPriority", Annotated[Literal["high", "medium", "low"] | str, OpenEnum(extensible=True)]
)
"""How much a step matters to the whole. Names of one's own begin with `_`."""

PlanEntryStatus = TypeAliasType(
    "PlanEntryStatus",
    Annotated[Literal["pending", "in_progress", "completed", "cancelled"] | str, OpenEnum(extensible=True)],
)
"""How far a step is. Names of one's own begin with `_`."""


class PlanEntry(Model):
    """One step of a plan."""

    content: str
    """What the step achieves, in words for the user."""
    priority: PlanEntryPriority
    """How much it matters."""
    status: PlanEntryStatus
    """How far it is."""


class PlanItems(Model):
    """A plan that is a list of steps."""

    type: Sent[Literal["items"]] = "items"
    plan_id: PlanId
    """The plan."""
    entries: Annotated[Items[PlanEntry], Wire(skip_items=True)]
    """All steps, in order, each with its present status."""


class UnknownPlan(Unknown):
    """A plan in a form that this version does not have; it replaces what the plan was before."""

    type: UnknownTag
    plan_id: PlanId
    """The plan."""


PlanUpdateContent = TypeAliasType(
    "PlanUpdateContent", Annotated[PlanItems | UnknownPlan, Tagged("type", extensible=True)]
)
"""A whole plan, told apart by `type`."""


class PlanUpdate(Model):
    """The session update `plan_update`: a plan, in the place of the one with the same id."""

    session_update: Sent[Literal["plan_update"]] = "plan_update"
    plan: PlanUpdateContent
    """The plan."""


class AvailableCommandsUpdate(Model):
    """The session update `available_commands_update`: the commands, in the place of those before."""

    session_update: Sent[Literal["available_commands_update"]] = "available_commands_update"
    available_commands: Annotated[Items[AvailableCommand], Wire(skip_items=True)]
    """All commands."""


class ConfigOptionUpdate(Model):
    """The session update `config_option_update`: the configuration options, in the place of those before."""

    session_update: Sent[Literal["config_option_update"]] = "config_option_update"
    config_options: Annotated[Items[SessionConfigOption], Wire(skip_items=True)]
    """All options with their present values."""


class SessionInfoUpdate(Patch):
    """The session update `session_info_update`: what is known of the session changes."""

    session_update: Sent[Literal["session_info_update"]] = "session_info_update"
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[Timestamp | None] = None
    """When something last happened, RFC 3339."""


class UsageUpdate(Patch):
    """The session update `usage_update`: how full the context is, and what it has cost.

    Only the cost is a patch: without it, the last one stands.
    """

    session_update: Sent[Literal["usage_update"]] = "usage_update"
    used: UInt64
    """Tokens in the context."""
    size: UInt64
    """Tokens that fit into it."""
    cost: Lenient[Cost | None] = None
    """The cost of the session so far."""


class Notice(v1.Notice):
    """The session update `notice`: tells the user something that is not part of the session's history."""


class CompactionUpdate(Patch):
    """The session update `compaction_update`: the context is being shortened."""

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


SessionUpdate = TypeAliasType(
    "SessionUpdate",
    Annotated[
        UserMessageChunk
        | UserMessage
        | AgentMessageChunk
        | AgentMessage
        | AgentThoughtChunk
        | AgentThought
        | StateUpdate
        | ToolCallContentChunk
        | ToolCallProgress
        | TerminalUpdate
        | TerminalOutputChunk
        | PlanUpdate
        | AvailableCommandsUpdate
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
        Tagged("sessionUpdate", extensible=True),
    ],
)
"""Something that the client shows, told apart by `sessionUpdate`."""


class UpdateSessionNotification(Model):
    """Parameters of `session/update`."""

    session_id: SessionId
    """The session."""
    update: SessionUpdate
    """What happened in it."""

"""`session/update`: the updates that the agent sends (ACP v2, prompt lifecycle, session states, agent plan).

A message comes whole, or as chunks. An id is unique only within one kind of message, so a message of the user and a
message of the agent may have the same id. A session may have several plans, each with its own id. Tool calls and
terminals have their own file.
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
    """The members of every kind of message."""

    message_id: MessageId
    """The message. The first update with an id creates the message."""
    content: LenientItems[MaybeItems[ContentBlock]] = UNSET
    """The whole content. It replaces the content so far."""


class UserMessage(_Message):
    """The session update `user_message`: a message of the user."""

    session_update: Sent[Literal["user_message"]] = "user_message"


class AgentMessage(_Message):
    """The session update `agent_message`: a message of the agent."""

    session_update: Sent[Literal["agent_message"]] = "agent_message"


class AgentThought(_Message):
    """The session update `agent_thought`: thoughts of the agent."""

    session_update: Sent[Literal["agent_thought"]] = "agent_thought"


class ContentChunk(Model):
    """A chunk of a streamed message. Each of the three classes below is for one sender."""

    message_id: MessageId
    """The message to which the chunk is appended. Chunks of several messages may be interleaved."""
    content: ContentBlock
    """The content of the chunk."""


class UserMessageChunk(ContentChunk):
    """The session update `user_message_chunk`: a chunk of a message from the user."""

    session_update: Sent[Literal["user_message_chunk"]] = "user_message_chunk"


class AgentMessageChunk(ContentChunk):
    """The session update `agent_message_chunk`: a chunk of a message from the agent."""

    session_update: Sent[Literal["agent_message_chunk"]] = "agent_message_chunk"


class AgentThoughtChunk(ContentChunk):
    """The session update `agent_thought_chunk`: a chunk of a thought from the agent."""

    session_update: Sent[Literal["agent_thought_chunk"]] = "agent_thought_chunk"


SessionState = TypeAliasType(
    "SessionState", Annotated[Literal["running", "idle", "requires_action", "unknown"] | str, OpenEnum(extensible=True)]
)
"""The foreground state. A client shows the agent as busy in any state that it does not know; such a state is never
idle. `unknown`: the agent cannot confirm its state. It does not mean that work has ended."""

StopReason = TypeAliasType(
    "StopReason",
    Annotated[
        Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str,
        OpenEnum(extensible=True),
    ],
)
"""Why the foreground work ended. `cancelled`: only if the user or the client chose to stop it."""


class BackgroundTerminal(Model):
    """A command that continues in a terminal."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal."""


class BackgroundToolCall(Model):
    """A tool call that continues."""

    type: Sent[Literal["tool_call"]] = "tool_call"
    tool_call_id: ToolCallId
    """The call."""


class BackgroundSubagent(Model):
    """A child session that continues."""

    type: Sent[Literal["subagent"]] = "subagent"
    session_id: SessionId
    """The child."""


class UnknownBackgroundWork(Unknown):
    """A kind of background work that this version does not have."""

    type: UnknownTag


BackgroundWork = TypeAliasType(
    "BackgroundWork",
    Annotated[
        BackgroundTerminal | BackgroundToolCall | BackgroundSubagent | UnknownBackgroundWork,
        Tagged("type", extensible=True),
    ],
)
"""Background work, independent of the foreground, distinguished by `type`."""


class StateSnapshot(Model):
    """The state of a session's foreground.

    There is one class for all states: all fields except `state` may be absent, and for a state of a later version a
    client needs only `state`.
    """

    state: SessionState
    """The foreground state."""
    background: Lenient[MaybeItems[BackgroundWork]] = UNSET
    """All background work; None if the agent does not report it, `[]` if there is none."""
    stop_reason: Lenient[StopReason | None] = None
    """Why the foreground work ended. Only when idle."""
    error: Lenient[Error | None] = None
    """The error. Only with the stop reason `error`."""
    usage: Lenient[Usage | None] = None
    """The tokens that the ended work used. Only when idle."""


class StateUpdate(StateSnapshot):
    """The session update `state_update`: a snapshot. Repeating it changes nothing."""

    session_update: Sent[Literal["state_update"]] = "state_update"


class SubagentUpdate(Patch):
    """The session update `subagent_update`: a new child of the session, or a change of its description."""

    session_update: Sent[Literal["subagent_update"]] = "subagent_update"
    session_id: SessionId
    """The child session. The first update with an id makes that session a child of the session that is updated."""
    title: Lenient[str | None] = None
    """Its title, set by the parent."""
    description: Lenient[str | None] = None
    """The child's task, as a text for the user."""
    capabilities: Lenient[SubagentSessionCapabilities | None] = None
    """The requests that the client may send about the child. They replace earlier ones. If they were never set, the
    client may send no such request."""
    state: Lenient[StateSnapshot | None] = None
    """The child's state, as in the child's own `state_update`; None if it is no longer confirmed."""
    cwd: AbsolutePath | None = None
    """The child's working directory. If it is unset, the child has the parent's."""
    additional_directories: MaybeItems[AbsolutePath] = UNSET
    """More directories. If they are unset, the child has the parent's."""


class SessionMessage(Patch):
    """The session update `session_message`: a message from one session to another."""

    session_update: Sent[Literal["session_message"]] = "session_message"
    message_id: MessageId
    """The message, in the conversation of the session that is updated."""
    sender_session_id: Lenient[SessionId | None] = None
    """The sending session."""
    recipient_session_id: Lenient[SessionId | None] = None
    """The receiving session."""
    sender_message_id: Lenient[MessageId | None] = None
    """The same message in the sender's conversation."""
    recipient_message_id: Lenient[MessageId | None] = None
    """The same message in the recipient's conversation."""
    content: LenientItems[MaybeItems[ContentBlock]] = UNSET
    """The whole content. It replaces the content so far."""


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
    """The session's foreground state; None if the agent does not report it. Only if the session is open."""


PlanEntryPriority = TypeAliasType(
    "PlanEntryPriority", Annotated[Literal["high", "medium", "low"] | str, OpenEnum(extensible=True)]
)
"""The importance of a step. Custom priorities begin with `_`."""

PlanEntryStatus = TypeAliasType(
    "PlanEntryStatus",
    Annotated[Literal["pending", "in_progress", "completed", "cancelled"] | str, OpenEnum(extensible=True)],
)
"""The status of a step. Custom statuses begin with `_`."""


class PlanEntry(Model):
    """One step of a plan."""

    content: str
    """The goal of the step, as a text for the user."""
    priority: PlanEntryPriority
    """Its importance."""
    status: PlanEntryStatus
    """Its status."""


class PlanItems(Model):
    """A plan that is a list of steps."""

    type: Sent[Literal["items"]] = "items"
    plan_id: PlanId
    """The plan."""
    entries: Annotated[Items[PlanEntry], Wire(skip_items=True)]
    """All steps, in order, each with its current status."""


class UnknownPlan(Unknown):
    """A plan in a form that this version does not have. It replaces the previous plan."""

    type: UnknownTag
    plan_id: PlanId
    """The plan."""


PlanUpdateContent = TypeAliasType(
    "PlanUpdateContent", Annotated[PlanItems | UnknownPlan, Tagged("type", extensible=True)]
)
"""A whole plan, distinguished by `type`."""


class PlanUpdate(Model):
    """The session update `plan_update`: a plan, replacing the plan with the same id."""

    session_update: Sent[Literal["plan_update"]] = "plan_update"
    plan: PlanUpdateContent
    """The plan."""


class AvailableCommandsUpdate(Model):
    """The session update `available_commands_update`: all commands, replacing the previous ones."""

    session_update: Sent[Literal["available_commands_update"]] = "available_commands_update"
    available_commands: Annotated[Items[AvailableCommand], Wire(skip_items=True)]
    """All commands."""


class ConfigOptionUpdate(Model):
    """The session update `config_option_update`: all config options, replacing the previous ones."""

    session_update: Sent[Literal["config_option_update"]] = "config_option_update"
    config_options: Annotated[Items[SessionConfigOption], Wire(skip_items=True)]
    """All options with their current values."""


class SessionInfoUpdate(Patch):
    """The session update `session_info_update`: the session's title or time changes."""

    session_update: Sent[Literal["session_info_update"]] = "session_info_update"
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[Timestamp | None] = None
    """The time of the last activity, RFC 3339."""


class UsageUpdate(Patch):
    """The session update `usage_update`: the usage of the context window, and the cost.

    Only the cost is a patch: if it is unset, the last cost stays.
    """

    session_update: Sent[Literal["usage_update"]] = "usage_update"
    used: UInt64
    """Tokens in the context."""
    size: UInt64
    """Tokens that fit into the context."""
    cost: Lenient[Cost | None] = None
    """The cost of the session so far."""


class Notice(v1.Notice):
    """The session update `notice`: a message for the user outside of the session's history."""


class CompactionUpdate(Patch):
    """The session update `compaction_update`: the context is being compacted."""

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
"""A session update, distinguished by `sessionUpdate`."""


class UpdateSessionNotification(Model):
    """Parameters of `session/update`."""

    session_id: SessionId
    """The session."""
    update: SessionUpdate
    """The update."""

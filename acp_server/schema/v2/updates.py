"""`session/update`: what the agent shows the client (ACP v2, prompt lifecycle).

Messages, tool calls, terminals, plans and states have files of their own.
"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, LenientItems, Model, Sent, Unknown, Wire
from acp_server.schema.types import UInt64
from acp_server.schema.unions import Tagged
from acp_server.schema.updates import CompactionStatus, Cost, NoticeSeverity
from acp_server.schema.v2.config_options import SessionConfigOption
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.messages import (
    AgentMessage,
    AgentMessageChunk,
    AgentThought,
    AgentThoughtChunk,
    UserMessage,
    UserMessageChunk,
)
from acp_server.schema.v2.plan import PlanUpdate
from acp_server.schema.v2.session import AvailableCommand
from acp_server.schema.v2.state import StateUpdate
from acp_server.schema.v2.tool_call import TerminalOutputChunk, TerminalUpdate, ToolCallContentChunk, ToolCallProgress
from acp_server.schema.v2.types import CompactionId, Patch, SessionId, Timestamp


class AvailableCommandsUpdate(Model):
    """The session update `available_commands_update`: the commands, in the place of those before."""

    session_update: Sent[Literal["available_commands_update"]] = "available_commands_update"
    available_commands: Annotated[list[AvailableCommand], Wire(skip_items=True)]
    """All commands."""


class ConfigOptionUpdate(Model):
    """The session update `config_option_update`: the configuration options, in the place of those before."""

    session_update: Sent[Literal["config_option_update"]] = "config_option_update"
    config_options: Annotated[list[SessionConfigOption], Wire(skip_items=True)]
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


class Notice(Model):
    """The session update `notice`: tells the user something that is not part of the session's history."""

    session_update: Sent[Literal["notice"]] = "notice"
    severity: NoticeSeverity
    """How to show it."""
    title: str = Field(min_length=1)
    """Plain text that can stand alone."""
    description: Lenient[str | None] = None
    """More of it, plain text."""


class CompactionUpdate(Patch):
    """The session update `compaction_update`: the context is being shortened."""

    session_update: Sent[Literal["compaction_update"]] = "compaction_update"
    compaction_id: CompactionId
    """The compaction; the first update with an id puts it into the history."""
    status: CompactionStatus
    """How far it is."""
    summary: LenientItems[list[ContentBlock] | None] = None
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

    session_update: str


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

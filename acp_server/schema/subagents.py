"""Child sessions (protocol: subagents): how a session announces them, and messages between sessions.

In the protocol, these types are stable since the schema 1.34.0. Here they have the unstable form of the newest
published schema.
"""

from typing import Annotated, ClassVar, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import UNSET, Lenient, LenientItems, MaybeItems, Model, Sent, Sparse
from acp_server.schema.content import ContentBlock, Usage
from acp_server.schema.types import Error, MessageId, SessionId
from acp_server.schema.words import OpenEnum


class SessionCancelCapabilities(Model):
    """The client may cancel the session's work."""


class SubagentSessionCapabilities(Model):
    """The requests that the client may send about a child session. Other requests that change the child are refused."""

    cancel: Lenient[SessionCancelCapabilities | None] = None
    """`session/cancel`, which does not close the session."""


SubagentActivity = TypeAliasType(
    "SubagentActivity",
    Annotated[Literal["running", "idle", "requires_action", "unknown"] | str, OpenEnum(extensible=True)],
)
"""The activity of a child session. `unknown`: the agent cannot confirm the activity. It does not mean that work has
ended."""

SubagentStopReason = TypeAliasType(
    "SubagentStopReason",
    Annotated[
        Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str,
        OpenEnum(extensible=True),
    ],
)
"""Why the work of a child session ended."""


class SubagentState(Model):
    """The state of a child session, as a snapshot. An idle child can be given work again.

    There is one class for all states, as in version 2.
    """

    state: SubagentActivity
    """Its activity."""
    stop_reason: Lenient[SubagentStopReason | None] = None
    """Why its work ended. Only when idle."""
    error: Lenient[Error | None] = None
    """The error. Only with the stop reason `error`."""
    usage: Lenient[Usage | None] = None
    """The tokens that the ended work used. Only when idle."""


class SubagentUpdate(Sparse, Model):
    """The session update `subagent_update`: a new child of the session, or a change of its description.

    Only for clients with `subagents`. Members that are set change, and null clears a member.
    """

    NULLABLE: ClassVar[frozenset[str]] = frozenset(
        {"title", "description", "capabilities", "state", "cwd", "additional_directories", "meta"}
    )

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
    state: Lenient[SubagentState | None] = None
    """The child's state; None if it is no longer confirmed."""
    cwd: str | None = None
    """The child's working directory, an absolute path. If it is unset, the child has the parent's."""
    additional_directories: MaybeItems[str] = UNSET
    """Absolute paths of more directories. If they are unset, the child has the parent's."""


class SessionMessage(Sparse, Model):
    """The session update `session_message`: a message from one session to another.

    Only for clients with `subagents`. Members that are set change, and null clears a member.
    """

    NULLABLE: ClassVar[frozenset[str]] = frozenset(
        {
            *("sender_session_id", "recipient_session_id", "sender_message_id", "recipient_message_id"),
            *("content", "meta"),
        }
    )

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
    """The whole content, replacing the content so far."""


class SessionMessageChunk(Model):
    """The session update `session_message_chunk`: one more block of such a message. Only for clients with
    `subagents`."""

    session_update: Sent[Literal["session_message_chunk"]] = "session_message_chunk"
    message_id: MessageId
    """The message."""
    content: ContentBlock
    """The block to append."""

"""Child sessions (protocol: subagents): how a session tells of them, and what sessions say to each other.

The protocol has these as stable since the schema 1.34.0. They are written from its unstable form in the newest schema
that can be had.
"""

from typing import Annotated, ClassVar, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import UNSET, Lenient, LenientItems, MaybeItems, Model, Sent, Sparse
from acp_server.schema.content import ContentBlock, Usage
from acp_server.schema.types import Error, MessageId, SessionId
from acp_server.schema.words import OpenEnum


class SessionCancelCapabilities(Model):
    """The client may cancel what the session works on."""


class SubagentSessionCapabilities(Model):
    """What the client may do to one child session. All else that changes it is refused."""

    cancel: Lenient[SessionCancelCapabilities | None] = None
    """`session/cancel`, which leaves the session as it is."""


SubagentActivity = TypeAliasType(
    "SubagentActivity",
    Annotated[Literal["running", "idle", "requires_action", "unknown"] | str, OpenEnum(extensible=True)],
)
"""What a child session does. `unknown`: the agent has lost sight of it, which ends nothing."""

SubagentStopReason = TypeAliasType(
    "SubagentStopReason",
    Annotated[
        Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str,
        OpenEnum(extensible=True),
    ],
)
"""Why the work of a child session ended."""


class SubagentState(Model):
    """The state of a child session, as a snapshot. An idle one can be given work again.

    One class for every state, as in version 2.
    """

    state: SubagentActivity
    """What it does."""
    stop_reason: Lenient[SubagentStopReason | None] = None
    """Why its work ended. Only when idle."""
    error: Lenient[Error | None] = None
    """What went wrong. Only with the stop reason `error`."""
    usage: Lenient[Usage | None] = None
    """What the work that has ended has cost. Only when idle."""


class SubagentUpdate(Sparse, Model):
    """The session update `subagent_update`: the session has this child, or what is known of the child changes.

    Only for clients with `subagents`. What is set changes, an explicit None clears.
    """

    NULLABLE: ClassVar[frozenset[str]] = frozenset(
        {"title", "description", "capabilities", "state", "cwd", "additional_directories", "meta"}
    )

    session_update: Sent[Literal["subagent_update"]] = "subagent_update"
    session_id: SessionId
    """The child. The first update with an id makes it a child of the session that the update belongs to."""
    title: Lenient[str | None] = None
    """What the parent calls it."""
    description: Lenient[str | None] = None
    """What it is for, in words for the user."""
    capabilities: Lenient[SubagentSessionCapabilities | None] = None
    """What the client may do to it, in the place of what was said before; nothing if that was never said."""
    state: Lenient[SubagentState | None] = None
    """What it does; None if that is not confirmed any more."""
    cwd: str | None = None
    """Where it works, an absolute path. Unset, it works where its parent does."""
    additional_directories: MaybeItems[str] = UNSET
    """Absolute paths of more directories. Unset, it has those of its parent."""


class SessionMessage(Sparse, Model):
    """The session update `session_message`: what one session says to another.

    Only for clients with `subagents`. What is set changes, an explicit None clears.
    """

    NULLABLE: ClassVar[frozenset[str]] = frozenset(
        {
            *("sender_session_id", "recipient_session_id", "sender_message_id", "recipient_message_id"),
            *("content", "meta"),
        }
    )

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
    """The session update `session_message_chunk`: one more block of such a message. Only for clients with
    `subagents`."""

    session_update: Sent[Literal["session_message_chunk"]] = "session_message_chunk"
    message_id: MessageId
    """The message."""
    content: ContentBlock
    """The block to append."""

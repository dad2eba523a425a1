"""One turn: `session/prompt`, its stop reason, and the two cancels (protocol: prompt turn, cancellation)."""

from typing import Annotated, ClassVar, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Model, Sparse
from acp_server.schema.content import ContentBlock
from acp_server.schema.types import RequestId, SessionId
from acp_server.schema.unions import OpenEnum

__all__ = [
    "CancelNotification",
    "CancelRequestNotification",
    "PromptRequest",
    "PromptResponse",
    "StopReason",
]

StopReason = TypeAliasType(
    "StopReason",
    Annotated[
        Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] | str,
        OpenEnum(),
    ],
)
"""Why a turn ended: `cancelled` answers the client's cancel, `refusal` takes the prompt out of the context."""


class PromptRequest(Model):
    """Parameters of `session/prompt`: the user says something, and a turn begins."""

    session_id: SessionId
    """The session."""
    prompt: list[ContentBlock]
    """What the user says. Text and resource links always, other content as the agent announced."""


class PromptResponse(Model):
    """Result of `session/prompt`: the turn is over."""

    stop_reason: StopReason
    """Why it ended."""


class CancelNotification(Model):
    """Parameters of `session/cancel`: stop the turn of this session. Its prompt answers `cancelled`."""

    session_id: SessionId
    """The session."""


class CancelRequestNotification(Sparse, Model):
    """Parameters of `$/cancel_request`: stop working on one request. Either side sends it."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    request_id: RequestId
    """The id of a request that the sender of this notification has made."""

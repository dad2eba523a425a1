"""`session/prompt` and the two cancels that are as old as it (ACP v2, prompt lifecycle, cancellation)."""

from typing import Annotated

from pydantic import Field

from acp_server.schema.base import Model
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.types import MessageId, RequestId, SessionId


class PromptRequest(Model):
    """Parameters of `session/prompt`: the user says something."""

    session_id: SessionId
    """The session."""
    prompt: Annotated[list[ContentBlock], Field(min_length=1)]
    """What the user says. Text and resource links always, other content as the agent announced."""


class PromptResponse(Model):
    """Result of `session/prompt`: the message is part of the conversation. The work on it may go on for long."""

    message_id: MessageId
    """The user's message in the conversation."""


class CancelSessionNotification(Model):
    """Parameters of `session/cancel`: stop the foreground work of this session, and the prompts that it still holds."""

    session_id: SessionId
    """The session."""


class CancelRequestNotification(Model):
    """Parameters of `$/cancel_request`: stop working on one request. Either side sends it."""

    request_id: RequestId
    """The id of a request that the sender of this notification has made."""

"""Messages: whole, and as they stream (ACP v2, prompt lifecycle).

An id belongs to one kind of message: a message of the user and one of the agent may have the same.
"""

from typing import Literal

from acp_server.schema.base import LenientItems, Model, Sent
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.types import MessageId, Patch


class _Message(Patch):
    """What every kind of message has."""

    message_id: MessageId
    """The message; the first update with an id makes it."""
    content: LenientItems[list[ContentBlock] | None] = None
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

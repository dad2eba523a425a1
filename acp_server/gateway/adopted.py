"""A chat that waits for tool outputs and was left by its node: what another node takes it up with.

The agent that asked is gone, so another one is told what was said, what was asked and what the answer is.
"""

from __future__ import annotations

from typing import NamedTuple

from acp_server.gateway.bodies import ToolOutput
from acp_server.gateway.conversations import Lease
from acp_server.gateway.errors import not_waiting
from acp_server.gateway.ids import Ids
from acp_server.gateway.live_chat import check_outputs
from acp_server.gateway.messages import ANSWER, QUESTION, Message
from acp_server.gateway.records import Chat, Status
from acp_server.gateway.reply import Reply
from acp_server.gateway.rows import Rows


class Adopted(NamedTuple):
    """What the chat goes on with."""

    chat: Chat
    """As it is in the store."""
    lease: Lease
    query: Message | None
    """The message that it replies to, if that was there before."""
    prompt: list[Message]
    """What was said in it, and at last the answer."""
    responses: list[Message]
    """What is told of it."""


def adopt(rows: Rows, ids: Ids, chat: Chat, outputs: list[ToolOutput], bot: str, node: int) -> Adopted:
    """Let this node have the chat. Raises ApiError if the outputs do not fit, NotOurs, Occupied."""
    given = check_outputs(outputs, [call["id"] for call in chat.tool_calls])
    moved = chat.moved(Status.IN_PROGRESS)
    conversation = rows.conversation(chat.conversation_id)
    if moved is None or conversation is None:
        raise not_waiting(chat.status)
    rows.adopt_chat(chat, moved, node)
    said = [message for message in rows.messages_of(chat.id) if message.type in (QUESTION, ANSWER) and message.content]
    query = None if chat.query_id is None else rows.message(conversation.id, chat.query_id)
    responses = [each for each in Reply(chat, ids).answered(list(given.values())) if isinstance(each, Message)]
    for message in responses:
        rows.add_message(message)
    lease = Lease(conversation.id, chat.section_id, bot, conversation.revision, None)
    prompt = [*([query] if query is not None else []), *said, _answer(chat, ids, given)]
    return Adopted(moved, lease, query, prompt, responses)


def _answer(chat: Chat, ids: Ids, given: dict[str, str]) -> Message:
    parts = ["You were interrupted while you waited for an answer. Go on from there."]
    for call in chat.tool_calls:
        function = call["function"]
        parts.append(f"You asked ({function['name']}): {function['arguments']}\nThe answer: {given[call['id']]}")
    content = "\n\n".join(parts)
    return Message(ids.new(), chat.conversation_id, chat.section_id, role="user", type=QUESTION, content=content)

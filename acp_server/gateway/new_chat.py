"""A chat in the moment in which it is added to the store, with what its client brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from acp_server.gateway.auth import Caller
from acp_server.gateway.bodies import ChatBody, ConversationBody
from acp_server.gateway.conversations import Conversations, Lease
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.ids import Ids
from acp_server.gateway.messages import QUESTION, Message
from acp_server.gateway.records import Chat, Conversation, Status
from acp_server.gateway.rows import Rows


class NewChat(NamedTuple):
    """What a chat begins with."""

    chat: Chat
    """As it was created."""
    running: Chat
    """As it is in the store."""
    lease: Lease
    query: Message | None
    """The message that it replies to, if that was there before."""
    given: list[Message]
    """What its client brings. The last one is what it replies to, without `query`."""


def add(
    rows: Rows,
    ids: Ids,
    conversations: Conversations,
    caller: Caller,
    conversation_id: str | None,
    body: ChatBody,
    bot: str,
    node: int,
    refuse: Callable[[Rows], None],
) -> NewChat:
    """Add a chat, in a new conversation without `conversation_id`. Raises ApiError, NotOurs, Occupied, and what
    `refuse` does, once it is clear that the caller may know of the conversation."""
    conversation = conversations.find(rows, caller, conversation_id) if conversation_id else None
    if conversation is not None:
        rows.check_free(conversation.id)
    refuse(rows)
    query: Message | None = None
    if not body.additional_messages:
        query = _last_question(rows, conversation)
    elif body.additional_messages[-1].role != "user":
        raise ApiError(Code.BAD_PARAMETER, "additional_messages: the last one has to be the user's")
    if conversation is None:
        name = body.additional_messages[-1].content[:50]
        conversation = conversations.create(rows, caller, ConversationBody(bot_id=body.bot_id, name=name))
    chat = Chat(
        id=ids.new(),
        conversation_id=conversation.id,
        section_id=conversation.section_id,
        bot_id=body.bot_id,
        owner=caller.name,
        saved=body.auto_save_history,
        query_id=None if query is None else query.id,
        meta_data=body.meta_data,
    )
    running = chat.moved(Status.IN_PROGRESS)
    assert running is not None
    given = [conversations.message(conversation, message) for message in body.additional_messages]
    for message in given:
        message.chat_id, message.bot_id = chat.id, chat.bot_id
    rows.add_chat(running, node)
    if chat.saved:
        lease = conversations.take_session(rows, conversation, bot)
        for message in given:
            rows.add_message(message)
    else:
        # In a session of its own, so that no later chat hears of it.
        lease = Lease(conversation.id, conversation.section_id, bot, conversation.revision, None)
    return NewChat(chat, running, lease, query, given)


def _last_question(rows: Rows, conversation: Conversation | None) -> Message:
    if conversation is not None:
        last = rows.last_said(conversation.id, conversation.section_id)
        if last is not None and last.role == "user" and last.type == QUESTION:
            return last
    raise ApiError(Code.BAD_PARAMETER, "there is no message to reply to")


def meta(chat: Chat, body: ChatBody | None = None) -> dict[str, Any]:
    """What an agent is told of a chat beside the prompt; what the request says only while its body is known."""
    ids = {"chat_id": chat.id, "conversation_id": chat.conversation_id, "bot_id": chat.bot_id}
    if body is None:
        return ids
    more = {"meta_data": body.meta_data, "custom_variables": body.custom_variables, "parameters": body.parameters}
    return {**ids, "user_id": body.user_id} | {key: value for key, value in more.items() if value}

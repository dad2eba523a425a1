"""What `/v1/conversation...` and the calls below it answer."""

from __future__ import annotations

from acp_server.gateway.bodies import ConversationBody, EnterMessage, ListBody, ModifyBody, RenameBody
from acp_server.gateway.call import Answer, Call
from acp_server.gateway.limits import PAGE


async def create(call: Call) -> Answer:
    """A new conversation."""
    return Answer(call.gateway.conversations.create(call.caller, await call.body(ConversationBody)).to_wire())


async def retrieve(call: Call) -> Answer:
    """A conversation."""
    return Answer(call.gateway.conversations.find(call.caller, call.query("conversation_id")).to_wire())


async def page(call: Call) -> Answer:
    """The conversations, page by page."""
    number, size = call.number("page_num", 1), call.number("page_size", PAGE, PAGE)
    found, more = call.gateway.conversations.page(call.caller, call.query("bot_id"), number, size)
    return Answer({"has_more": more, "conversations": [conversation.to_wire() for conversation in found]})


async def rename(call: Call) -> Answer:
    """Name a conversation."""
    body = await call.body(RenameBody)
    return Answer(call.gateway.conversations.rename(call.caller, call.path("id"), body.name).to_wire())


async def delete(call: Call) -> Answer:
    """Delete a conversation with everything in it."""
    call.gateway.chats.delete_conversation(call.caller, call.path("id"))
    return Answer({})


async def clear(call: Call) -> Answer:
    """Begin a new section."""
    conversation = call.gateway.conversations.clear(call.caller, call.path("id"))
    return Answer({"id": conversation.section_id, "conversation_id": conversation.id})


async def create_message(call: Call) -> Answer:
    """Insert a message."""
    body = await call.body(EnterMessage)
    message = call.gateway.conversations.add_message(call.caller, call.query("conversation_id"), body)
    return Answer(message.to_wire())


async def list_messages(call: Call) -> Answer:
    """The messages, page by page."""
    body = await call.body(ListBody)
    found, more = call.gateway.conversations.list_messages(call.caller, call.query("conversation_id"), body)
    first, last = (found[0].id, found[-1].id) if found else ("", "")
    paging = {"first_id": first, "last_id": last, "has_more": more}
    return Answer([message.to_wire() for message in found], paging)


async def retrieve_message(call: Call) -> Answer:
    """A message."""
    conversations = call.gateway.conversations
    found = conversations.find_message(call.caller, call.query("conversation_id"), call.query("message_id"))
    return Answer(found.to_wire())


async def modify_message(call: Call) -> Answer:
    """Change a message. The documented place of the message is beside `data`."""
    body = await call.body(ModifyBody)
    conversations = call.gateway.conversations
    changed = conversations.modify_message(call.caller, call.query("conversation_id"), call.query("message_id"), body)
    return Answer({}, {"message": changed.to_wire()})


async def delete_message(call: Call) -> Answer:
    """Remove a message."""
    conversations = call.gateway.conversations
    removed = conversations.delete_message(call.caller, call.query("conversation_id"), call.query("message_id"))
    return Answer(removed.to_wire())

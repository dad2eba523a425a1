"""What `/v3/chat` and the calls below it answer."""

from __future__ import annotations

from acp_server.gateway.bodies import CancelBody, ChatBody, SubmitBody
from acp_server.gateway.call import Answer, Call
from acp_server.gateway.chats import Begun
from acp_server.gateway.events import Listener


async def create(call: Call) -> Answer | Listener:
    """Begin a chat."""
    call.gateway.check_open()
    body = await call.body(ChatBody)
    return _begun(call.gateway.chats.create(call.caller, call.query("conversation_id"), body))


async def retrieve(call: Call) -> Answer:
    """A chat as it is now."""
    chat = call.gateway.chats.retrieve(call.caller, call.query("conversation_id"), call.query("chat_id"))
    return Answer(chat.to_wire())


async def messages(call: Call) -> Answer:
    """What a chat has produced."""
    found = call.gateway.chats.messages(call.caller, call.query("conversation_id"), call.query("chat_id"))
    return Answer([message.to_wire() for message in found])


async def submit(call: Call) -> Answer | Listener:
    """Answer what a chat waits for."""
    body = await call.body(SubmitBody)
    chats = call.gateway.chats
    return _begun(chats.submit(call.caller, call.query("conversation_id"), call.query("chat_id"), body))


async def cancel(call: Call) -> Answer:
    """Cancel a chat."""
    body = await call.body(CancelBody)
    chat = await call.gateway.chats.cancel(call.caller, body.conversation_id, body.chat_id)
    return Answer(chat.to_wire())


def _begun(begun: Begun) -> Answer | Listener:
    chat, listener = begun
    return Answer(chat) if listener is None else listener

"""What the gateway answers: `/v3/chat` and below it, `/v1/conversation...` and below it, and what is asked of itself.

The probes whether it lives and takes chats say nothing that is of use to a stranger, so they want no token. The numbers
want one that permits `metrics`: behind a proxy every request comes from this machine, which says nothing of the client.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from acp_server.gateway.auth import METRICS
from acp_server.gateway.bodies import (
    CancelBody,
    ChatBody,
    ConversationBody,
    EnterMessage,
    ListBody,
    ModifyBody,
    RenameBody,
    SubmitBody,
)
from acp_server.gateway.call import Answer, Call
from acp_server.gateway.chats import Begun
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.events import Listener
from acp_server.gateway.gateway import Gateway
from acp_server.gateway.limits import PAGE
from acp_server.gateway.metrics import CONTENT_TYPE


async def create_chat(call: Call) -> Answer | Listener:
    """Begin a chat."""
    call.gateway.check_open()
    body = await call.body(ChatBody)
    return _begun(call.gateway.chats.create(call.caller, call.query("conversation_id"), body))


async def retrieve_chat(call: Call) -> Answer:
    """A chat as it is now."""
    chat = call.gateway.chats.retrieve(call.caller, call.query("conversation_id"), call.query("chat_id"))
    return Answer(chat.to_wire())


async def list_chat_messages(call: Call) -> Answer:
    """What a chat has produced."""
    found = call.gateway.chats.messages(call.caller, call.query("conversation_id"), call.query("chat_id"))
    return Answer([message.to_wire() for message in found])


async def submit_tool_outputs(call: Call) -> Answer | Listener:
    """Answer what a chat waits for."""
    body = await call.body(SubmitBody)
    chats = call.gateway.chats
    return _begun(chats.submit(call.caller, call.query("conversation_id"), call.query("chat_id"), body))


async def cancel_chat(call: Call) -> Answer:
    """Cancel a chat."""
    body = await call.body(CancelBody)
    chat = await call.gateway.chats.cancel(call.caller, body.conversation_id, body.chat_id)
    return Answer(chat.to_wire())


def _begun(begun: Begun) -> Answer | Listener:
    chat, listener = begun
    return Answer(chat) if listener is None else listener


async def create_conversation(call: Call) -> Answer:
    """A new conversation."""
    return Answer(call.gateway.conversations.create(call.caller, await call.body(ConversationBody)).to_wire())


async def retrieve_conversation(call: Call) -> Answer:
    """A conversation."""
    return Answer(call.gateway.conversations.find(call.caller, call.query("conversation_id")).to_wire())


async def list_conversations(call: Call) -> Answer:
    """The conversations, page by page."""
    number, size = call.number("page_num", 1), call.number("page_size", PAGE, PAGE)
    found, more = call.gateway.conversations.page(call.caller, call.query("bot_id"), number, size)
    return Answer({"has_more": more, "conversations": [conversation.to_wire() for conversation in found]})


async def rename_conversation(call: Call) -> Answer:
    """Name a conversation."""
    body = await call.body(RenameBody)
    return Answer(call.gateway.conversations.rename(call.caller, call.path("id"), body.name).to_wire())


async def delete_conversation(call: Call) -> Answer:
    """Delete a conversation with everything in it."""
    call.gateway.chats.delete_conversation(call.caller, call.path("id"))
    return Answer({})


async def clear_conversation(call: Call) -> Answer:
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


def probes(gateway: Gateway) -> list[BaseRoute]:
    """Their routes."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        return PlainTextResponse("ending", 503) if gateway.is_draining else PlainTextResponse("ok")

    async def metrics(request: Request) -> Response:
        try:
            gateway.tokens.caller(request.headers.get("authorization")).need(METRICS)
        except ApiError as error:
            return PlainTextResponse(error.msg, 401 if error.code == Code.UNAUTHENTICATED else 403)
        return Response(gateway.metrics.text(), media_type=CONTENT_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]

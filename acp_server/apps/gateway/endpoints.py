"""The handlers of the API: `/v3/chat...` and `/v1/conversation...`.

`endpoint` makes the function for starlette from a handler. A handler gets an `ApiCall` with the caller, the parameters
and the body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from acp_server.apps.gateway import errors
from acp_server.apps.gateway.auth import Caller
from acp_server.apps.gateway.bodies import (
    PAGE,
    CancelBody,
    ChatBody,
    ConversationBody,
    EnterMessage,
    ListBody,
    ModifyBody,
    RenameBody,
    SubmitBody,
    read,
)
from acp_server.apps.gateway.chats import Begun, Elsewhere
from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.apps.gateway.events import FORWARDED, Forwarded
from acp_server.apps.gateway.gateway import Gateway
from acp_server.apps.gateway.messages import TooDeep, whole_json
from acp_server.apps.gateway.nodes import url_of
from acp_server.apps.gateway.rows import Rows
from acp_server.http.events import EventQueue, EventStream
from acp_server.wire.codec import DecodeError, decode

_B = TypeVar("_B", bound=Any)
P = ParamSpec("P")
T = TypeVar("T")
_MOST_PAGES = 10**9


@dataclass(frozen=True, slots=True)
class Answer:
    """The `data` of a successful response, and further fields of the response."""

    data: Any
    more: dict[str, Any] = field(default_factory=dict[str, Any])


Handler = Callable[["ApiCall"], Awaitable["Answer | EventQueue | Response"]]


class ApiCall:
    """The input of a handler."""

    def __init__(self, gateway: Gateway, caller: Caller, request: Request) -> None:
        self.gateway = gateway
        self.caller = caller
        self._request = request

    async def kept(self, work: Callable[Concatenate[Rows, Caller, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` for the caller as one transaction of the store. Returns its result."""
        return await self.gateway.store.do(work, self.caller, *args, **kwargs)

    def query(self, name: str) -> str | None:
        """Return a parameter of the URL; None if it is missing."""
        return self._request.query_params.get(name)

    def place(self, of: str) -> tuple[str | None, str | None]:
        """Return the id of the conversation in the URL, and the id of the object in it. `of`: `chat_id` or
        `message_id`."""
        return self.query("conversation_id"), self.query(of)

    def number(self, name: str, default: int, most: int = _MOST_PAGES) -> int:
        """Return a numeric parameter of the URL, from 1 to `most`. Raises ApiError."""
        text = self.query(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
            raise ApiError(Code.BAD_PARAMETER, f"{name} has to be a number from 1 to {most}")
        return int(text)

    def path(self, name: str) -> str:
        """Return a parameter of the URL's path."""
        return self._request.path_params[name]

    async def forward(self, url: str, body: bytes) -> Forwarded:
        """Forward the request to another node. Raises ApiError if that node cannot be reached, or if the request was
        already forwarded to this node."""
        request = self._request
        if FORWARDED in dict(request.scope["headers"]):
            raise ApiError(Code.BUSY, "the chat changes from one gateway to another; try again later")
        target = f"{request.url.path}?{request.url.query}"
        running = self.gateway.forwarded
        return await Forwarded(url, target, request.headers["authorization"], body, running).connect()

    async def body(self, kind: type[_B]) -> _B:
        """Read the body and validate it as one of the classes of `bodies`. Raises ApiError."""
        limits = self.gateway.limits
        with anyio.move_on_after(limits.body_seconds):
            text = await _read(self._request, limits.body)
            if not text:
                return read(kind, None)
            try:
                data = whole_json(decode(text))
            except DecodeError:
                raise ApiError(Code.BAD_PARAMETER, "the body is not JSON") from None
            except TooDeep:
                raise ApiError(Code.BAD_PARAMETER, "the body is nested too deep") from None
            return read(kind, data)
        raise ApiError(Code.BAD_PARAMETER, f"the body did not arrive within {limits.body_seconds:g} s")


def endpoint(gateway: Gateway, path: str, permission: str, handler: Handler) -> Callable[[Request], Awaitable[ASGIApp]]:
    """Return the function that starlette calls for a route."""

    async def respond(request: Request) -> ASGIApp:
        state = request.scope["state"]
        state["route"] = path
        logid: str = state["logid"]
        try:
            caller = gateway.tokens.caller(request.headers.get("authorization"))
            state["caller"] = caller.name
            caller.need(permission)
            result = await handler(ApiCall(gateway, caller, request))
        except ApiError as error:
            state["code"] = error.code.value
            answer = _json(errors.failure(error, logid), 200 if error.retry_after is None else 503)
            if error.retry_after is not None:
                answer.headers["Retry-After"] = str(error.retry_after)
            return answer
        except ClientDisconnect:
            return Response()
        except Exception as error:
            errors.log_fault(error, "logid %s: the request failed", logid)
            state["code"] = Code.INTERNAL.value
            return _json(errors.failure(ApiError(Code.INTERNAL, "internal error"), logid))
        state["code"] = 0
        if isinstance(result, EventQueue):
            return EventStream(result)
        if isinstance(result, Response):
            return result
        return _json(errors.success(result.data, logid, **result.more))

    return respond


async def refuse(request: Request, error: Exception) -> Response:
    """Respond that the route does not exist, or does not support this method."""
    status = getattr(error, "status_code", 500)
    request.scope["state"]["code"] = code = Code.BAD_PARAMETER if status == 405 else Code.NOT_FOUND
    answer = _json(errors.failure(ApiError(code, "the API has no such call"), request.scope["state"]["logid"]), status)
    if status == 405:
        answer.headers["Allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request) -> list[str]:
    """Return the methods of the route at this path."""
    routes: list[Route] = request.app.routes
    here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in here for method in route.methods or ()})


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


async def _read(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise ApiError(Code.BAD_PARAMETER, f"the body is longer than {most} bytes")
        parts.append(part)
    return b"".join(parts)


async def create_chat(call: ApiCall) -> Answer | EventQueue:
    """Begin a chat."""
    body = await call.body(ChatBody)
    return _begun(await call.gateway.chats.create(call.caller, call.query("conversation_id"), body))


async def retrieve_chat(call: ApiCall) -> Answer:
    """Return the present state of a chat."""
    chat = await call.gateway.chats.retrieve(call.caller, *call.place("chat_id"))
    return Answer(chat.to_wire())


async def list_chat_messages(call: ApiCall) -> Answer:
    """Return the messages of a chat."""
    found = await call.gateway.chats.messages(call.caller, *call.place("chat_id"))
    return Answer([message.to_wire() for message in found])


async def submit_tool_outputs(call: ApiCall) -> Answer | EventQueue | Response:
    """Submit the tool outputs that a chat waits for."""
    body = await call.body(SubmitBody)
    cluster = call.gateway.cluster
    while True:
        try:
            return _begun(await cluster.submit(call.caller, *call.place("chat_id"), body))
        except Elsewhere as elsewhere:
            if (url := await call.gateway.store.do(url_of, elsewhere.node)) is not None:
                return await call.forward(url, body.model_dump_json().encode())


async def cancel_chat(call: ApiCall) -> Answer:
    """Cancel a chat."""
    body = await call.body(CancelBody)
    return Answer(await call.gateway.cluster.cancel(call.caller, body.conversation_id, body.chat_id))


def _begun(begun: Begun) -> Answer | EventQueue:
    chat, listener = begun
    return Answer(chat) if listener is None else listener


async def create_conversation(call: ApiCall) -> Answer:
    """Create a conversation."""
    body = await call.body(ConversationBody)
    return Answer((await call.kept(call.gateway.conversations.create, body)).to_wire())


async def retrieve_conversation(call: ApiCall) -> Answer:
    """Return a conversation."""
    found = await call.kept(call.gateway.conversations.find, call.query("conversation_id"))
    return Answer(found.to_wire())


async def list_conversations(call: ApiCall) -> Answer:
    """Return a page of the conversations."""
    number, size = call.number("page_num", 1), call.number("page_size", PAGE, PAGE)
    found, more = await call.kept(call.gateway.conversations.page, call.query("bot_id"), number, size)
    return Answer({"has_more": more, "conversations": [conversation.to_wire() for conversation in found]})


async def rename_conversation(call: ApiCall) -> Answer:
    """Rename a conversation."""
    body = await call.body(RenameBody)
    renamed = await call.kept(call.gateway.conversations.rename, call.path("id"), body.name)
    return Answer(renamed.to_wire())


async def delete_conversation(call: ApiCall) -> Answer:
    """Delete a conversation with everything in it."""
    await call.gateway.cluster.delete_conversation(call.caller, call.path("id"))
    return Answer({})


async def clear_conversation(call: ApiCall) -> Answer:
    """Begin a new section."""
    conversation = await call.kept(call.gateway.conversations.clear, call.path("id"))
    return Answer({"id": conversation.section_id, "conversation_id": conversation.id})


async def create_message(call: ApiCall) -> Answer:
    """Insert a message."""
    body = await call.body(EnterMessage)
    message = await call.kept(call.gateway.conversations.add_message, call.query("conversation_id"), body)
    return Answer(message.to_wire())


async def list_messages(call: ApiCall) -> Answer:
    """Return a page of messages."""
    body = await call.body(ListBody)
    found, more = await call.kept(call.gateway.conversations.list_messages, call.query("conversation_id"), body)
    first, last = (found[0].id, found[-1].id) if found else ("", "")
    paging = {"first_id": first, "last_id": last, "has_more": more}
    return Answer([message.to_wire() for message in found], paging)


async def retrieve_message(call: ApiCall) -> Answer:
    """Return a message."""
    found = await call.kept(call.gateway.conversations.find_message, *call.place("message_id"))
    return Answer(found.to_wire())


async def modify_message(call: ApiCall) -> Answer:
    """Change a message. As the API's documentation requires, the message is not inside `data`."""
    body = await call.body(ModifyBody)
    changed = await call.kept(call.gateway.conversations.modify_message, *call.place("message_id"), body)
    return Answer({}, {"message": changed.to_wire()})


async def delete_message(call: ApiCall) -> Answer:
    """Remove a message."""
    removed = await call.kept(call.gateway.conversations.delete_message, *call.place("message_id"))
    return Answer(removed.to_wire())

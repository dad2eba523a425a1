"""What clients want of a chat, whichever node has it: done here, or wanted of that node as a command."""

from __future__ import annotations

from typing import Any

from acp_server.gateway.auth import Caller
from acp_server.gateway.bodies import SubmitBody
from acp_server.gateway.chat_rows import Elsewhere
from acp_server.gateway.chats import Begun, Chats
from acp_server.gateway.commands import Commands, Doc
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.nodes import Node
from acp_server.gateway.records import Status
from acp_server.gateway.store import Engine, Store


class Everywhere:
    """The chats of all nodes."""

    def __init__(self, store: Store, engine: Engine, node: Node, chats: Chats) -> None:
        self._chats = chats
        self._commands = Commands(store, engine, node, self._apply)

    async def run(self) -> None:
        """Do what other nodes want."""
        await self._commands.run()

    async def cancel(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> dict[str, Any]:
        """See `Chats.cancel`."""
        while True:
            try:
                return (await self._chats.cancel(caller, conversation_id, chat_id)).to_wire()
            except Elsewhere as elsewhere:
                answer = await self._ask(elsewhere, "cancel", caller)
            if answer is not None:
                return answer
            # The node is gone. Was this its last work?
            chat = await self._chats.retrieve(caller, conversation_id, chat_id)
            if chat.status is Status.CANCELED:
                return chat.to_wire()

    async def submit(self, caller: Caller, conversation_id: str | None, chat_id: str | None, body: SubmitBody) -> Begun:
        """See `Chats.submit`. Raises Elsewhere for a stream, which only the node that has the chat can give."""
        while True:
            try:
                return await self._chats.submit(caller, conversation_id, chat_id, body)
            except Elsewhere as elsewhere:
                if body.stream:
                    raise
                answer = await self._ask(elsewhere, "submit", caller, body=body.model_dump())
            if answer is not None:
                return answer, None

    async def delete_conversation(self, caller: Caller, id: str) -> None:
        """See `Chats.delete_conversation`."""
        for chat_id, node in await self._chats.delete_conversation(caller, id):
            await self._commands.ask(node, {"what": "discard", "chat_id": chat_id})
        # The last chat may have ended by itself meanwhile.
        await self._chats.purge(id)

    async def _ask(self, elsewhere: Elsewhere, what: str, caller: Caller, **more: Any) -> dict[str, Any] | None:
        """What the node that has the chat answers; None if it is gone. Raises ApiError."""
        chat = elsewhere.chat
        place = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
        answer = await self._commands.ask(elsewhere.node, {"what": what, "caller": caller.name, **place, **more})
        if answer is not None and "code" in answer:
            raise ApiError(Code(answer["code"]), answer["msg"])
        return None if answer is None else answer.get("chat")

    async def _apply(self, command: Doc) -> Doc:
        chats = self._chats
        if command["what"] == "discard":
            await chats.discard(command["chat_id"])
            return {}
        caller, place = Caller(command["caller"]), (command["conversation_id"], command["chat_id"])
        try:
            if command["what"] == "cancel":
                return {"chat": (await chats.cancel(caller, *place)).to_wire()}
            body = SubmitBody.model_validate(command["body"])
            return {"chat": (await chats.submit(caller, *place, body))[0]}
        except ApiError as error:
            return {"code": error.code.value, "msg": error.msg}
        except Elsewhere:
            # It has another node by now: the one that asked is to look again.
            return {"chat": None}

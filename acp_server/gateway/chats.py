"""The chats: which of them live, and the moves that requests make.

Every check and the change that follows from it are made without waiting in between, so two requests cannot both win.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from acp_server.gateway.auth import Caller
from acp_server.gateway.bodies import ChatBody, ConversationBody, SubmitBody, known_id
from acp_server.gateway.bots import Bot, Bots
from acp_server.gateway.conversations import Conversations, Lease
from acp_server.gateway.errors import ApiError, Code, log_fault
from acp_server.gateway.events import Listener
from acp_server.gateway.ids import Ids
from acp_server.gateway.limits import Limits
from acp_server.gateway.live_chat import LiveChat, not_cancellable
from acp_server.gateway.messages import QUESTION, Message
from acp_server.gateway.prompt_turn import PromptTurn, Waiting
from acp_server.gateway.questions import CallType
from acp_server.gateway.records import RUNNING, Chat, Conversation, Failure, KnownSession, Status
from acp_server.gateway.store import Store

Cancel = Literal["stop", "drain"]
"""What a cancel does to the agent: stop it, or let it end its reply."""

Begun = tuple[dict[str, Any], Listener | None]
"""The chat as a request left it, and its events if the client wants them."""

_UNKNOWN = "the chat does not exist"
_OCCUPIED = (
    "Conversation occupied: Another chat is currently active. Please wait for the ongoing chat to complete or create a"
    " new conversation. Ensure only one chat runs at a time within the same conversation."
)
_RESTARTED = Failure(Code.INTERNAL, "the gateway ended before the chat did")


class Chats:
    """All chats."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        conversations: Conversations,
        bots: Bots,
        limits: Limits,
        *,
        cancel: Cancel,
        elicitation: CallType,
    ) -> None:
        self._store = store
        self._ids = ids
        self._conversations = conversations
        self._bots = bots
        self._limits = limits
        self._cancel: Cancel = cancel
        self._elicitation: CallType = elicitation
        self._waiting = Waiting(limits)
        self._alive: dict[str, PromptTurn] = {}
        self._unstored: dict[str, Chat] = {}
        """Chats whose ends could not be stored."""
        self._group: TaskGroup | None = None
        self.on_end: Callable[[Status, float], object] | None = None
        """Is told of each chat that is over: how it ended, and after how many seconds."""

    def use(self, group: TaskGroup) -> None:
        """Let the work be done by tasks of this group."""
        self._group = group

    @property
    def alive(self) -> int:
        """How many chats have not ended, or have agents that still work for them."""
        return len(self._alive)

    def statuses(self) -> Counter[Status]:
        """How many of these there are, by their status."""
        return Counter(alive.live.chat.status for alive in self._alive.values())

    # -- what clients want

    def create(self, caller: Caller, conversation_id: str | None, body: ChatBody) -> Begun:
        """Begin a chat; in a new conversation without `conversation_id`."""
        if self._group is None:
            raise ApiError(Code.BUSY, "the gateway is ending")
        bot = self._bots.find(body.bot_id)
        if not body.auto_save_history and not body.stream:
            raise ApiError(Code.NOT_SAVED_NOT_STREAMED, "without stream, auto_save_history has to be true")
        conversation = self._conversations.find(caller, conversation_id) if conversation_id else None
        if conversation is not None:
            self._check_free(conversation.id)
        self._check_room(caller)
        with self._store.transaction():
            query: Message | None = None
            if not body.additional_messages:
                query = self._last_question(conversation)
            elif body.additional_messages[-1].role != "user":
                raise ApiError(Code.BAD_PARAMETER, "additional_messages: the last one has to be the user's")
            if conversation is None:
                name = body.additional_messages[-1].content[:50]
                conversation = self._conversations.create(caller, ConversationBody(bot_id=body.bot_id, name=name))
            turn, left = self._make(caller, conversation, bot, body, query)
            listener = turn.live.feed.listen() if body.stream else None
            turn.live.begin()
            self._store_late()
        self._unstored.clear()
        self._conversations.release(left)
        chat = turn.live.chat
        self._alive[chat.id] = turn
        self._group.start_soon(self._run, turn)
        return chat.to_wire(), listener

    def retrieve(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> Chat:
        """One of the caller's chats. Raises ApiError 4001, for those of others as well."""
        id = known_id(chat_id, "chat_id", Code.BAD_CHAT, _UNKNOWN)
        conversation = known_id(conversation_id, "conversation_id", Code.BAD_CHAT, _UNKNOWN)
        alive = self._alive.get(id)
        chat = alive.live.chat if alive is not None else self._unstored.get(id) or self._store.chat(id)
        if chat is None or chat.owner != caller.name or chat.conversation_id != conversation:
            raise ApiError(Code.BAD_CHAT, _UNKNOWN)
        found = self._store.conversation(conversation)
        if found is None or found.deleted:
            raise ApiError(Code.BAD_CHAT, _UNKNOWN)
        return chat

    def messages(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> list[Message]:
        """What a chat has produced so far."""
        chat = self.retrieve(caller, conversation_id, chat_id)
        alive = self._alive.get(chat.id)
        return self._store.produced(chat.id) if alive is None else list(alive.live.messages)

    def submit(self, caller: Caller, conversation_id: str | None, chat_id: str | None, body: SubmitBody) -> Begun:
        """Answer what a chat waits for."""
        chat = self.retrieve(caller, conversation_id, chat_id)
        if not chat.saved:
            raise ApiError(Code.INTERNAL, "a chat without auto_save_history cannot be continued")
        alive = self._alive.get(chat.id)
        if alive is None:
            raise ApiError(Code.BAD_PARAMETER, f"the chat waits for no tool outputs, it is {chat.status.value}")
        if chat.status is Status.REQUIRES_ACTION:
            self._check_free(chat.conversation_id)
        return alive.live.submit(body.tool_outputs, body.stream)

    async def cancel(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> Chat:
        """Cancel a running chat. Returns when the agent has stopped, or did not within its time; with `drain` at once.

        The status is final before anything is waited for.
        """
        chat = self.retrieve(caller, conversation_id, chat_id)
        alive = self._alive.get(chat.id)
        if alive is None:
            raise not_cancellable(chat)
        alive.live.cancel()
        if self._cancel == "stop":
            alive.stop()
            # Longer than the work itself waits for the agent, so that what was used is known.
            with anyio.move_on_after(2 * self._limits.settle_seconds):
                await alive.done.wait()
        elif self._group is not None:
            self._group.start_soon(alive.drain)
        return chat

    def delete_conversation(self, caller: Caller, id: str) -> None:
        """Delete a conversation. What runs in it is cancelled; what waits in it is dismissed."""
        with self._store.transaction():
            session = self._conversations.delete(caller, id)
            self._purge(id)
        # It is gone now, and nothing from here on can be refused.
        self._conversations.release(session)
        for alive in self._of(id):
            alive.live.discard()
            alive.stop()

    # -- from one run of the gateway to the next

    def recover(self) -> None:
        """Chats that were alive when the gateway ended have failed."""
        with self._store.transaction():
            for chat in self._store.chats_that_live():
                chat.keep = self._store.change_chat
                chat.move(Status.IN_PROGRESS)
                chat.move(Status.FAILED, error=_RESTARTED)
            for conversation in self._store.deleted_conversations():
                self._store.purge(conversation.id)

    def stop(self) -> None:
        """The gateway ends: all work is stopped, and the chats fail. Never waits."""
        group, self._group = self._group, None
        if group is not None:
            group.cancel_scope.cancel()

    # -- parts

    def _make(
        self, caller: Caller, conversation: Conversation, bot: Bot, body: ChatBody, query: Message | None
    ) -> tuple[PromptTurn, KnownSession | None]:
        chat = Chat(
            id=self._ids.new(),
            conversation_id=conversation.id,
            section_id=conversation.section_id,
            bot_id=body.bot_id,
            owner=caller.name,
            saved=body.auto_save_history,
            query_id=None if query is None else query.id,
            meta_data=body.meta_data,
        )
        given = [self._conversations.message(conversation, message) for message in body.additional_messages]
        for message in given:
            message.chat_id, message.bot_id = chat.id, chat.bot_id
        if chat.saved:
            lease = self._conversations.take_session(conversation, bot.name)
            self._store.add_chat(chat)
            for message in given:
                self._store.add_message(message)
            chat.keep = self._store.change_chat
        else:
            # In a session of its own, so that no later chat hears of it.
            lease = Lease(conversation.id, conversation.section_id, bot.name, conversation.revision, None)
            if query is not None:
                chat.keep = partial(self._forget_if_cancelled, query)

        def heard(session: str | None, most: int) -> tuple[list[str], list[Message]]:
            but = None if query is None else query.id
            return self._store.context(conversation.id, conversation.section_id, session, but=but, most=most)

        turn = PromptTurn(
            LiveChat(chat, self._ids, self._store.add_message, self._limits.backlog, self._elicitation),
            bot,
            lease,
            self._conversations,
            self._waiting,
            self._limits,
            heard=heard,
            prompt=given or [query] if query is not None else given,
            meta=_meta(chat, body),
        )
        return turn, lease.left

    async def _run(self, turn: PromptTurn) -> None:
        began = anyio.current_time()
        live, chat = turn.live, turn.live.chat
        try:
            await turn.run()
        finally:
            del self._alive[chat.id]
            if self.on_end is not None:
                self.on_end(chat.status, anyio.current_time() - began)
            if chat.saved and not live.stored:
                self._unstored[chat.id] = chat
            try:
                self._purge(chat.conversation_id)
            except Exception as error:
                # Tried again at the next start.
                log_fault(error, "what is left of conversation %s cannot be removed", chat.conversation_id)

    def _forget_if_cancelled(self, query: Message, chat: Chat) -> None:
        """Of a chat that is not saved this is all that remains: there was no query, if it was cancelled. What became of
        a saved chat is in the store."""
        if chat.status is Status.CANCELED:
            self._conversations.forget_message(query)

    def _store_late(self) -> None:
        """The store works again, as it seems."""
        for chat in self._unstored.values():
            self._store.change_chat(chat)

    def _purge(self, conversation_id: str) -> None:
        conversation = self._store.conversation(conversation_id)
        if conversation is not None and conversation.deleted and not self._of(conversation_id):
            self._store.purge(conversation_id)

    def _of(self, conversation_id: str) -> list[PromptTurn]:
        return [alive for alive in self._alive.values() if alive.live.chat.conversation_id == conversation_id]

    def _check_free(self, conversation_id: str) -> None:
        if any(alive.live.chat.status in RUNNING for alive in self._of(conversation_id)):
            raise ApiError(Code.OCCUPIED, _OCCUPIED)

    def _check_room(self, caller: Caller) -> None:
        # Nothing is done for a chat that waits for tool outputs; see `acp_server.gateway.prompt_turn`.
        chats = (alive.live.chat for alive in self._alive.values())
        busy = [chat.owner for chat in chats if chat.status is not Status.REQUIRES_ACTION]
        if len(busy) >= self._limits.chats:
            raise ApiError(Code.BUSY, "too many chats at once; try again later")
        if busy.count(caller.name) >= self._limits.chats_of_one:
            raise ApiError(Code.RATE, "too many chats at once with this token; wait until one of them has ended")

    def _last_question(self, conversation: Conversation | None) -> Message:
        if conversation is not None:
            last = self._store.last_said(conversation.id, conversation.section_id)
            if last is not None and last.role == "user" and last.type == QUESTION:
                return last
        raise ApiError(Code.BAD_PARAMETER, "there is no message to reply to")


def _meta(chat: Chat, body: ChatBody) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "chat_id": chat.id,
        "conversation_id": chat.conversation_id,
        "bot_id": chat.bot_id,
        "user_id": body.user_id,
    }
    more = {"meta_data": body.meta_data, "custom_variables": body.custom_variables, "parameters": body.parameters}
    return meta | {key: value for key, value in more.items() if value}

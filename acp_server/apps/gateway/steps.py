"""Stores the steps of a chat, each in one transaction.

A chat is begun here, or continued after another node has left it. An end that could not be stored is stored as soon as
the store works again. `acp_server.apps.gateway.live_chat` decides the steps, and `acp_server.apps.gateway.chats`
decides when they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from acp_server.apps.gateway.auth import Caller
from acp_server.apps.gateway.bodies import ChatBody, ConversationBody, ToolOutput
from acp_server.apps.gateway.conversations import Conversations, ReservedSession
from acp_server.apps.gateway.errors import ApiError, Code, not_waiting
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.live_chat import Keep, Step, check_outputs
from acp_server.apps.gateway.messages import ANSWER, QUESTION, ChatMessage
from acp_server.apps.gateway.nodes import Node
from acp_server.apps.gateway.records import Chat, Conversation, Ids, KnownSession, Status
from acp_server.apps.gateway.reply import Reply
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import Store, Unsure

P = ParamSpec("P")
T = TypeVar("T")


class Taken(NamedTuple):
    """A chat that this node has taken, and its input."""

    before: Chat
    """The chat as it was created, or while it waited."""
    chat: Chat
    """The chat as it is now in the store."""
    reserved: ReservedSession
    query: ChatMessage | None
    """The message that the chat replies to, if it was in the conversation before."""
    prompt: list[ChatMessage]
    """The messages for the chat's agent, which replies to the last one."""
    responses: Sequence[ChatMessage] = ()
    """Messages to send to the client."""


class Steps:
    """The steps of one node's chats."""

    def __init__(self, store: Store, ids: Ids, node: Node, conversations: Conversations, limits: GatewayLimits) -> None:
        self._store = store
        self._ids = ids
        self._node = node
        self._conversations = conversations
        self._limits = limits
        self.late: dict[str, Chat] = {}
        """Ended chats whose end could not be stored."""

    # -- the first one

    async def begin(self, caller: Caller, conversation_id: str | None, body: ChatBody, bot: str) -> Taken:
        """Add a chat. Without `conversation_id` it is added to a new conversation. Raises ApiError, NotOurs,
        Occupied."""
        return await self.after_late_ends(self._begin, caller, conversation_id, body, bot)

    def _begin(self, rows: Rows, caller: Caller, conversation_id: str | None, body: ChatBody, bot: str) -> Taken:
        conversations = self._conversations
        conversation = conversations.find(rows, caller, conversation_id) if conversation_id else None
        if conversation is not None:
            rows.check_free(conversation.id)
        # Checked after it is clear that the caller owns the conversation.
        if rows.busy(caller.name) >= self._limits.chats_of_one:
            raise ApiError(Code.RATE, "too many chats at once with this token; wait until one of them has ended")
        query: ChatMessage | None = None
        if not body.additional_messages:
            query = _last_question(rows, conversation)
        elif body.additional_messages[-1].role != "user":
            raise ApiError(Code.BAD_PARAMETER, "additional_messages: the last one has to be the user's")
        if conversation is None:
            name = body.additional_messages[-1].content[:50]
            conversation = conversations.create(rows, caller, ConversationBody(bot_id=body.bot_id, name=name))
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
        running = chat.moved(Status.IN_PROGRESS)
        assert running is not None
        given = [conversations.message(conversation, message) for message in body.additional_messages]
        for message in given:
            message.chat_id, message.bot_id = chat.id, chat.bot_id
        home = self._node.home(bot)
        rows.add_chat(running, self._node.id)
        if chat.saved:
            reserved = conversations.take_session(rows, conversation, home)
            for message in given:
                rows.add_message(message)
        else:
            # In a separate session, so that no later chat knows of it.
            reserved = ReservedSession(conversation.id, conversation.section_id, home, conversation.revision, None)
        return Taken(chat, running, reserved, query, given if query is None else [query])

    async def take_up(self, chat: Chat, outputs: list[ToolOutput], bot: str) -> Taken:
        """Make this node work for a chat that waits for tool outputs and was left by its node. Raises ApiError for
        invalid outputs, NotOurs, Occupied.

        The agent that asked is gone, so another agent gets the earlier messages, the question and the answer.
        """
        return await self._store.do(self._take_up, chat, outputs, bot)

    def _take_up(self, rows: Rows, chat: Chat, outputs: list[ToolOutput], bot: str) -> Taken:
        given = check_outputs(outputs, [call["id"] for call in chat.tool_calls])
        moved = chat.moved(Status.IN_PROGRESS)
        conversation = rows.conversation(chat.conversation_id)
        if moved is None or conversation is None:
            raise not_waiting(chat.status)
        rows.adopt_chat(chat, moved, self._node.id)
        said = [each for each in rows.messages_of(chat.id) if each.type in (QUESTION, ANSWER) and each.content]
        query = None if chat.query_id is None else rows.message(conversation.id, chat.query_id)
        responses = Reply(chat, self._ids).answered(list(given.values()))
        for message in responses:
            rows.add_message(message)
        reserved = ReservedSession(conversation.id, chat.section_id, self._node.home(bot), conversation.revision, None)
        prompt = [*([query] if query is not None else []), *said, self._explained(chat, given)]
        return Taken(chat, moved, reserved, query, prompt, responses)

    def _explained(self, chat: Chat, given: dict[str, str]) -> ChatMessage:
        parts = ["You were interrupted while you waited for an answer. Go on from there."]
        for call in chat.tool_calls:
            function = call["function"]
            parts.append(f"You asked ({function['name']}): {function['arguments']}\nThe answer: {given[call['id']]}")
        content = "\n\n".join(parts)
        ids = self._ids.new(), chat.conversation_id, chat.section_id
        return ChatMessage(*ids, role="user", type=QUESTION, content=content)

    # -- saving the steps of a chat that this node works for

    def keep(self, query: ChatMessage | None) -> Keep:
        """Return a function that stores the steps of a chat that this node works for. If the chat belongs to another
        node, it changes nothing. `query`: the message that the chat replies to, if it was in the conversation
        before."""
        node = self._node.id

        async def keep(step: Step) -> None:
            try:
                await self._store.do(keep_saved if step.after.saved else keep_unsaved, step)
            except Unsure:
                # A step that was committed the first time has no effect now.
                await self._store.do(keep_saved if step.after.saved else keep_unsaved, step)

        def keep_saved(rows: Rows, step: Step) -> None:
            if step.messages and rows.has_place(step.after.conversation_id, step.messages[0].id):
                return
            rows.move_chat(step.before, step.after, node, done=step.done)
            for message in step.messages:
                rows.add_message(message)
            if step.also is not None:
                step.also(rows)

        def keep_unsaved(rows: Rows, step: Step) -> None:
            if step.done:
                rows.remove_chat(step.after.id, node)
            else:
                rows.move_chat(step.before, step.after, node)
            if step.after.status is Status.CANCELED and query is not None:
                # For a chat that is not stored, only this remains: a cancelled chat had no query.
                self._conversations.forget_message(rows, query)

        return keep

    # -- what its agent's session knows

    async def context(self, taken: Taken, session: str | None, most: int) -> tuple[list[str], list[ChatMessage]]:
        """Return the context for a session: the whole context, or the part that the session does not know. The first
        value is the ids of messages that exceed `most` bytes, the second the messages that fit."""
        chat, but = taken.chat, None if taken.query is None else taken.query.id
        where = chat.conversation_id, chat.section_id
        return await self._store.do(Rows.context, *where, session, but=but, most=most)

    def give_back(self, rows: Rows, taken: Taken, known: KnownSession, told: list[str]) -> bool:
        """See `Conversations.give_back`."""
        return self._conversations.give_back(rows, taken.reserved, known, told, taken.chat.id)

    # -- ends that could not be stored

    def latest(self, chat: Chat) -> Chat:
        """Return a chat of the store. If the chat has a late end, it is included."""
        return chat if chat.ended else self.late.get(chat.id, chat)

    async def after_late_ends(self, work: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work`, see `Store.do`. The late ends are stored before it, in the same transaction. It must not run in
        two tasks at once."""
        late = dict(self.late)

        def both(rows: Rows) -> T:
            for chat in late.values():
                rows.leave_chat(chat, self._node.id)
            return work(rows, *args, **kwargs)

        done = await self._store.do(both)
        for id in late:
            self.late.pop(id, None)
        return done


def _last_question(rows: Rows, conversation: Conversation | None) -> ChatMessage:
    if conversation is not None:
        last = rows.last_said(conversation.id, conversation.section_id)
        if last is not None and last.role == "user" and last.type == QUESTION:
            return last
    raise ApiError(Code.BAD_PARAMETER, "there is no message to reply to")

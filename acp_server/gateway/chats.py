"""The chats: which of them live, and the moves that requests make.

Which chat has a conversation, and whether there is room for another, is decided for one request after another. Each
check and the change that follows from it are made under one lock, so two requests cannot both win.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from acp_server.gateway import new_chat
from acp_server.gateway.auth import Caller
from acp_server.gateway.bodies import ChatBody, SubmitBody, known_id
from acp_server.gateway.bots import Bot, Bots
from acp_server.gateway.conversations import Conversations
from acp_server.gateway.errors import ApiError, Code, log_fault
from acp_server.gateway.events import Listener
from acp_server.gateway.ids import Ids
from acp_server.gateway.limits import Limits
from acp_server.gateway.live_chat import Also, Keep, LiveChat, kept_nowhere, not_cancellable
from acp_server.gateway.messages import Message
from acp_server.gateway.new_chat import NewChat
from acp_server.gateway.prompt_turn import PromptTurn, Waiting
from acp_server.gateway.questions import CallType
from acp_server.gateway.records import RUNNING, Chat, Failure, Status, Usage
from acp_server.gateway.rows import Rows
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
        self._admission = anyio.Lock()
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

    async def create(self, caller: Caller, conversation_id: str | None, body: ChatBody) -> Begun:
        """Begin a chat; in a new conversation without `conversation_id`."""
        bot = self._bots.find(body.bot_id)
        if not body.auto_save_history and not body.stream:
            raise ApiError(Code.NOT_SAVED_NOT_STREAMED, "without stream, auto_save_history has to be true")
        async with self._admission:
            if self._group is None:
                raise _ending()
            refusal, late = self._occupied(conversation_id) or self._full(caller), dict(self._unstored)
            new = await self._store.do(self._add, late.values(), caller, conversation_id, body, bot.name, refusal)
            for id in late:
                del self._unstored[id]
            turn = self._turn(new, bot, body)
            listener = turn.live.feed.listen() if body.stream else None
            turn.live.begin(new.running)
            if not self._start(turn):
                await turn.live.finish(Usage(), _RESTARTED)
                raise _ending()
            return turn.live.chat.to_wire(), listener

    async def retrieve(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> Chat:
        """One of the caller's chats. Raises ApiError 4001, for those of others as well."""
        id = known_id(chat_id, "chat_id", Code.BAD_CHAT, _UNKNOWN)
        conversation = known_id(conversation_id, "conversation_id", Code.BAD_CHAT, _UNKNOWN)
        alive = self._alive.get(id)
        if alive is not None:
            chat = None if alive.live.discarded else alive.live.chat
        else:
            chat = await self._store.do(_find, id, self._unstored.get(id))
        if chat is None or chat.owner != caller.name or chat.conversation_id != conversation:
            raise ApiError(Code.BAD_CHAT, _UNKNOWN)
        return chat

    async def messages(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> list[Message]:
        """What a chat has produced so far."""
        chat = await self.retrieve(caller, conversation_id, chat_id)
        alive = self._alive.get(chat.id)
        return await self._store.do(Rows.produced, chat.id) if alive is None else list(alive.live.messages)

    async def submit(self, caller: Caller, conversation_id: str | None, chat_id: str | None, body: SubmitBody) -> Begun:
        """Answer what a chat waits for."""
        async with self._admission:
            chat = await self.retrieve(caller, conversation_id, chat_id)
            if not chat.saved:
                raise ApiError(Code.INTERNAL, "a chat without auto_save_history cannot be continued")
            alive = self._alive.get(chat.id)
            if alive is None:
                raise ApiError(Code.BAD_PARAMETER, f"the chat waits for no tool outputs, it is {chat.status.value}")
            refusal = self._occupied(chat.conversation_id)
            if chat.status is Status.REQUIRES_ACTION and refusal is not None:
                raise refusal
            return await alive.live.submit(body.tool_outputs, body.stream)

    async def cancel(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> Chat:
        """Cancel a running chat. Returns when the agent has stopped, or did not within its time; with `drain` at once.

        The status is final before the agent is waited for.
        """
        chat = await self.retrieve(caller, conversation_id, chat_id)
        alive = self._alive.get(chat.id)
        if alive is None:
            raise not_cancellable(chat)
        await alive.live.cancel()
        if self._cancel == "stop":
            alive.stop()
            # Longer than the work itself waits for the agent, so that what was used is known.
            with anyio.move_on_after(2 * self._limits.settle_seconds):
                await alive.done.wait()
        elif self._group is not None:
            self._group.start_soon(alive.drain)
        return alive.live.chat

    async def delete_conversation(self, caller: Caller, id: str) -> None:
        """Delete a conversation. What runs in it is cancelled; what waits in it is dismissed."""
        async with self._admission:
            was_used = bool(self._of(id))
            await self._store.do(self._delete, caller, id, purge=not was_used)
            # It is gone now, and nothing from here on can be refused.
            for alive in self._of(id):
                await alive.live.discard()
                alive.stop()
        if was_used:
            await self._purge(id)

    # -- from one run of the gateway to the next

    def recover(self, rows: Rows) -> None:
        """Chats that were alive when the gateway ended have failed."""
        for chat in rows.chats_that_live():
            running = chat.moved(Status.IN_PROGRESS) or chat
            failed = running.moved(Status.FAILED, error=_RESTARTED)
            assert failed is not None
            rows.change_chat(failed)
        for conversation in rows.deleted_conversations():
            rows.purge(conversation.id)

    def stop(self) -> None:
        """The gateway ends: all work is stopped, and the chats fail. Never waits."""
        group, self._group = self._group, None
        if group is not None:
            group.cancel_scope.cancel()

    # -- parts

    def _add(self, rows: Rows, late: Iterable[Chat], *given: Any) -> NewChat:
        """`late`: chats that could not be stored before."""
        for chat in late:
            rows.change_chat(chat)
        return new_chat.add(rows, self._ids, self._conversations, *given)

    def _turn(self, new: NewChat, bot: Bot, body: ChatBody) -> PromptTurn:
        chat, query = new.chat, new.query

        async def heard(session: str | None, most: int) -> tuple[list[str], list[Message]]:
            but = None if query is None else query.id
            place = chat.conversation_id, chat.section_id
            return await self._store.do(Rows.context, *place, session, but=but, most=most)

        return PromptTurn(
            LiveChat(chat, self._ids, self._keep(new), self._limits.backlog, self._elicitation),
            bot,
            new.lease,
            self._conversations,
            self._waiting,
            self._limits,
            heard=heard,
            prompt=new.given or [query] if query is not None else new.given,
            meta=_meta(chat, body),
        )

    def _keep(self, new: NewChat) -> Keep:
        query = new.query
        if new.chat.saved:
            return partial(self._store.do, _keep_step)
        if query is None:
            return kept_nowhere

        async def forget_if_cancelled(moved: Chat | None, _messages: list[Message], _also: Also | None) -> None:
            # Of a chat that is not saved this is all that remains: there was no query, if it was cancelled.
            if moved is not None and moved.status is Status.CANCELED:
                await self._store.do(self._conversations.forget_message, query)

        return forget_if_cancelled

    def _start(self, turn: PromptTurn) -> bool:
        if self._group is None:
            return False
        self._alive[turn.live.chat.id] = turn
        self._group.start_soon(self._run, turn)
        return True

    async def _run(self, turn: PromptTurn) -> None:
        began = anyio.current_time()
        live = turn.live
        try:
            await turn.run()
        finally:
            chat = live.chat
            del self._alive[chat.id]
            if self.on_end is not None:
                self.on_end(chat.status, anyio.current_time() - began)
            if live.discarded:
                await self._purge(chat.conversation_id)
            elif chat.saved and not live.stored:
                self._unstored[chat.id] = chat

    def _delete(self, rows: Rows, caller: Caller, id: str, *, purge: bool) -> None:
        self._conversations.delete(rows, caller, id)
        if purge:
            rows.purge(id)

    async def _purge(self, conversation_id: str) -> None:
        try:
            if not self._of(conversation_id):
                await self._store.do(Rows.purge, conversation_id)
        except Exception as error:
            # Tried again at the next start.
            log_fault(error, "what is left of conversation %s cannot be removed", conversation_id)

    def _of(self, conversation_id: str) -> list[PromptTurn]:
        return [alive for alive in self._alive.values() if alive.live.chat.conversation_id == conversation_id]

    def _occupied(self, conversation_id: str | None) -> ApiError | None:
        if conversation_id and any(alive.live.chat.status in RUNNING for alive in self._of(conversation_id)):
            return ApiError(Code.OCCUPIED, _OCCUPIED)
        return None

    def _full(self, caller: Caller) -> ApiError | None:
        # Nothing is done for a chat that waits for tool outputs; see `acp_server.gateway.prompt_turn`.
        chats = (alive.live.chat for alive in self._alive.values())
        busy = [chat.owner for chat in chats if chat.status is not Status.REQUIRES_ACTION]
        if len(busy) >= self._limits.chats:
            return ApiError(Code.BUSY, "too many chats at once; try again later")
        if busy.count(caller.name) >= self._limits.chats_of_one:
            return ApiError(Code.RATE, "too many chats at once with this token; wait until one of them has ended")
        return None


def _ending() -> ApiError:
    return ApiError(Code.BUSY, "the gateway is ending")


def _find(rows: Rows, id: str, unstored: Chat | None) -> Chat | None:
    chat = unstored or rows.chat(id)
    conversation = None if chat is None else rows.conversation(chat.conversation_id)
    return None if conversation is None or conversation.deleted else chat


def _keep_step(rows: Rows, moved: Chat | None, messages: list[Message], also: Also | None) -> None:
    for message in messages:
        rows.add_message(message)
    if moved is not None:
        rows.change_chat(moved)
    if also is not None:
        also(rows)


def _meta(chat: Chat, body: ChatBody) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "chat_id": chat.id,
        "conversation_id": chat.conversation_id,
        "bot_id": chat.bot_id,
        "user_id": body.user_id,
    }
    more = {"meta_data": body.meta_data, "custom_variables": body.custom_variables, "parameters": body.parameters}
    return meta | {key: value for key, value in more.items() if value}

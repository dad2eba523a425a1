"""The chats that this gateway works for. Requests about a chat are handled here, or on the node that works for the
chat.

Only the row of a chat determines its state (`acp_server.apps.gateway.rows`): which node works for it, whether another
chat runs in the conversation, and which of two racing transitions was first. This module does the work.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from acp_server.apps.gateway import errors
from acp_server.apps.gateway.auth import Caller
from acp_server.apps.gateway.bodies import ChatBody, SubmitBody, known_id
from acp_server.apps.gateway.bots import Bots
from acp_server.apps.gateway.conversations import Conversations
from acp_server.apps.gateway.errors import ApiError, Code, log_fault, outline
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.live_chat import LiveChat
from acp_server.apps.gateway.messages import ChatMessage
from acp_server.apps.gateway.nodes import ENDED, Node
from acp_server.apps.gateway.pool import Pool
from acp_server.apps.gateway.prompt_turn import PromptTurn, Waiting
from acp_server.apps.gateway.questions import CallType
from acp_server.apps.gateway.records import RUNNING, Chat, Ids, Status, TokenUsage
from acp_server.apps.gateway.rows import NotOurs, Occupied, Rows
from acp_server.apps.gateway.steps import Steps, Taken
from acp_server.apps.gateway.store import Store
from acp_server.http.events import EventQueue

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

Cancel = Literal["stop", "drain"]
"""The effect of a cancel on the agent: `stop` stops it, `drain` lets it complete its reply."""

Begun = tuple[dict[str, Any], EventQueue | None]
"""The chat after a request, and the event queue if the client wants a stream."""

_UNKNOWN = "the chat does not exist"


class Elsewhere(Exception):
    """Raised if another node works for the chat."""

    def __init__(self, chat: Chat, node: int) -> None:
        super().__init__(f"chat {chat.id} is at node {node}")
        self.chat = chat
        self.node = node


class Chats:
    """The chats of this node."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        node: Node,
        conversations: Conversations,
        bots: Bots,
        limits: GatewayLimits,
        *,
        cancel: Cancel,
        elicitation: CallType,
    ) -> None:
        self._store = store
        self._ids = ids
        self._node = node
        self._conversations = conversations
        self._bots = bots
        self._limits = limits
        self._cancel: Cancel = cancel
        self._elicitation: CallType = elicitation
        self._waiting = Waiting(limits)
        self._alive: dict[str, PromptTurn] = {}
        self._steps = Steps(store, ids, node, conversations, limits)
        self._admission = anyio.Lock()
        """A lock that is held while a chat is taken, so that every chat whose row names this node is also in
        `_alive`."""
        self._group: TaskGroup | None = None
        self.on_end: Callable[[Status, float], object] | None = None
        """A function that is called for each chat that has ended, with its status and its duration in seconds."""
        self.refusal: Callable[[], ApiError] | None = None
        """Makes the error for clients once the gateway is shutting down; None before. While it is set, the gateway
        begins no chats and takes no chats from other nodes."""

    def use(self, group: TaskGroup) -> None:
        """Run the work in tasks of this group."""
        self._group = group

    @property
    def working(self) -> int:
        """The number of chats that do more than wait for tool outputs."""
        return sum(turn.live.chat.status is not Status.REQUIRES_ACTION for turn in self._alive.values())

    @property
    def is_working(self) -> bool:
        """Whether the gateway works for a chat, or is about to begin one."""
        return bool(self.working) or self._admission.locked()

    def statuses(self) -> Counter[Status]:
        """Return the number of chats that have not ended, or whose agents still work for them, by status."""
        return Counter(alive.live.chat.status for alive in self._alive.values())

    # -- what clients want

    async def create(self, caller: Caller, conversation_id: str | None, body: ChatBody) -> Begun:
        """Begin a chat. Without `conversation_id` it begins in a new conversation."""
        bot = self._bots.find(body.bot_id, caller.name)
        if not body.auto_save_history and not body.stream:
            raise ApiError(Code.NOT_SAVED_NOT_STREAMED, "without stream, auto_save_history has to be true")
        async with self._admission:
            self._check_running()
            try:
                taken = await self._steps.begin(caller, conversation_id, body, bot.name)
            except Occupied:
                raise ApiError(Code.OCCUPIED, errors.OCCUPIED) from None
            except NotOurs:
                raise errors.not_taken() from None
            more = {
                "meta_data": body.meta_data,
                "custom_variables": body.custom_variables,
                "parameters": body.parameters,
            }
            said = {"user_id": body.user_id} | {key: value for key, value in more.items() if value}
            return await self._start(taken, bot, said, body.stream)

    async def retrieve(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> Chat:
        """Return a chat of the caller. Raises ApiError 4001 if it is unknown or another caller owns it."""
        return (await self._find(caller, conversation_id, chat_id))[0]

    async def messages(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> list[ChatMessage]:
        """Return the messages of a chat so far."""
        chat = await self.retrieve(caller, conversation_id, chat_id)
        alive = self._alive.get(chat.id)
        if alive is not None and not chat.saved:
            return list(alive.live.messages)
        return await self._store.do(Rows.produced, chat.id)

    async def submit(self, caller: Caller, conversation_id: str | None, chat_id: str | None, body: SubmitBody) -> Begun:
        """Submit the tool outputs that a chat waits for. Raises Elsewhere."""
        chat, node = await self._find(caller, conversation_id, chat_id)
        if not chat.saved:
            raise ApiError(Code.INTERNAL, "a chat without auto_save_history cannot be continued")
        alive = self._alive.get(chat.id)
        try:
            if alive is not None and node is not None:
                return await alive.live.submit(body.tool_outputs, body.stream)
            if chat.status is not Status.REQUIRES_ACTION:
                raise errors.not_waiting(chat.status)
            if node is not None:
                raise Elsewhere(chat, node)
            bot = self._bots.find(chat.bot_id, chat.owner)
            async with self._admission:
                self._check_running()
                taken = await self._steps.take_up(chat, body.tool_outputs, bot.name)
                return await self._start(taken, bot, {}, body.stream)
        except Occupied:
            raise ApiError(Code.OCCUPIED, errors.OCCUPIED) from None
        except NotOurs:
            now = await self.retrieve(caller, conversation_id, chat_id)
            # If it still waits, this node has lost its lease: another node may take it, or this one later.
            raise (
                errors.not_taken() if now.status is Status.REQUIRES_ACTION else errors.not_waiting(now.status)
            ) from None

    async def cancel(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> Chat:
        """Cancel a running chat. Returns when the agent has stopped, or after a time-out; with `drain`, returns at
        once. Raises Elsewhere.

        The chat's status is already final while this call waits for the agent.
        """
        chat, node = await self._find(caller, conversation_id, chat_id)
        alive = self._alive.get(chat.id)
        if alive is None:
            if node is None or chat.status not in RUNNING:
                raise errors.not_cancellable(chat.status)
            raise Elsewhere(chat, node)
        try:
            await alive.live.cancel()
        except NotOurs:
            raise errors.not_cancellable((await self.retrieve(caller, conversation_id, chat_id)).status) from None
        if self._cancel == "stop":
            alive.stop()
            # Longer than the work itself waits for the agent, so that the usage is known.
            with anyio.move_on_after(2 * self._limits.settle_seconds):
                await alive.done.wait()
        elif self._group is not None:
            self._group.start_soon(alive.drain)
        return alive.live.chat

    async def delete_conversation(self, caller: Caller, id: str) -> list[tuple[str, int]]:
        """Delete a conversation. Its running chats are cancelled, and the questions of its waiting chats are dismissed.
        Returns the chats that other nodes must discard, with their nodes. `purge` then removes the rest."""
        there = await self._store.do(self._delete, caller, id)
        for chat_id, node in there:
            if node == self._node.id:
                await self.discard(chat_id)
        return [(chat_id, node) for chat_id, node in there if node != self._node.id]

    async def discard(self, chat_id: str) -> None:
        """Discard a chat, because its conversation was deleted. Has no effect if this node does not have the chat."""
        async with self._admission:
            # A chat that was being taken is here now.
            alive = self._alive.get(chat_id)
        try:
            if alive is not None:
                await alive.live.discard()
            else:
                # It has ended. If that could not be stored, it still belongs to this node in the store.
                await self._store.do(Rows.remove_chat, chat_id, self._node.id)
                self._steps.late.pop(chat_id, None)
        except Exception as error:
            # The conversation is deleted, so nothing can be refused any more.
            logger.info("cannot discard chat %s of a deleted conversation: %s", chat_id, outline(error))
        if alive is not None:
            alive.stop()

    async def purge(self, conversation_id: str, chat_id: str = "") -> None:
        """Remove the rest of a deleted conversation, unless a node works for one of its chats. First remove `chat_id`,
        a chat of this node whose end could not be stored."""

        def purge(rows: Rows) -> None:
            rows.remove_chat(chat_id, self._node.id)
            rows.purge(conversation_id)

        try:
            await self._store.do(purge)
        except Exception as error:
            # Retried at the next start.
            log_fault(error, "what is left of conversation %s cannot be removed", conversation_id)

    # -- the life of the node

    def stop(self) -> None:
        """Stop all work, because the gateway is shutting down. Chats fail, or keep waiting for tool outputs. Never
        waits."""
        group, self._group = self._group, None
        if group is not None:
            group.cancel_scope.cancel()

    def abandon(self) -> None:
        """Stop all work for these chats, because they now belong to another node. Never waits."""
        for turn in list(self._alive.values()):
            turn.abandon()

    async def abandoned(self) -> None:
        """Stop all work, and wait until it has ended."""
        async with self._admission:
            self.abandon()
            await self.ended()
            self._steps.late.clear()

    async def ended(self) -> None:
        """Wait until all stopped work has ended."""
        for turn in list(self._alive.values()):
            await turn.done.wait()

    async def tidy(self) -> None:
        """Store ends of chats that could not be stored before. Release chats that the store assigns to this node by
        mistake."""
        async with self._admission:
            leave = Rows.leave_chats
            await self._steps.after_late_ends(leave, self._node.id, ENDED, but=frozenset(self._alive))

    # -- parts

    def _check_running(self) -> None:
        if self.refusal is not None:
            raise self.refusal()
        if self._group is None:
            raise errors.not_taken()
        if self.working >= self._limits.chats:
            raise ApiError(Code.BUSY, "too many chats at once; try again later")

    async def _find(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> tuple[Chat, int | None]:
        id = known_id(chat_id, "chat_id", Code.BAD_CHAT, _UNKNOWN)
        conversation = known_id(conversation_id, "conversation_id", Code.BAD_CHAT, _UNKNOWN)
        chat, node = await self._store.do(Rows.find_chat, id)
        if chat is None or chat.owner != caller.name or chat.conversation_id != conversation:
            raise ApiError(Code.BAD_CHAT, _UNKNOWN)
        return self._steps.latest(chat), node

    async def _start(self, taken: Taken, bot: Pool, said: dict[str, Any], stream: bool) -> Begun:
        """Let an agent work for a chat. `said`: members for the `_meta` of the prompt, in addition to the ids."""
        chat = taken.chat
        keep = self._steps.keep(taken.query)
        live = LiveChat(taken.before, self._ids, keep, self._limits.backlog, self._elicitation)
        meta = {"chat_id": chat.id, "conversation_id": chat.conversation_id, "bot_id": chat.bot_id, **said}
        turn = PromptTurn(live, bot, taken, self._steps, self._waiting, self._limits, meta)
        listener = turn.live.begin(chat, taken.responses, stream)
        if self._group is None:
            await turn.live.finish(TokenUsage(), ENDED)
            raise errors.not_taken()
        self._alive[chat.id] = turn
        self._group.start_soon(self._run, turn)
        return chat.to_wire(), listener

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
                await self.purge(chat.conversation_id, chat.id)
            elif not live.stored:
                self._steps.late[chat.id] = chat

    def _delete(self, rows: Rows, caller: Caller, id: str) -> list[tuple[str, int]]:
        self._conversations.delete(rows, caller, id)
        rows.purge(id)
        return rows.chats_of(id)

"""The agent's turn for a chat: the prompt, the updates, the questions, the usage, and the end.

`acp_server.apps.gateway.live_chat` decides what these mean for the chat.
"""

from __future__ import annotations

import logging
from typing import Any, Final, cast

import anyio
import anyio.lowlevel

from acp_server import AcpError, AuthRequired, ConnectionClosed, MalformedResponse, RequestCancelled, RpcError, grace
from acp_server.apps.gateway.errors import OCCUPIED, Code, log_fault, outline
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.live_chat import UNSTORED, LiveChat
from acp_server.apps.gateway.messages import ChatMessage, as_context, blocks, context, is_command
from acp_server.apps.gateway.pool import NoRoom, Pool
from acp_server.apps.gateway.process import OpenSession
from acp_server.apps.gateway.questions import Question
from acp_server.apps.gateway.records import Failure, KnownSession, Status, TokenUsage
from acp_server.apps.gateway.rows import NotOurs, Occupied, Rows
from acp_server.apps.gateway.steps import Steps, Taken
from acp_server.client import AgentExited, RemoteTurn
from acp_server.schema import ContentBlock, PromptResponse, SessionUpdate, UsageUpdate

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

META: Final = "acp_server/chat"
"""The key in the prompt's `_meta` that holds the client's data about the chat."""

_LAST: Final = 60.0
"""Seconds that the store has for storing the end of a chat."""
_STOPPED: Final = Failure(Code.INTERNAL, "the gateway was stopped")
_TOO_MUCH: Final = Failure(Code.INTERNAL, "the agent said more than a chat may have")


class PromptTurn:
    """The agent's work for one chat, which runs in its own task."""

    def __init__(
        self,
        live: LiveChat,
        bot: Pool,
        taken: Taken,
        steps: Steps,
        waiting: Waiting,
        limits: GatewayLimits,
        meta: dict[str, Any],
    ) -> None:
        self.done: anyio.Event = anyio.Event()
        """Set when the agent no longer works for this chat, as far as known."""
        self.live = live
        self._bot = bot
        self._reserved = taken.reserved
        self._taken = taken
        self._steps = steps
        self._waiting = waiting
        self._limits = limits
        self._meta = meta
        self._scope = anyio.CancelScope()
        self._whole = anyio.CancelScope()
        self._held: OpenSession | None = None
        self._told: list[str] = []
        self._turn: RemoteTurn | None = None
        self._usage = TokenUsage()
        self._failure: Failure | None = _STOPPED
        self._broken: Failure | None = None
        """Why the chat has failed, whatever its agent answers. Later updates are dropped."""

    async def run(self) -> None:
        """Run the whole turn. Raises nothing but a cancel."""
        try:
            with self._whole:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._catch_up)
                    await self._run()
                    group.cancel_scope.cancel()
        finally:
            # It only waits for the store.
            with grace(_LAST):
                try:
                    await self._end()
                except Exception as error:
                    log_fault(error, "the end of chat %s went wrong", self.live.chat.id)
            self.done.set()

    async def _run(self) -> None:
        try:
            with self._scope:
                self._failure = _outcome(await self._take_turn())
        except (AcpError, OSError) as error:
            self._failure = _failure(error)
        except Exception as error:
            log_fault(error, "the work for chat %s failed", self.live.chat.id)
            self._failure = Failure(Code.INTERNAL, "the gateway failed")
        # The agent waits for no answers any more, so held updates can be sent now.
        self.live.dismiss()
        while await self._step():
            await anyio.lowlevel.checkpoint()

    def stop(self) -> None:
        """Stop the agent, because the chat was cancelled. Never waits; `done` is set when the agent has stopped."""
        if self._turn is None:
            self._scope.cancel()
        else:
            self._turn.cancel()
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + self._limits.settle_seconds)

    def abandon(self) -> None:
        """Cancel all work for the chat, as when the gateway shuts down, because the chat does not or will not belong to
        this gateway. Never waits."""
        self._whole.cancel()

    async def drain(self) -> None:
        """Wait for the agent to complete its reply after the chat was cancelled. If that takes too long, the agent is
        stopped."""
        with anyio.move_on_after(self._limits.linger_seconds):
            await self.done.wait()
            return
        logger.warning("chat %s was stopped, because the agent does not end its reply", self.live.chat.id)
        self.stop()

    @property
    def has_questions(self) -> bool:
        """See `acp_server.apps.gateway.process.Turn`."""
        return self.live.has_questions

    async def ask(self, question: Question) -> Any:
        """See `acp_server.apps.gateway.process.Turn`."""
        try:
            self.live.put(question)
            if not question.answered.is_set():
                self._waiting.begin(self, self.live.chat.owner)
            with anyio.move_on_after(self._limits.answer_seconds):
                await question.answered.wait()
        finally:
            self.live.withdraw(question)
            if not self.has_questions:
                self._waiting.end(self)
        return question.answer

    def dismiss(self) -> None:
        """Dismiss the questions, so that the chat continues. Never waits."""
        self.live.dismiss()

    # -- the turn

    async def _take_turn(self) -> PromptResponse:
        self._held = held = await self._bot.open(self._reserved.known)
        session = held.session
        session.on_update = self._updated
        held.process.begin_turn(session, self)
        async with session.prompt(await self._compose(held), meta={META: self._meta}) as turn:
            self._turn = turn
            async for _ in turn:
                # The updates were taken when they arrived, before any later question.
                pass
        self._usage = _reported(turn.result) or self._usage
        return turn.result

    async def _compose(self, held: OpenSession) -> list[ContentBlock]:
        """Return the prompt. `_told` gets the ids of the messages that the session gets with it, and of messages that
        the session never will get.

        An agent recognizes a command only if it is the whole prompt (ACP, Slash Commands). So earlier messages wait for
        the next prompt that is not a command.
        """
        prompt = self._taken.prompt
        query = blocks(prompt[-1])
        if is_command(query, held.session.available_commands):
            self._told = [prompt[-1].id]
            return query
        room = self._limits.context_bytes
        brought: list[ChatMessage] = []
        for message in reversed(prompt[:-1]):
            room -= len(as_context(message).encode())
            if room < 0:
                break
            brought.insert(0, message)
        left_out, earlier = await self._steps.context(self._taken, None if held.is_new else held.key, room)
        self._told = [*left_out, *(message.id for message in (*earlier, *prompt))]
        lost = len(left_out) + len(prompt) - 1 - len(brought)
        if lost:
            id, most = self.live.chat.id, self._limits.context_bytes
            logger.warning(
                "chat %s: the agent does not get %s earlier messages, because the history may have %s bytes",
                id,
                lost,
                most,
            )
        return [*context([*earlier, *brought], cut=bool(lost)), *query]

    def _updated(self, update: SessionUpdate) -> None:
        if isinstance(update, UsageUpdate):
            # The usage of the context window: all tokens that were read and written for this reply.
            self._usage = TokenUsage(token_count=update.used)
        if self._broken is None:
            self.live.put(update)
        if self._broken is None and self.live.size > self._limits.reply:
            logger.warning("chat %s was stopped, because the agent's reply is too long", self.live.chat.id)
            self._break_off(_TOO_MUCH)

    async def _step(self) -> bool:
        """Process an item, see `LiveChat.step`. The chat fails if a part of it could not be stored, or if it cannot
        continue because another chat runs in its conversation."""
        try:
            return await self.live.step()
        except NotOurs:
            self.abandon()
            return False
        except Occupied:
            self._break_off(Failure(Code.OCCUPIED, OCCUPIED))
            return False
        except Exception as error:
            log_fault(error, "a part of chat %s cannot be stored", self.live.chat.id)
            self._break_off(UNSTORED)
            return False

    async def _catch_up(self) -> None:
        """Process held items once the chat no longer waits. Yields between items, so that other chats continue."""
        while True:
            changed = self.live.changed
            while await self._step():
                await anyio.lowlevel.checkpoint()
            await changed.wait()

    def _break_off(self, failure: Failure) -> None:
        self._broken = self._broken or failure
        self.stop()

    async def _end(self) -> None:
        held = self._held
        failure = self._broken or self._failure
        if failure is _STOPPED and self.live.chat.status is Status.REQUIRES_ACTION:
            await self._park(held)
            return
        if held is None:
            await self.live.finish(self._usage, failure)
            if self._reserved.known is not None:
                self._bot.release(self._reserved.known, start=False)
            return
        held.process.end_turn(held.session, self)
        held.session.on_update = None
        given_back = False

        def give_back(rows: Rows) -> None:
            nonlocal given_back
            known = KnownSession(self._reserved.bot, held.session.id, held.key)
            given_back = self._steps.give_back(rows, self._taken, known, self._told)

        # Together with the end of the chat, so that the next chat finds both.
        await self.live.finish(self._usage, failure, give_back)
        if given_back and self.live.chat.status is Status.COMPLETED:
            held.process.idle(held.key)
        else:
            self._bot.discard(held)

    async def _park(self, held: OpenSession | None) -> None:
        if held is not None:
            held.process.end_turn(held.session, self)
            held.session.on_update = None
            self._bot.discard(held)
        try:
            await self.live.park()
        except NotOurs:
            pass  # it is parked already


def _outcome(response: PromptResponse) -> Failure | None:
    if response.stop_reason == "refusal":
        return Failure(Code.INTERNAL, "the agent refused to go on")
    if response.stop_reason == "cancelled":
        return Failure(Code.INTERNAL, "the agent stopped before it had finished")
    return None


def _reported(response: PromptResponse) -> TokenUsage | None:
    """Return `usage` in the response to a prompt, if the agent sends it: the tokens of this turn."""
    usage = (response.meta or {}).get("usage") if response.usage is None else response.usage.to_wire()
    if not isinstance(usage, dict):
        return None
    fields = cast("dict[str, Any]", usage)
    read, written, total = (_count(fields.get(key)) for key in ("inputTokens", "outputTokens", "totalTokens"))
    return TokenUsage(input_count=read, output_count=written, token_count=total or read + written)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _failure(error: AcpError | OSError) -> Failure:
    """Return the part of the error for a client. The rest is logged."""
    logger.warning("a chat failed: %s", outline(error))
    logger.debug("the error of the failed chat: %s", error)
    if isinstance(error, AgentExited):
        # Its standard error is for its operator.
        return Failure(Code.INTERNAL, AgentExited(None, error.exit_code, "").args[0])
    if isinstance(error, ConnectionClosed):
        return Failure(Code.INTERNAL, "the agent is gone")
    if isinstance(error, NoRoom):
        return Failure(Code.BUSY, "all agents are busy; try again later")
    if isinstance(error, TimeoutError):
        return Failure(Code.INTERNAL, "the agent does not answer")
    if isinstance(error, AuthRequired):
        return Failure(Code.INTERNAL, "the agent wants to be logged in to first")
    if isinstance(error, RequestCancelled):
        # The gateway has not cancelled it. The agent has, for example at a time limit (ACP, Cancellation).
        return Failure(Code.INTERNAL, "the agent has given up")
    if isinstance(error, RpcError):
        return Failure(Code.INTERNAL, f"the agent failed: {error.message}")
    if isinstance(error, MalformedResponse):
        return Failure(Code.INTERNAL, "the agent said something that cannot be read")
    return Failure(Code.INTERNAL, "the agent cannot be used")


class Waiting:
    """The waiting chats of all users. They do not count as running, because no work is done for them."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._chats: dict[PromptTurn, str] = {}
        """The owners of the waiting chats. The chat that has waited longest comes first."""

    def begin(self, chat: PromptTurn, owner: str) -> None:
        """Count another waiting chat. If there are too many, the questions of the same owner's longest waiting chats
        are dismissed, so that no user loses a question because of other users."""
        self._chats[chat] = owner
        mine = [other for other, whose in self._chats.items() if whose == owner]
        while len(mine) > self._limits.waiting_of_one or len(self._chats) > self._limits.waiting:
            logger.warning(
                "too many chats of %s wait for tool outputs; the questions of one chat were dismissed", owner
            )
            longest = mine.pop(0)
            self.end(longest)
            longest.dismiss()

    def end(self, chat: PromptTurn) -> None:
        """Remove a chat, because it no longer waits. Has no effect on a chat that was not counted."""
        self._chats.pop(chat, None)

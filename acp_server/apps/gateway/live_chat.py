"""A live chat: its events in the documented order, its questions, and its end.

This module knows neither HTTP nor an agent. `acp_server.apps.gateway.prompt_turn` delivers the agent's updates, and
`acp_server.apps.gateway.chats` the clients' requests. Updates are accepted without waiting. Everything else is done one
step after another, under a lock, because each step is stored before it is sent. So if a cancel and an end race, one of
them wins, and the other finds that the chat has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from acp_server.apps.gateway import events
from acp_server.apps.gateway.bodies import ToolOutput
from acp_server.apps.gateway.errors import OCCUPIED, ApiError, Code, log_fault, not_cancellable, not_waiting
from acp_server.apps.gateway.events import Feed
from acp_server.apps.gateway.messages import ChatMessage
from acp_server.apps.gateway.nodes import ENDED
from acp_server.apps.gateway.questions import CallType, Question
from acp_server.apps.gateway.records import Chat, Failure, Ids, Status, TokenUsage
from acp_server.apps.gateway.reply import Delta, Pieces, Reply
from acp_server.apps.gateway.rows import NotOurs, Occupied, Rows
from acp_server.apps.gateway.update_queue import Item, UpdateQueue
from acp_server.http.events import EventQueue
from acp_server.schema import SessionUpdate

UNSTORED: Final = Failure(Code.INTERNAL, "the gateway could not store the chat")

Also = Callable[[Rows], None]
"""A function that is executed as part of a step, in the same transaction."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a chat that is stored as a whole."""

    before: Chat
    after: Chat
    messages: list[ChatMessage]
    """The messages that the chat has produced."""
    also: Also | None = None
    done: bool = False
    """Whether this node does nothing more for the chat after this step."""


Keep = Callable[[Step], Awaitable[None]]
"""Stores a step. Raises NotOurs, Occupied, and the store's errors."""


async def kept_nowhere(_step: Step) -> None:
    """Store nothing, for a chat that is only in memory."""


class LiveChat:
    """A chat that has not ended, or whose agent still works."""

    def __init__(self, chat: Chat, ids: Ids, keep: Keep, backlog: int, elicitation: CallType = "function") -> None:
        """`chat` was just created, or it was waiting for tool outputs and now continues."""
        self.chat = chat
        self.over = False
        """Whether no more messages will come, not even for a cancelled chat."""
        self.stored = True
        """Whether the chat's present state is stored. False if the store failed when the chat ended."""
        self.discarded = False
        """Whether the chat's conversation is deleted."""
        self.messages: list[ChatMessage] = []
        """The messages that the chat has produced."""
        self.feed: Feed = Feed(backlog)
        self._keep = keep
        self._elicitation: CallType = elicitation
        self._reply = Reply(chat, ids)
        self._asked: list[Question] = []
        """The questions that are shown to the client, in `requires_action`."""
        self._queue = UpdateQueue()
        """Updates and questions that arrive while the chat waits for the client's answers to the shown questions."""
        self._pieces: Pieces = []
        """Deltas and messages that are not sent yet, because messages are stored first."""
        self._lock = anyio.Lock()
        self.changed = anyio.Event()
        """An event that is set, and replaced by a new event, when `step` may have something to do."""

    # -- what clients want

    def begin(self, running: Chat, responses: Sequence[ChatMessage] = (), stream: bool = False) -> EventQueue | None:
        """Begin the work. The chat is stored as `running`, and its agent is about to work. Returns the chat's event
        queue if `stream`. `responses`: the answers with which the chat continues, if any. Never waits."""
        listener = self.feed.listen() if stream else None
        if self.chat.status is Status.CREATED:
            self.feed.emit(events.CREATED, self.chat.to_wire())
        self.chat = running
        self.feed.emit(events.IN_PROGRESS, running.to_wire())
        self._tell(responses)
        return listener

    async def cancel(self) -> None:
        """Move to `canceled`. Raises ApiError 4104 if the chat is not running."""
        async with self._lock:
            if not await self._move(Status.CANCELED):
                raise not_cancellable(self.chat.status)

    async def discard(self) -> None:
        """Discard the chat, because its conversation was deleted. A running chat is cancelled."""
        self.discarded: bool = True
        async with self._lock:
            await self._move(Status.CANCELED)

    async def park(self) -> None:
        """Stop working for the chat here. It keeps waiting for tool outputs, and any node may take it."""
        async with self._lock:
            self.over = True
            await self._keep(Step(self.chat, self.chat, [], done=True))

    async def submit(self, outputs: list[ToolOutput], stream: bool) -> tuple[dict[str, Any], EventQueue | None]:
        """Answer the open questions. Returns the chat in its new state, and its event queue if `stream`.

        All questions must be answered at once. Otherwise ApiError 4000 is raised, and nothing changes.
        """
        async with self._lock:
            await self._go_on_if_unasked()
            if self.chat.status is not Status.REQUIRES_ACTION:
                raise not_waiting(self.chat.status)
            given = check_outputs(outputs, [question.id for question in self._asked])
            answers = [(question, question.read(given[question.id])) for question in self._asked]
            responses = self._reply.answered([given[question.id] for question, _ in answers])
            listener = await self._go_on(responses, stream)
            for question, answer in answers:
                question.resolve(answer)
            return self.chat.to_wire(), listener

    # -- what the agent does

    @property
    def size(self) -> int:
        """The approximate number of characters from the agent."""
        return self._reply.size + self._queue.size

    @property
    def has_questions(self) -> bool:
        """Whether the agent waits for an answer."""
        return bool(self._queue.questions) or any(map(_is_open, self._asked))

    def put(self, item: Item) -> None:
        """Take an update or a question of the agent. Never waits. It is held back while the chat waits for tool
        outputs, and while earlier items are held or messages must be stored first. In a chat that is cancelled or has
        no history, questions are dismissed."""
        if self.over:
            if isinstance(item, Question):
                item.resolve(None)
        elif isinstance(item, Question) or not self._is_idle:
            self._queue.put(item)
            self._wake()
        else:
            self._take(item)

    async def step(self) -> bool:
        """Process the first held item. Returns False if no item is held, or the chat waits for tool outputs."""
        async with self._lock:
            return await self._step()

    def withdraw(self, question: Question) -> None:
        """Withdraw a question for the agent. Has no effect if it is answered."""
        question.withdrawn = True
        self._queue.remove(question)
        self._wake()

    def dismiss(self) -> None:
        """Dismiss all questions."""
        for question in self._queue.questions:
            self._queue.remove(question)
            question.resolve(None)
        for question in filter(_is_open, self._asked):
            question.resolve(None)
        self._wake()

    async def finish(self, usage: TokenUsage, failure: Failure | None, also: Also | None = None) -> None:
        """End the chat, because the agent's work has ended. Only the first call has an effect. `also` is executed if
        the chat is completed.

        Waiting callers are notified in any case. If the end cannot be stored, the chat has failed, now and after a
        restart.
        """
        async with self._lock:
            if self.over:
                return
            try:
                await self._finish(usage, failure, also)
            except NotOurs:
                # Its end is in the store already.
                await self._fail(usage, failure or ENDED)
                self.stored = True
            except Exception as error:
                log_fault(error, "the end of chat %s cannot be stored", self.chat.id)
                await self._fail(usage, failure or UNSTORED)
            except BaseException:
                # There was no more time. The end of a chat that is only in memory waits for nothing.
                await self._fail(usage, failure or UNSTORED)
                raise

    # -- parts; a part that waits holds the lock

    @property
    def _is_idle(self) -> bool:
        held = self._queue or self._pieces
        return not (held or self._lock.locked() or self.chat.status is Status.REQUIRES_ACTION)

    async def _finish(self, usage: TokenUsage, failure: Failure | None, also: Also | None) -> None:
        self.dismiss()
        try:
            while await self._step():
                pass
        except Occupied:
            failure = failure or Failure(Code.OCCUPIED, OCCUPIED)
        self._pieces += self._reply.finish() if failure is None else self._reply.close()
        if self.chat.status is Status.CANCELED:
            await self._write(self.chat.settled(usage), done=True)
        elif failure is None:
            await self._move(Status.COMPLETED, usage=usage, also=also, done=True)
        else:
            await self._write(self.chat.failed(failure, usage), done=True)
        self.over: bool = True
        # The API has no event for a cancelled chat, so it is sent as a completed chat with the status `canceled`.
        self.feed.emit(events.FAILED if self.chat.status is Status.FAILED else events.COMPLETED, self.chat.to_wire())
        self.feed.done()

    async def _fail(self, usage: TokenUsage, failure: Failure) -> None:
        self.stored: bool = False
        self._pieces = []  # sent messages must be in the store, and these are not
        self._keep = kept_nowhere
        await self._finish(usage, failure, None)

    async def _step(self) -> bool:
        if await self._go_on_if_unasked():
            return True
        if self.chat.status is Status.REQUIRES_ACTION:
            return False
        if self._pieces:
            await self._write()
        elif not self._queue:
            return False
        elif isinstance(what := self._queue.pop(), list):
            await self._ask(what)
        else:
            self._take(what)
        return True

    def _take(self, update: SessionUpdate) -> None:
        pieces = self._reply.take(update)
        if any(isinstance(piece, ChatMessage) for piece in pieces):
            self._pieces += pieces
            self._wake()
        else:
            self._tell(pieces)

    async def _ask(self, questions: list[Question]) -> None:
        if self.chat.status is Status.CANCELED or not self.chat.saved:
            for question in questions:
                question.resolve(None)
            return
        self._asked = questions
        self._pieces += self._reply.interrupt([(question.name, question.arguments) for question in questions])
        tool_calls = [question.to_wire(self._elicitation) for question in questions]
        await self._move(Status.REQUIRES_ACTION, tool_calls=tool_calls)
        self.feed.emit(events.REQUIRES_ACTION, self.chat.to_wire())
        self.feed.done()

    async def _go_on_if_unasked(self) -> bool:
        # A client that was shown several questions must answer all of them, so they stay until all are withdrawn.
        if self.chat.status is not Status.REQUIRES_ACTION or any(map(_is_open, self._asked)):
            return False
        await self._go_on([])
        return True

    async def _go_on(self, responses: list[ChatMessage], stream: bool = False) -> EventQueue | None:
        moved = self.chat.moved(Status.IN_PROGRESS)
        assert moved is not None
        await self._keep(Step(self.chat, moved, responses))
        self._asked = []
        listener = self.begin(moved, responses, stream)
        self._wake()
        return listener

    async def _move(self, status: Status, also: Also | None = None, done: bool = False, **changes: Any) -> bool:
        """Store a transition of the chat, and send it with the held messages. Returns False, without changing anything,
        if the status does not permit the transition."""
        moved = self.chat.moved(status, **changes)
        if moved is None:
            return False
        await self._write(moved, also, done)
        return True

    async def _write(self, moved: Chat | None = None, also: Also | None = None, done: bool = False) -> None:
        pieces, after = self._pieces, moved or self.chat
        messages = [piece for piece in pieces if isinstance(piece, ChatMessage)]
        await self._keep(Step(self.chat, after, messages, also, done))
        self._pieces = []
        self.chat: Chat = after
        self._tell(pieces)

    def _tell(self, pieces: Sequence[Delta | ChatMessage]) -> None:
        for piece in pieces:
            if isinstance(piece, ChatMessage):
                self.messages.append(piece)
                self.feed.emit(events.MESSAGE, piece.to_wire())
            else:
                self.feed.emit(events.DELTA, piece.wire)

    def _wake(self) -> None:
        self.changed.set()
        self.changed: anyio.Event = anyio.Event()


def _is_open(question: Question) -> bool:
    return not (question.answered.is_set() or question.withdrawn)


def check_outputs(outputs: list[ToolOutput], asked: list[str]) -> dict[str, str]:
    """Return the outputs by the ids of their tool calls. Raises ApiError 4000 unless the outputs answer exactly the
    questions in `asked`."""
    given = {output.tool_call_id: output.output for output in outputs}
    if len(given) < len(outputs) or given.keys() != set(asked):
        wanted = ", ".join(asked)
        raise ApiError(Code.BAD_PARAMETER, f"exactly one output for each of these tool calls is needed: {wanted}")
    return {id: given[id] for id in asked}

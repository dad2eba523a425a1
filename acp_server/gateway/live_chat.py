"""A chat while it lives: its events in the documented order, its questions, its ending. It never waits.

It knows neither HTTP nor an agent: `acp_server.gateway.prompt_turn` brings what the agent does,
`acp_server.gateway.chats` what clients want.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio

from acp_server.gateway import events
from acp_server.gateway.bodies import ToolOutput
from acp_server.gateway.errors import ApiError, Code, log_fault
from acp_server.gateway.events import Feed, Listener
from acp_server.gateway.ids import Ids
from acp_server.gateway.messages import Message
from acp_server.gateway.questions import CallType, Question
from acp_server.gateway.records import Chat, Failure, Status, Usage, kept_nowhere
from acp_server.gateway.reply import Reply
from acp_server.gateway.update_queue import Item, UpdateQueue
from acp_server.schema import SessionUpdate

UNSTORED: Final = Failure(Code.INTERNAL, "the gateway could not store the chat")


class LiveChat:
    """One chat that has not ended, or whose agent still works."""

    def __init__(
        self, chat: Chat, ids: Ids, keep: Callable[[Message], None], backlog: int, elicitation: CallType = "function"
    ) -> None:
        self.chat = chat
        self.over = False
        """Whether nothing more will come of it, not even from a cancelled chat."""
        self.stored = True
        """Whether the store has it as it is. Not if the store failed at its end."""
        self.messages: list[Message] = []
        """What it has produced."""
        self.feed = Feed(backlog)
        self._keep_message = keep
        self._elicitation: CallType = elicitation
        self._reply = Reply(chat, ids, self.feed.emit, self._keep)
        self._asked: list[Question] = []
        """The questions that are shown, in `requires_action`."""
        self._queue = UpdateQueue()
        """What the agent said and asked meanwhile: a client answers what it was shown."""
        self.resumed = anyio.Event()
        """Set, and replaced by another, when the chat does not wait for tool outputs any more; see `step`."""

    # -- what clients want

    def begin(self) -> None:
        """The chat is accepted, and its agent is about to work. Raises what the store does."""
        self.feed.emit(events.CREATED, self.chat.to_wire())
        self.chat.move(Status.IN_PROGRESS)
        self.feed.emit(events.IN_PROGRESS, self.chat.to_wire())

    def cancel(self) -> None:
        """Move to `canceled`. Raises ApiError 4104 if the chat is not running."""
        if not self.chat.move(Status.CANCELED):
            raise not_cancellable(self.chat)

    def discard(self) -> None:
        """Its conversation is deleted, so nothing of it is kept any more. It is cancelled if it runs."""
        self._keep_nothing()
        self.chat.move(Status.CANCELED)

    def submit(self, outputs: list[ToolOutput], stream: bool) -> tuple[dict[str, Any], Listener | None]:
        """Answer what is asked: the chat as it is right then, and what follows if `stream`.

        All of it has to be answered at once, or ApiError 4000 is raised and nothing has changed.
        """
        if self.chat.status is not Status.REQUIRES_ACTION:
            raise ApiError(Code.BAD_PARAMETER, f"the chat waits for no tool outputs, it is {self.chat.status.value}")
        given = {output.tool_call_id: output.output for output in outputs}
        if len(given) < len(outputs) or given.keys() != {question.id for question in self._asked}:
            wanted = ", ".join(question.id for question in self._asked)
            raise ApiError(Code.BAD_PARAMETER, f"exactly one output for each of these tool calls is needed: {wanted}")
        answers = [(question, question.read(given[question.id])) for question in self._asked]
        listener = self._go_on(stream)
        shown = self.chat.to_wire()
        # First, so that the agent gets its answers even if the store fails.
        for question, answer in answers:
            question.settle(answer)
        self._reply.answered([given[question.id] for question, _ in answers])
        return shown, listener

    # -- what the agent does

    @property
    def size(self) -> int:
        """How many characters the agent has said, about."""
        return self._reply.size + self._queue.size

    @property
    def has_questions(self) -> bool:
        """Whether the agent waits for an answer."""
        return bool(self._asked or self._queue.questions)

    def put(self, item: Item) -> None:
        """The agent says or asks something. It is held back while the chat waits for tool outputs, and behind what is
        held. A chat that is cancelled, or cannot be continued, dismisses questions."""
        if self.over:
            if isinstance(item, Question):
                item.settle(None)
        elif self._queue or self.chat.status is Status.REQUIRES_ACTION:
            self._queue.put(item)
        else:
            self._take([item] if isinstance(item, Question) else item)

    def step(self) -> bool:
        """Go on with the first of what is held; False if nothing is, or the chat waits for tool outputs."""
        if not self._queue or self.chat.status is Status.REQUIRES_ACTION:
            return False
        self._take(self._queue.pop())
        return True

    def withdraw(self, question: Question) -> None:
        """The agent does not want to know it any more. No effect on one that is answered."""
        question.withdrawn = True
        self._queue.remove(question)
        # A client that was shown several has to answer for all of them, so they stay until none is wanted any more.
        if question in self._asked and all(asked.withdrawn for asked in self._asked):
            self._go_on()

    def dismiss(self) -> None:
        """Wait for no answer any more."""
        for question in self._queue.questions:
            self._queue.remove(question)
            question.settle(None)
        for question in self._asked:
            question.settle(None)
        if self.chat.status is Status.REQUIRES_ACTION:
            self._go_on()

    def finish(self, usage: Usage, failure: Failure | None) -> None:
        """The agent's work is over. Only the first time counts.

        A caller that waits for the end is told in any case: if it cannot be stored, the chat has failed, now and
        after a restart.
        """
        if self.over:
            return
        try:
            self._finish(usage, failure)
        except Exception as error:
            log_fault(error, "the end of chat %s cannot be stored", self.chat.id)
            self.stored = False
            self._keep_nothing()
            self._finish(usage, failure or UNSTORED)

    def _finish(self, usage: Usage, failure: Failure | None) -> None:
        self.dismiss()
        while self.step():
            pass
        if failure is None:
            self._reply.finish()
        else:
            self._reply.close()
        chat = self.chat
        if failure is None:
            chat.move(Status.COMPLETED, usage=usage)
        else:
            chat.move(Status.FAILED, usage=usage, error=failure)
        if chat.status is Status.CANCELED:
            chat.settle(usage)
        self.over = True
        # The API has no event for a cancelled chat, so it is a completed one that says what it is.
        self.feed.emit(events.FAILED if chat.status is Status.FAILED else events.COMPLETED, chat.to_wire())
        self.feed.done()

    # -- questions

    def _take(self, what: SessionUpdate | list[Question]) -> None:
        if not isinstance(what, list):
            self._reply.take(what)
        elif self.chat.status is Status.CANCELED or not self.chat.saved:
            for question in what:
                question.settle(None)
        else:
            self._asked = what
            self._reply.interrupt([(question.name, question.arguments) for question in what])
            tool_calls = [question.to_wire(self._elicitation) for question in what]
            self.chat.move(Status.REQUIRES_ACTION, tool_calls=tool_calls)
            self.feed.emit(events.REQUIRES_ACTION, self.chat.to_wire())
            self.feed.done()

    def _go_on(self, stream: bool = False) -> Listener | None:
        self.chat.move(Status.IN_PROGRESS)
        self._asked = []
        listener = self.feed.listen() if stream else None
        self.feed.emit(events.IN_PROGRESS, self.chat.to_wire())
        self.resumed.set()
        self.resumed = anyio.Event()
        return listener

    def _keep_nothing(self) -> None:
        self.chat.keep = kept_nowhere
        self._keep_message = _forget

    def _keep(self, message: Message) -> None:
        self.messages.append(message)
        if self.chat.saved:
            self._keep_message(message)


def _forget(_message: Message) -> None:
    pass


def not_cancellable(chat: Chat) -> ApiError:
    """What a cancel that comes too late is told."""
    return ApiError(Code.NOT_CANCELLABLE, f"the chat cannot be cancelled, it is {chat.status.value}")

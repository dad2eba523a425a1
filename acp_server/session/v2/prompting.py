"""Answers `session/prompt` (ACP v2, prompt lifecycle). The response comes once the user's message is part of the
conversation (`Insertion`). The work on the message continues as the foreground work of the session, which ends with the
state `idle` (`Foreground`).

A prompt that arrives during the work on another prompt is held. Until its turn begins, the client can withdraw it, or
end it by `session/cancel`. Then the response is -32800, and the message never becomes part of the conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from acp_server.errors import EncodeError, InvalidRequest, RequestCancelled, SessionClosed
from acp_server.peer.answer import Answer
from acp_server.peer.call import Follower, LiveCall
from acp_server.peer.outcome import outcome
from acp_server.schema.reading import problem, read
from acp_server.session import prompting as v1
from acp_server.session import updates as v1_updates
from acp_server.session.prompting import inject
from acp_server.session.state import UNEXPLAINED, TurnState
from acp_server.session.v2.attempts import id_of
from acp_server.tasks.cause import program_end
from acp_server.tasks.grace import Job
from acp_server.tasks.tree import NOTHING, Node

if TYPE_CHECKING:
    from acp_server.peer.observer import Span
    from acp_server.schema.content import PromptRequest
    from acp_server.session.definition import PromptHandler, SteeringHandler, TurnHost
    from acp_server.session.v2.session import Session
    from acp_server.session.v2.updates import Speech
    from acp_server.wire.messages import Request

logger: logging.Logger = logging.getLogger("acp_server.session")


class Insertion(Follower):
    """One `session/prompt` until its message is part of the conversation."""

    __slots__ = ("_call", "_id", "_session", "_work", "steer")

    def __init__(self, handler: PromptHandler, call: LiveCall, session: Session, request: PromptRequest | None) -> None:
        self._call = call
        self._session = session
        self.steer: SteeringHandler | None = None
        """The handler that gives the message to the running turn, if the author enabled that; None otherwise."""
        self._work = Foreground(handler, call, session, request)
        self._id = id_of(call.params)
        if self._id is not None:
            session.attempts.begin(self._id)

    async def serve(self) -> dict[str, Any]:
        """Insert the message when its turn comes. Returns the result of the prompt."""
        response = await self._insert()
        if self._id is not None:
            self._session.attempts.insert(self._id)
        return response

    async def _insert(self) -> dict[str, Any]:
        turn = self._work.prompt.turn
        if self._session.turns[0] is not turn:
            if self.steer is not None and await inject(self.steer, self._session, turn.record.prompt, turn.id):
                return {"messageId": turn.id}
            await self._session.wait_place(turn)
            if self._call.is_cancelled:
                # A cancel at the end of the wait does not interrupt it.
                raise RequestCancelled
        if self._session.admit is not None:
            await self._session.admit(turn.face)
            if self._call.is_cancelled:
                raise RequestCancelled
        # No checkpoint from here to the response. A later cancel of the request changes nothing.
        self._work.begin()
        return {"messageId": turn.id}

    def left(self) -> None:
        """See `Follower`."""
        self._work.request_over()
        if self._id is not None:
            self._session.attempts.end(self._id)


class Repeated(Follower):
    """A further attempt of a `session/prompt` with the same key. It has the result of the first attempt, and inserts
    nothing."""

    __slots__ = ("_id", "_session")

    def __init__(self, session: Session, id: str) -> None:
        self._session = session
        self._id = id

    async def serve(self) -> dict[str, Any]:
        """Return the result of the first attempt. Raises InvalidRequest if that was withdrawn or has failed."""
        await self._session.attempts.wait(self._id)
        if not self._session.has_message(self._id):
            raise InvalidRequest("The first attempt of this prompt failed or was cancelled")
        return {"messageId": self._id}


class Unopened(v1.Unopened):
    """See `acp_server.session.prompting.Unopened`. A withdrawn message is answered with -32800."""

    __slots__ = ()

    def partial(self) -> Any:
        """See `Follower`."""
        return NOTHING


class Prompting(v1.Prompting):
    """The prompts of one connection."""

    PROMPT: ClassVar[Callable[..., Follower]] = Insertion
    UNOPENED: ClassVar[type[v1.Unopened]] = Unopened
    HOLDS: ClassVar[frozenset[str | None]] = frozenset({None, "hold", "steer"})

    def register(self, call: LiveCall) -> None:
        """Hold a prompt until `Insertion.serve` inserts it. Raises InvalidParams, ResourceNotFound and
        InvalidRequest."""
        if call.params.get("prompt") == []:
            raise problem("prompt", "has nothing in it")
        if (id := id_of(call.params)) is not None:
            session = cast("Session | None", self._sessions.get(call.params["sessionId"]))
            if session is not None and session.has_message(id):
                call.follower = Repeated(session, id)
                return
        super().register(call)
        if self._definition.second_prompts == "steer":
            call.follower.steer = self._definition.steer

    def read(self, call: LiveCall) -> PromptRequest:
        """See `acp_server.session.prompting.Prompting`."""
        from acp_server.schema.content import PromptRequest
        from acp_server.schema.v2.content import PromptRequest as PromptRequestV2

        for index, block in enumerate(read(PromptRequestV2, call.params).prompt):
            if block.type not in self._content:
                raise problem(f"prompt[{index}]", f"this agent does not take {block.type} content")
        return read(PromptRequest, call.params)


class LiveTurn(v1_updates.LiveTurn):
    """One turn. Its states are sent as they change. Its id is also the id of the user's message."""

    __slots__ = ("_asked", "_tell")

    speech: Speech

    def __init__(
        self, session: Session, host: TurnHost, request: PromptRequest | None, blocks: list[dict[str, Any]]
    ) -> None:
        super().__init__(session, host, request, blocks)
        if (id := id_of(self.params)) is not None:
            self.record.id = id
        self.speech = session.updates.of(self.record)  # pyright: ignore[reportIncompatibleVariableOverride]
        self._tell = session.updates.state
        self.on_move: tuple[Callable[[TurnState], None], ...] = (self._moved,)
        self._asked: list[str | None] = []
        """The ids of the tool calls with an open question to the user. None means a question of the handler."""
        self.speech.runs = lambda id: session.tools.is_running(self.face, id)
        self.speech.on_calls = self._look

    def _moved(self, state: TurnState) -> None:
        if state is TurnState.IN_PROGRESS:
            self._tell("running")
        elif state is TurnState.REQUIRES_ACTION:
            self._tell("requires_action")

    def insert(self, content: list[dict[str, Any]], id: str) -> bool:
        """See `acp_server.session.updates.LiveTurn`."""
        inserted = super().insert(content, id)
        if inserted:
            self.speech.user_message(id, content)
        return inserted

    def question_asked(self, tool_call_id: str | None) -> None:
        """See `acp_server.session.updates.LiveTurn`."""
        self._asked.append(tool_call_id)
        self._look()

    def question_over(self, tool_call_id: str | None) -> None:
        """See `acp_server.session.updates.LiveTurn`."""
        self._asked.remove(tool_call_id)
        self._look()

    def _look(self) -> None:
        """Change to REQUIRES_ACTION while a question is open and every running tool call waits for a question.
        Otherwise change to IN_PROGRESS."""
        if self.node.cause is None and self.state is not TurnState.CREATED:
            is_blocked = bool(self._asked) and self.speech.offered <= {*self._asked}
            self.move(TurnState.REQUIRES_ACTION if is_blocked else TurnState.IN_PROGRESS)


class Prompt(v1.Prompt):
    """A prompt whose message is part of the history before its turn begins."""

    __slots__ = ()

    TURN: ClassVar[type[v1_updates.LiveTurn]] = LiveTurn

    def insert(self, session: Session) -> None:
        """Make the user's message part of the conversation. Raises EncodeError; then the message is not part of it."""
        self._unsaved = True
        session.insert(self.turn)


class Foreground(Job):
    """The work on the prompt of `call`, in a node below the node of its session. Whatever happens, its end is sent
    once, outside of its own scope, like the response to `session/prompt` in version 1.

    Before `begin` the prompt is held, and a cancel of the work cancels the request.
    """

    __slots__ = ("_call", "_has_begun", "_is_told", "_session", "answer", "connection", "prompt")

    def __init__(self, handler: PromptHandler, call: LiveCall, session: Session, request: PromptRequest | None) -> None:
        self.connection: Final = call.connection
        self.answer: Final = Answer(call.method)
        node = session.node.child("foreground work")
        super().__init__(node, self.connection.work, self.connection.watchdog)
        self._call = call
        self._session = session
        self._has_begun = False
        self._is_told = False
        self.prompt: Final = Prompt(handler, self, session, request)

    @property
    def request(self) -> Request:
        """Return the request of the prompt. It may have been answered."""
        return self._call.request

    @property
    def span(self) -> Span | None:
        """The request of its prompt for observers, which may have ended."""
        return self._call.span

    def begin(self) -> None:
        """Insert the message and start the work. Raises InvalidParams for a message that cannot be sent to the
        client."""
        try:
            self.prompt.insert(self._session)
        except EncodeError:
            # JSON that can be read may be nested too deep to be written.
            raise problem("prompt", "is nested too deep") from None
        self._has_begun = True
        self.start(self.prompt.serve)

    def request_over(self) -> None:
        """Record that the request has ended. A message that was not inserted by now never will be."""
        if not self._has_begun:
            self.prompt.left()
            self.node.close()

    def was_cancelled(self, _node: Node) -> None:
        """See `SupervisedWork`."""
        if self._has_begun:
            super().was_cancelled(_node)
        elif _node.cause is not None:
            self._call.node.cancel(_node.cause)

    def over(self, value: Any, error: BaseException | None) -> None:
        """See `Job`."""
        self._tell(value, error)
        self.prompt.left()
        if error is not None and (ending := program_end(error)) is not None:
            # The connection ends with it, as with the crash of any task.
            raise ending

    def give_up(self) -> None:
        """See `SupervisedWork`. This sends the end of the work. The session stays occupied while the cancelled work
        still runs."""
        if self._has_begun and not self._is_told:
            logger.warning(
                "the handler of %s does not end although it was cancelled; the end of the turn is sent without the "
                "handler",
                self.node.label,
            )
            self._tell(NOTHING, None)

    def _tell(self, value: Any, error: BaseException | None) -> None:
        """Send the end of the work to the client. Only the first call has an effect."""
        if self._is_told:
            return
        self._is_told = True
        if value is NOTHING and error is None:
            value = self.prompt.partial()
        refusal = None
        if value is NOTHING:
            value, refusal = outcome(self._call.method, self.node.cause, self.prompt.partial, error, UNEXPLAINED)
        how = self.answer.added_to(value if refusal is None else {"stopReason": "error", "error": refusal.to_wire()})
        with suppress(SessionClosed):
            self._session.updates.state("idle", **how)
        self.prompt.answered()

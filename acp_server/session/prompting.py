"""Answers `session/prompt`, `session/cancel` (ACP, Prompt Turn and Cancellation), and `_session/steering`.

A turn runs in the node of its prompt's request. The reader registers the turn, so that a cancel right behind the prompt
finds it. A turn that the client cancelled answers `cancelled`, whatever its handler raised.

`_session/steering` is an extension of several agents and clients. It sends a message of the user to the running turn.
In version 2 a prompt can also steer, if the author enables that. The author's handler decides what a turn does with the
message.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, cast

from acp_server.errors import (
    InvalidRequest,
    RequestCancelled,
    ResourceNotFound,
    ToolCancelled,
    ToolRejected,
)
from acp_server.peer.call import Follower, LiveCall
from acp_server.peer.outcome import report_cancelled
from acp_server.schema.reading import problem, read
from acp_server.session.definition import AgentDefinition, PromptHandler
from acp_server.session.live_session import LiveSession, log_unsaved
from acp_server.session.repeated import cancelled_before, unrepeated
from acp_server.session.state import SessionState, TurnState, check_not_child, not_found
from acp_server.session.updates import LiveTurn
from acp_server.store.history import Message
from acp_server.store.session_store import loaded
from acp_server.tasks.cause import failures_in, program_end
from acp_server.tasks.running import drain
from acp_server.tasks.tree import NOTHING

if TYPE_CHECKING:
    from acp_server.schema.content import PromptRequest
    from acp_server.session.definition import SteeringHandler, TurnHost

logger: logging.Logger = logging.getLogger("acp_server.session")


class Prompt(Follower):
    """One `session/prompt` and its turn, which runs in `host`."""

    __slots__ = ("_handler", "_host", "_session", "_unsaved", "turn")

    TURN: ClassVar[type[LiveTurn]] = LiveTurn

    def __init__(
        self, handler: PromptHandler, host: TurnHost, session: LiveSession, request: PromptRequest | None
    ) -> None:
        self._handler = handler
        self._host = host
        self._session = session
        # Whether the session has changes that no task is saving.
        self._unsaved = False
        blocks: list[dict[str, Any]] = cast("Any", host.request.params)["prompt"]
        if len(blocks) > 1:
            blocks = unrepeated(blocks, cancelled_before(session))
        self.turn: Final = self.TURN(session, host, request, blocks)
        session.turns.append(self.turn)

    async def serve(self) -> dict[str, Any]:
        """Run the turn. Returns the result of the prompt."""
        turn = self.turn
        error = None
        try:
            if self._session.turns[0] is turn or await self._comes():
                if self._session.admit is not None:
                    await self._session.admit(turn.face)
                turn.begin()
                self._unsaved = True
                self._session.begin(turn)
                answering = self._handler(turn.face)
                if isinstance(answering, AsyncGeneratorType):
                    await drain(answering, turn.show)
                elif (piece := await answering) is not None:
                    await turn.show(piece)
        except BaseException as raised:
            if not turn.node.gave_in(raised) and not _is_users_choice(raised):
                error = raised
        if error is not None and turn.cause is None:
            turn.break_line()
        # There was no checkpoint since the handler ended. A later cancel changes nothing.
        turn.end(error)
        if turn.node.children:
            turn.node.end_children()
        saving = self._save()
        if saving is not None:
            await saving
        if turn.state is TurnState.COMPLETED:
            return turn.result()
        cause = turn.cause
        if cause is None:
            assert error is not None
            raise error
        if error is not None:
            report_cancelled(logger, "a turn", cause, error)
            if program_end(error) is not None:
                # Ends the program. The response is still that of a cancelled request.
                raise error
        if cause.asked_for:
            return turn.result()
        raise RequestCancelled

    async def _comes(self) -> bool:
        """Wait for the turns before this one (see `LiveSession.wait_place`). Returns whether the turn may run."""
        await self._session.wait_place(self.turn)
        # A cancel at the end of the wait does not interrupt it.
        return not self.turn.is_cancelled

    def _save(self) -> Awaitable[None] | None:
        """Save the session. Returns an awaitable if the store is asynchronous. A failure is only logged. The turn's
        updates were already sent, so the response has the turn's result, whether it was saved or not."""
        session = self._session
        self._unsaved = False
        session.record.updated_at = time()
        try:
            saving = session.saving()
        except Exception as error:
            log_unsaved(session, error)
            return None
        return None if saving is None else _saved(session, saving)

    async def _save_late(self) -> None:
        saving = self._save()
        if saving is not None:
            await saving

    def partial(self) -> Any:
        """See `Follower`."""
        turn = self.turn
        turn.end()
        # A time-out or a shutdown of the runtime is not the user's decision, so the response is -32800 and not
        # `cancelled`.
        return NOTHING if turn.state is TurnState.FAILED else turn.result()

    def answered(self) -> None:
        """See `Follower`."""
        if self.turn.record.ended_at is None:
            self.turn.end()
        if self._unsaved:
            # Saved here, because the handler may never end.
            self._host.connection.background(self._save_late)
            self._session.overstays()

    def left(self) -> None:
        """See `Follower`. The session is free for the next turn."""
        self._session.leave(self.turn)


class Unopened(Follower):
    """A prompt for a session that is not open. A client that has restarted the agent may send such a prompt."""

    __slots__ = ("_call", "_definition", "_session_id", "steer")

    def __init__(self, definition: AgentDefinition, session_id: str, call: LiveCall) -> None:
        self._definition = definition
        self._session_id = session_id
        self._call = call
        self.steer: Any = None

    async def serve(self) -> NoReturn:
        """Raise ResourceNotFound, whose message says to load or resume a stored session, or the exceptions of the
        store."""
        unknown = not_found(self._session_id)
        # With a required login, the response must not reveal which sessions are stored.
        if self._definition.auth_required or await loaded(self._definition.store, self._session_id) is None:
            raise unknown
        raise ResourceNotFound("Session not open: load or resume it first", data=unknown.data)

    def partial(self) -> Any:
        """See `Follower`. A cancelled prompt answers `cancelled`, in an unknown session as well."""
        cause = self._call.node.cause
        return {"stopReason": "cancelled"} if cause is not None and cause.asked_for else NOTHING


class Prompting:
    """Decides about the prompts of one connection, whether they are accepted, refused or held."""

    PROMPT: ClassVar[Callable[..., Follower]] = Prompt
    """Makes the follower of a prompt, from its handler, call, session and request."""
    UNOPENED: ClassVar[type[Unopened]] = Unopened
    """Makes the follower of a prompt whose session is not open."""
    HOLDS: ClassVar[frozenset[str | None]] = frozenset({"hold"})
    """The values of `AgentDefinition.second_prompts` with which a prompt is held while a turn runs."""

    def __init__(self, definition: AgentDefinition, sessions: Mapping[str, LiveSession]) -> None:
        self._definition = definition
        self._sessions = sessions
        # Every agent accepts text and links (ACP, Initialization: prompt capabilities).
        self._content = {
            "text",
            "resource_link",
            *("resource" if a == "embedded_context" else a for a in definition.accepts),
        }

    def register(self, call: LiveCall) -> None:
        """Register the turn of a prompt, which `Prompt.serve` runs. Raises InvalidParams, ResourceNotFound, and
        InvalidRequest while another turn runs."""
        params = call.params
        request = None if is_plain(params) else self.read(call)
        session = self._sessions.get(params["sessionId"])
        if session is None:
            check_not_child(params["sessionId"], self._sessions)
            call.follower = self.UNOPENED(self._definition, params["sessionId"], call)
            return
        if session.parent is not None or session.state is SessionState.ENDING:
            session.check_not_ending()
        if session.turns and not self._may_wait(session.turns):
            raise InvalidRequest("A prompt is already running in this session", data={"sessionId": session.id})
        assert self._definition.prompt is not None
        call.follower = self.PROMPT(self._definition.prompt, call, session, request)

    async def steer(self, call: LiveCall) -> dict[str, Any]:
        """`_session/steering`. Raises InvalidParams, ResourceNotFound and InvalidRequest."""
        request = self.read(call)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise not_found(request.session_id)
        if not request.prompt:
            raise problem("prompt", "has nothing in it")
        assert self._definition.steer is not None
        return await steer(call, self._definition.steer, session)

    def _may_wait(self, turns: Sequence[LiveTurn]) -> bool:
        """Whether a prompt is accepted while its session has these turns."""
        return self._definition.second_prompts in self.HOLDS or all(turn.is_cancelled for turn in turns)

    def read(self, call: LiveCall) -> PromptRequest:
        """The parameters of a prompt. Raises InvalidParams, also for kinds of content that the agent does not
        accept."""
        from acp_server.schema.content import PromptRequest

        request = read(PromptRequest, call.params)
        for index, block in enumerate(request.prompt):
            if block.type not in self._content:
                raise problem(f"prompt[{index}]", f"this agent does not take {block.type} content")
        return request


async def inject(handler: SteeringHandler, session: LiveSession, content: list[dict[str, Any]], id: str) -> bool:
    """Give a message of the user to the running turn and add it to the turn's conversation. Returns False if no turn
    runs, or if the turn has ended when the author's handler returns. Raises the exceptions of the handler."""
    turn = session.turns[0] if session.turns else None
    if turn is None or turn.state not in (TurnState.IN_PROGRESS, TurnState.REQUIRES_ACTION) or turn.is_cancelled:
        return False
    await handler(turn.face, Message("user", content))
    return turn.insert(content, id)


async def steer(call: LiveCall, handler: SteeringHandler, session: LiveSession) -> dict[str, Any]:
    """`_session/steering`: answers `injected` if a turn runs. Otherwise it asks the client for a prompt, if the client
    supports that, and raises InvalidRequest if not. It does not begin a turn, because a client cannot wait for a turn
    without a request, or cancel it."""
    if await inject(handler, session, call.params["prompt"], f"msg_{os.urandom(12).hex()}"):
        return {"outcome": "injected"}
    asked = call.meta.get("steering")
    if isinstance(asked, dict) and cast("dict[str, Any]", asked).get("idleBehavior") == "promptRequired":
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}
    raise InvalidRequest(
        "The session has no running turn to steer; send the message as session/prompt", data={"reason": "noRunningTurn"}
    )


async def _saved(session: LiveSession, saving: Awaitable[None]) -> None:
    try:
        await saving
    except Exception as error:
        log_unsaved(session, error)


def _is_users_choice(error: BaseException) -> bool:
    """Whether a handler raised only that the user rejected or cancelled a tool. The user knows that, and there is no
    fault."""
    failures = list(failures_in(error))
    return bool(failures) and all(isinstance(failure, (ToolRejected, ToolCancelled)) for failure in failures)


def is_plain(params: dict[str, Any]) -> bool:
    """Whether a prompt has only text, so that it needs no further validation. Nearly all prompts have only text, and
    this check costs a tenth of the validation."""
    blocks: list[dict[str, Any]] | None = params.get("prompt")
    if type(blocks) is not list or type(params.get("sessionId")) is not str:
        return False
    for block in blocks:
        # Inline, because a function call for each block would double the cost.
        if (
            type(block) is not dict
            or len(block) != 2
            or block.get("type") != "text"
            or type(block.get("text")) is not str
        ):
            return False
    return True

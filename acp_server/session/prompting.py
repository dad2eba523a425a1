"""`session/prompt` and `session/cancel` (ACP, Prompt Turn and Cancellation), and `_session/steering`.

A turn runs in the node of its prompt's request. It is registered in the reader, so that a cancel right behind the
prompt finds it. However it was stopped, and whatever the stopped work raised, a turn that the client cancelled answers
`cancelled`.

`_session/steering` is an extension that several agents and clients have: a message of the user for a turn that runs. On
version 2 a prompt may be one, too, if the author wants it so. What a turn does with it is its author's matter.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from acp_server.peer.call import Call, Follower
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

_UNTRACED: Final = nullcontext()


class Prompt(Follower):
    """One prompt and its turn, which runs in `host`: the `session/prompt`."""

    __slots__ = ("_handler", "_host", "_session", "_unsaved", "turn")

    TURN: ClassVar[type[LiveTurn]] = LiveTurn

    def __init__(
        self, handler: PromptHandler, host: TurnHost, session: LiveSession, request: PromptRequest | None
    ) -> None:
        self._handler = handler
        self._host = host
        self._session = session
        # Whether there is something to keep that no task is keeping.
        self._unsaved = False
        blocks: list[dict[str, Any]] = cast("Any", host.request.params)["prompt"]
        if len(blocks) > 1:
            blocks = unrepeated(blocks, cancelled_before(session))
        self.turn: Final = self.TURN(session, host, request, blocks)
        session.turns.append(self.turn)

    async def serve(self) -> dict[str, Any]:
        """Run the turn; the prompt's answer."""
        turn = self.turn
        error = None
        try:
            if self._session.turns[0] is turn or await self._comes():
                if self._session.admit is not None:
                    await self._session.admit(turn.face)
                with self._begin():
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
        # Nothing has waited since the handler ended. From here on a cancel is late and changes nothing.
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
                # Raised for the program's sake. The answer is that of a cancelled request all the same.
                raise error
        if cause.asked_for:
            return turn.result()
        raise RequestCancelled

    def _begin(self) -> AbstractContextManager[Any]:
        """The turn runs from now on: what its handler runs in."""
        turn = self.turn
        turn.move(TurnState.IN_PROGRESS)
        self._unsaved = True
        self._session.begin(turn)
        tracing = self._host.connection.tracing
        if tracing is None:
            return _UNTRACED
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": turn.session.id}
        return tracing.span("invoke_agent", turn.node, attributes)

    async def _comes(self) -> bool:
        """Wait for the turns before this one, see `LiveSession.wait_place`."""
        await self._session.wait_place(self.turn)
        # A cancel that came as the wait was over has not ended it.
        return not self.turn.is_cancelled

    def _save(self) -> Awaitable[None] | None:
        """Keep the session: what is left to be awaited of it. What the user asked for is done and was shown, so that is
        the answer, whether or not it can be kept."""
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
        # Our own time-out or shutdown is not the user's wish: it is -32800 and not `cancelled`.
        return NOTHING if turn.state is TurnState.FAILED else turn.result()

    def answered(self) -> None:
        """See `Follower`."""
        if self.turn.record.ended_at is None:
            self.turn.end()
        if self._unsaved:
            # The handler may never end.
            self._host.connection.background(self._save_late)
            self._session.overstays()

    def left(self) -> None:
        """See `Follower`: the session is free for the next turn."""
        self._session.leave(self.turn)


class Unopened(Follower):
    """A prompt in a session that is not open: a client that has started the agent anew may not know that."""

    __slots__ = ("_call", "_definition", "_session_id", "steer")

    def __init__(self, definition: AgentDefinition, session_id: str, call: Call) -> None:
        self._definition = definition
        self._session_id = session_id
        self._call = call
        self.steer: Any = None

    async def serve(self) -> NoReturn:
        """Raises ResourceNotFound, which says what to do if the session is kept; and what the store raises."""
        unknown = not_found(self._session_id)
        # Where clients have to log in, a client that has not done so learns nothing of what is kept.
        if self._definition.auth_required or await loaded(self._definition.store, self._session_id) is None:
            raise unknown
        raise ResourceNotFound("Session not open: load or resume it first", data=unknown.data)

    def partial(self) -> Any:
        """See `Follower`: a prompt that the client cancels is answered so, whatever its session is."""
        cause = self._call.node.cause
        return {"stopReason": "cancelled"} if cause is not None and cause.asked_for else NOTHING


class Prompting:
    """The prompts of one connection: which are taken, and what becomes of them."""

    PROMPT: ClassVar[Callable[..., Follower]] = Prompt
    """What a prompt becomes: of its handler, call, session and request."""
    UNOPENED: ClassVar[type[Unopened]] = Unopened
    """What a prompt becomes whose session is not open."""
    HOLDS: ClassVar[frozenset[str | None]] = frozenset({"hold"})
    """With which of the author's wishes a prompt is held while a turn runs."""

    def __init__(self, definition: AgentDefinition, sessions: Mapping[str, LiveSession]) -> None:
        self._definition = definition
        self._sessions = sessions
        # Text and links are the baseline (ACP, Initialization: prompt capabilities).
        self._content = {
            "text",
            "resource_link",
            *("resource" if a == "embedded_context" else a for a in definition.accepts),
        }

    def register(self, call: Call) -> None:
        """Register the turn of a prompt, which `Prompt.serve` then runs. Raises InvalidParams, ResourceNotFound, and
        InvalidRequest while another runs."""
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

    async def steer(self, call: Call) -> dict[str, Any]:
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
        """Whether a prompt is taken while there are these turns in its session."""
        return self._definition.second_prompts in self.HOLDS or all(turn.is_cancelled for turn in turns)

    def read(self, call: Call) -> PromptRequest:
        """Its parameters. Raises InvalidParams, also for content that this agent does not take."""
        from acp_server.schema.content import PromptRequest

        request = read(PromptRequest, call.params)
        for index, block in enumerate(request.prompt):
            if block.type not in self._content:
                raise problem(f"prompt[{index}]", f"this agent does not take {block.type} content")
        return request


async def inject(handler: SteeringHandler, session: LiveSession, content: list[dict[str, Any]], id: str) -> bool:
    """Hand a message of the user's to the turn that runs, of whose conversation it then is a part. False if there is
    none, or if it has ended by the time at which its author has taken the message. Raises what the handler raises."""
    turn = session.turns[0] if session.turns else None
    if turn is None or turn.state not in (TurnState.IN_PROGRESS, TurnState.REQUIRES_ACTION) or turn.is_cancelled:
        return False
    await handler(turn.face, Message("user", content))
    return turn.insert(content, id)


async def steer(call: Call, handler: SteeringHandler, session: LiveSession) -> dict[str, Any]:
    """`_session/steering`: answers `injected`, or that no turn runs. Then the client is to send a prompt, if it can be
    told so; otherwise that is an error. For a turn that no request stands for could not be waited for or cancelled."""
    if await inject(handler, session, call.params["prompt"], f"msg_{os.urandom(12).hex()}"):
        return {"outcome": "injected"}
    asked = call.meta.get("steering")
    if isinstance(asked, dict) and cast("dict[str, Any]", asked).get("idleBehavior") == "promptRequired":
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}
    raise InvalidRequest("No turn is running; send it as a prompt", data={"reason": "noRunningTurn"})


async def _saved(session: LiveSession, saving: Awaitable[None]) -> None:
    try:
        await saving
    except Exception as error:
        log_unsaved(session, error)


def _is_users_choice(error: BaseException) -> bool:
    """Whether all that a handler raised is that the user did not want a tool: the user knows, and nothing is wrong."""
    failures = list(failures_in(error))
    return bool(failures) and all(isinstance(failure, (ToolRejected, ToolCancelled)) for failure in failures)


def is_plain(params: dict[str, Any]) -> bool:
    """Whether a prompt is nothing but text, so that it needs no further check; nearly all are, and it costs a tenth."""
    blocks: list[dict[str, Any]] | None = params.get("prompt")
    if type(blocks) is not list or type(params.get("sessionId")) is not str:
        return False
    for block in blocks:
        # A call for each would cost as much again.
        if (
            type(block) is not dict
            or len(block) != 2
            or block.get("type") != "text"
            or type(block.get("text")) is not str
        ):
            return False
    return True

"""`session/prompt` and `session/cancel` (ACP, Prompt Turn and Cancellation).

A turn is a node inside its prompt's request. It is registered in the reader, so that a cancel right behind the prompt
finds it. However it was stopped, and whatever the stopped work raised, a turn that the client cancelled answers
`cancelled`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import anyio

from acp_server.errors import InvalidRequest, RequestCancelled, ResourceNotFound
from acp_server.peer.connection import Connection
from acp_server.peer.context import Call
from acp_server.schema.prompt import PromptRequest
from acp_server.session.hooks import Hooks
from acp_server.session.params import problem, read
from acp_server.session.session import Session
from acp_server.session.turn import Turn, TurnState
from acp_server.tasks.cause import Cause
from acp_server.tasks.failure import is_cancellation
from acp_server.tasks.grace import grace
from acp_server.tasks.tree import NOTHING, Node
from acp_server.wire.messages import Params

logger = logging.getLogger("acp_server.session")

CANCELLED: Final[dict[str, Any]] = {"stopReason": "cancelled"}


class Prompting:
    """The prompts of one connection."""

    def __init__(self, hooks: Hooks, sessions: Mapping[str, Session]) -> None:
        self._hooks = hooks
        self._sessions = sessions
        capabilities = hooks.prompt_capabilities
        # Text and links are the baseline (ACP, Initialization: prompt capabilities).
        self._content = {"text", "resource_link"}
        if capabilities is not None:
            offered = {
                "image": capabilities.image,
                "audio": capabilities.audio,
                "resource": capabilities.embedded_context,
            }
            self._content |= {kind for kind, yes in offered.items() if yes}

    def admit(self, call: Call) -> None:
        """Register the turn of a prompt. Raises InvalidParams, ResourceNotFound, and InvalidRequest while another
        runs."""
        request = read(PromptRequest, call)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ResourceNotFound("Session not found", data={"sessionId": request.session_id})
        for index, block in enumerate(request.prompt):
            if block.type not in self._content:
                raise problem(f"prompt[{index}]", f"this agent does not take {block.type} content")
        if any(not turn.is_cancelled for turn in session.turns):
            raise InvalidRequest("A prompt is already running in this session", data={"sessionId": session.id})
        turn = Turn(session, request, call.node.child("turn", shares_scope=True))
        session.turns.append(turn)
        call.admitted = turn
        call.partial(CANCELLED)

        def was_cut(_node: Node) -> None:
            if call.started:
                call.connection.watch.add(overdue)
            else:
                call.give_up(self._cancelled_answer(turn))

        def overdue() -> None:
            if not turn.node.closed:
                self._end(turn)
                call.give_up(self._cancelled_answer(turn))

        turn.node.on_cut = was_cut
        call.on_left(lambda: self._leave(turn))

    async def prompt(self, call: Call) -> dict[str, Any]:
        """Run the turn; the prompt's answer."""
        turn: Turn = call.admitted
        _, error = await turn.node.run(self._run, turn)
        self._end(turn, error)
        pending = self._hooks.store.save(turn.session.record)
        if pending is not None:
            with grace():
                await pending
        if turn.state is TurnState.COMPLETED:
            return {"stopReason": turn.record.stop_reason}
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error
        if turn.cause is None:
            assert error is not None
            raise error
        if error is not None and not is_cancellation(error):
            logger.warning("a turn failed while it was being cancelled (%s)", turn.cause.value, exc_info=error)
        answer = self._cancelled_answer(turn)
        if answer is NOTHING:
            raise RequestCancelled
        return answer

    def cancel(self, connection: Connection, params: Params | None) -> None:
        """`session/cancel`: cut the turns of a session. Means nothing for a session that has none."""
        if isinstance(params, dict):
            session_id = params.get("sessionId")
            session = self._sessions.get(session_id) if isinstance(session_id, str) else None
            if session is not None:
                session.cancel(Cause.SESSION)

    async def _run(self, turn: Turn) -> None:
        session = turn.session
        if session.turns[0] is not turn:
            await self._wait_for_others(turn)
        assert self._hooks.prompt is not None
        turn.move(TurnState.IN_PROGRESS)
        session.record.turns.append(turn.record)
        session.touch()
        await self._hooks.prompt(turn)

    async def _wait_for_others(self, turn: Turn) -> None:
        """Wait for the turns before this one, all of them cancelled, to clean up; but not for ever."""
        session = turn.session
        with anyio.move_on_after(turn.client.connection.limits.grace):
            while session.turns[0] is not turn:
                await session.turns[0].wait_left()
            return
        raise InvalidRequest("The cancelled turn before this one is still cleaning up", data={"sessionId": session.id})

    def _leave(self, turn: Turn) -> None:
        """The prompt is answered and its handler through, or it never began: the session is free for the next turn."""
        self._end(turn)
        turn.session.turns.remove(turn)
        turn.leave()

    def _end(self, turn: Turn, error: BaseException | None = None) -> None:
        """Decide how the turn ended. Nothing waits between the handler's end and this, so a later cancel is late."""
        if turn.cause is not None:
            turn.move(TurnState.CANCELED if turn.cause.asked_for else TurnState.FAILED)
        else:
            turn.move(TurnState.FAILED if error is not None else TurnState.COMPLETED)

    def _cancelled_answer(self, turn: Turn) -> Any:
        # Our own time-out or shutdown is not the user's wish: it is -32800 and not `cancelled`.
        cause = turn.cause
        return CANCELLED if cause is not None and cause.asked_for else NOTHING

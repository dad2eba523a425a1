"""The states of sessions and turns, with tables of the transitions between them, and the errors for sessions that are
not open.

Only `LiveSession.move` and `LiveTurn.move` change a state.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum
from typing import Final

from acp_server.errors import InvalidParams, ResourceNotFound
from acp_server.peer.call import NAME


def not_found(session_id: str) -> ResourceNotFound:
    """Return the error for a request that names a session which is not open (ACP, Session Setup)."""
    return ResourceNotFound("Session not found", data={"sessionId": session_id[:NAME]})


CHILD_KEY: Final = "sub_"
"""The prefix of a child session's name, which is the last part of its id."""


def check_not_child(session_id: object, sessions: Container[str]) -> None:
    """Raise InvalidParams if the id belongs to a child of one of these open sessions, even if the child has ended. For
    a child, a client may only cancel it and answer its requests (ACP, Subagents)."""
    above = session_id if isinstance(session_id, str) else ""
    while above:
        above, _, name = above.rpartition(".")
        if not name.startswith(CHILD_KEY):
            return
        if above in sessions:
            raise InvalidParams(
                "The session is a child session, and only session/cancel accepts the id of a child session"
            )


class SessionEvent(Enum):
    """The events that change the state of a session."""

    SUCCEEDED = "succeeded"
    """The request that opens the session has done its work. Cancelling that request no longer has an effect."""
    ANSWERED = "answered"
    """The request that opens the session was answered."""
    END_REQUESTED = "end_requested"
    """A request that ends the session or opens it again has arrived."""
    END_FAILED = "end_failed"
    """The last request that would have ended or reopened the session has finished, and the session still exists."""
    CLOSED = "closed"
    """The session releases its resources."""


class SessionState(Enum):
    """The states of a session on one connection, with the transitions from each state."""

    after: dict[SessionEvent, SessionState]
    """The next state for each event. Other events have no effect."""
    saves: bool
    """Whether `save` writes to the store in this state. Otherwise `save` has no effect."""

    OPENING = "opening"
    """The client does not know the session yet. Updates are held, and nothing is stored."""
    SUCCEEDED = "succeeded"
    """The session is being stored; the client does not know it yet."""
    OPEN = "open"
    ENDING = "ending"
    """Requests that end the session or open it again are in flight. Meanwhile prompts and choices are refused."""
    CLOSED = "closed"
    """The session is no longer saved, and sending an update raises SessionClosed."""


_S, _E = SessionState, SessionEvent

for _session_state, _saves, _after in (
    (_S.OPENING, False, {_E.SUCCEEDED: _S.SUCCEEDED, _E.CLOSED: _S.CLOSED}),
    (_S.SUCCEEDED, True, {_E.ANSWERED: _S.OPEN, _E.CLOSED: _S.CLOSED}),
    (_S.OPEN, True, {_E.END_REQUESTED: _S.ENDING, _E.CLOSED: _S.CLOSED}),
    (_S.ENDING, True, {_E.END_FAILED: _S.OPEN, _E.CLOSED: _S.CLOSED}),
    (_S.CLOSED, False, {}),
):
    _session_state.saves = _saves
    _session_state.after = _after


UNEXPLAINED: Final = "Internal error: the agent's log says why"
"""The message that a client gets about an exception. The exception's own text is not sent, because it may contain
secrets."""


class TurnState(Enum):
    """The states of a turn, with the transitions from each state."""

    successors: tuple[TurnState, ...]
    """The states that can follow; empty after the end of the turn."""
    word: str
    """The enum value as a plain attribute, because looking up `value` of an enum takes ten times as long."""

    CREATED = "created"
    """The prompt has arrived, and its handler has not begun."""
    IN_PROGRESS = "in_progress"
    REQUIRES_ACTION = "requires_action"
    """A question to the user is open."""
    COMPLETED = "completed"
    """The handler ended by itself. `TurnRecord.stop_reason` has the reason."""
    FAILED = "failed"
    """The handler raised, or the agent ended the turn. `Turn.last_error` has the error."""
    CANCELED = "canceled"
    """The client or its user cancelled the turn."""


for _state, _successors in {
    TurnState.CREATED: (TurnState.IN_PROGRESS, TurnState.CANCELED, TurnState.FAILED),
    TurnState.IN_PROGRESS: (TurnState.REQUIRES_ACTION, TurnState.COMPLETED, TurnState.FAILED, TurnState.CANCELED),
    TurnState.REQUIRES_ACTION: (TurnState.IN_PROGRESS, TurnState.COMPLETED, TurnState.FAILED, TurnState.CANCELED),
    TurnState.COMPLETED: (),
    TurnState.FAILED: (),
    TurnState.CANCELED: (),
}.items():
    _state.successors = _successors
    _state.word = _state.value

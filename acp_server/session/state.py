"""The states of sessions and of turns, and the moves between them, as data; what is said of a session that is not open.

Nothing moves here: `Session.move` and `Turn.move` do, and nothing else changes a state.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum
from typing import Final

from acp_server.errors import InvalidParams, ResourceNotFound
from acp_server.peer.call import NAME


def not_found(session_id: str) -> ResourceNotFound:
    """What a request is answered with that names a session which is not open (ACP, Session Setup)."""
    return ResourceNotFound("Session not found", data={"sessionId": session_id[:NAME]})


CHILD_KEY: Final = "sub_"
"""What the name of a child session in its parent begins with."""


def check_not_child(session_id: object, sessions: Container[str]) -> None:
    """Raises InvalidParams for the id of a child of these open sessions, also if the child has ended: a client may
    cancel a child, and answer what it asks, and nothing else (ACP, Subagents)."""
    above = session_id if isinstance(session_id, str) else ""
    while above:
        above, _, name = above.rpartition(".")
        if not name.startswith(CHILD_KEY):
            return
        if above in sessions:
            raise InvalidParams("A child session is its parent's: only session/cancel may name it")


class SessionEvent(Enum):
    """What happens to a session, as far as it changes its state."""

    SUCCEEDED = "succeeded"
    """The request that opens the session has done its work. From here on a cancel of that request is late."""
    ANSWERED = "answered"
    """The client has been told that the session is there."""
    END_REQUESTED = "end_requested"
    """A request has arrived that ends the session or opens it anew."""
    END_FAILED = "end_failed"
    """The last of those requests is through, and the session is still there."""
    CLOSED = "closed"
    """The session lets go of what it holds."""


class SessionState(Enum):
    """Where a session is in its life on one connection, where it can go from there, and what it refuses."""

    after: dict[SessionEvent, SessionState]
    """Where each event leads. Nothing comes of an event that is not named."""
    saves: bool
    """Whether the store keeps it. In the other states saving does nothing."""

    OPENING = "opening"
    """The client does not know the session: what is said is kept back, and nothing is stored."""
    SUCCEEDED = "succeeded"
    """The session is being stored; the client does not know it yet."""
    OPEN = "open"
    ENDING = "ending"
    """Requests that end it, or open it anew, have arrived: prompts and choices are refused until they are through."""
    CLOSED = "closed"
    """Nothing of it is stored any more, and what is said raises SessionClosed."""


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
"""What a client is told of an exception, of which the text may hold secrets."""


class TurnState(Enum):
    """Where a turn is in its life, and where it can go from there."""

    successors: tuple[TurnState, ...]
    word: str
    """Its value; a plain attribute, for that of an enum takes ten times as long to look up."""

    CREATED = "created"
    IN_PROGRESS = "in_progress"
    REQUIRES_ACTION = "requires_action"
    """The user has been asked something, and has not answered."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


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

"""The states of a turn and the moves between them, as data. Nothing moves here: `acp_server.session.turn` does."""

from __future__ import annotations

from enum import Enum


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
    TurnState.IN_PROGRESS: (
        TurnState.REQUIRES_ACTION,
        TurnState.COMPLETED,
        TurnState.FAILED,
        TurnState.CANCELED,
    ),
    TurnState.REQUIRES_ACTION: (
        TurnState.IN_PROGRESS,
        TurnState.COMPLETED,
        TurnState.FAILED,
        TurnState.CANCELED,
    ),
    TurnState.COMPLETED: (),
    TurnState.FAILED: (),
    TurnState.CANCELED: (),
}.items():
    _state.successors = _successors
    _state.word = _state.value

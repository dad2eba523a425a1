"""Who owes whom an answer: the ids that the peer waits for, and the ids that we wait for.

The two tables never mix, since both sides count their own ids. It does no I/O and knows neither tasks nor frames; every
change of state goes through one of its methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_server.wire.messages import Request, RequestId


class AskState(StrEnum):
    """What became of a request of ours."""

    NEW = "new"
    WAITING = "waiting"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    LOST = "lost"


_MOVES: dict[AskState, frozenset[AskState]] = {
    AskState.NEW: frozenset({AskState.WAITING}),
    AskState.WAITING: frozenset({AskState.ANSWERED, AskState.WITHDRAWN, AskState.LOST}),
    AskState.WITHDRAWN: frozenset({AskState.ANSWERED, AskState.LOST}),
    AskState.ANSWERED: frozenset(),
    AskState.LOST: frozenset(),
}


@dataclass(eq=False)
class Asked:
    """A request of ours. `wants_late_answer`: an answer that comes after the withdrawal is still of use."""

    method: str
    wants_late_answer: bool = False
    id: int = field(default=-1, init=False)
    state: AskState = field(default=AskState.NEW, init=False)


class Ledger:
    """The open debts of one connection, in both directions.

    `late_limit`: how many withdrawn requests of ours are remembered for the sake of a late answer. Beyond it the oldest
    is forgotten, so that a peer that never answers cannot make the table grow without end.
    """

    __slots__ = ("_incoming", "_late_limit", "_next_id", "_outgoing", "_withdrawn")

    def __init__(self, late_limit: int = 1000) -> None:
        self._incoming: dict[RequestId, Request] = {}
        self._outgoing: dict[int, Asked] = {}
        self._withdrawn: dict[int, Asked] = {}
        self._late_limit = late_limit
        self._next_id = 0

    def accept(self, request: Request) -> bool:
        """Owe the peer an answer to `request`. False if a request with this id is still unanswered."""
        if request.id in self._incoming:
            return False
        self._incoming[request.id] = request
        return True

    def settle(self, request: Request) -> bool:
        """Pay the debt. False if it is paid already, so that no request is ever answered twice."""
        if self._incoming.get(request.id) is not request:
            return False
        del self._incoming[request.id]
        return True

    def owed(self, id: RequestId) -> Request | None:
        """The unanswered request with this id. Types count: 7 is not "7"."""
        return self._incoming.get(id)

    @property
    def next_id(self) -> int:
        """The id that the next request of ours gets. Ids are never used twice in the life of a connection."""
        return self._next_id

    def ask(self, asked: Asked) -> None:
        """Expect an answer from the peer, to the id `next_id`. Each `asked` is asked once."""
        self._move(asked, AskState.WAITING)

    def answered(self, id: object) -> tuple[Asked, bool] | None:
        """An answer for this id has arrived: the request, and whether it comes too late, because we had withdrawn it.

        None if the id means nothing (any more).
        """
        if type(id) is not int:
            return None
        late = False
        asked = self._outgoing.get(id)
        if asked is None:
            late = True
            asked = self._withdrawn.get(id)
            if asked is None:
                return None
        self._move(asked, AskState.ANSWERED)
        return asked, late

    def withdraw(self, asked: Asked) -> bool:
        """We no longer wait. False if there is nothing to withdraw, because the answer or the end came first."""
        if asked.state is not AskState.WAITING:
            return False
        self._move(asked, AskState.WITHDRAWN)
        return True

    def lose_all(self) -> list[Asked]:
        """The peer is gone: those that still waited, in the order in which they asked."""
        waiting = list(self._outgoing.values())
        for asked in [*waiting, *self._withdrawn.values()]:
            self._move(asked, AskState.LOST)
        return waiting

    @property
    def incoming(self) -> int:
        """How many answers we owe."""
        return len(self._incoming)

    @property
    def outgoing(self) -> int:
        """How many answers we wait for."""
        return len(self._outgoing)

    @property
    def withdrawn(self) -> int:
        """How many answers we would still take note of, though no caller waits for them."""
        return len(self._withdrawn)

    def _move(self, asked: Asked, state: AskState) -> None:
        if state not in _MOVES[asked.state]:
            raise AssertionError(f"a request of ours cannot go from {asked.state.value} to {state.value}")
        asked.state = state
        self._outgoing.pop(asked.id, None)
        self._withdrawn.pop(asked.id, None)
        if state is AskState.WAITING:
            asked.id = self._next_id
            self._next_id += 1
            self._outgoing[asked.id] = asked
        elif state is AskState.WITHDRAWN and asked.wants_late_answer:
            self._withdrawn[asked.id] = asked
            if len(self._withdrawn) > self._late_limit:
                self._withdrawn.pop(next(iter(self._withdrawn)))

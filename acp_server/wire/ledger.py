"""Which of our requests are not answered yet.

It does no I/O and knows neither tasks nor frames; every change of state goes through one of its methods.
"""

from __future__ import annotations

from enum import StrEnum


class RequestState(StrEnum):
    """What became of a request of ours."""

    NEW = "new"
    WAITING = "waiting"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    LOST = "lost"


_MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.NEW: frozenset({RequestState.WAITING}),
    RequestState.WAITING: frozenset({RequestState.ANSWERED, RequestState.WITHDRAWN, RequestState.LOST}),
    RequestState.WITHDRAWN: frozenset({RequestState.ANSWERED, RequestState.LOST}),
    RequestState.ANSWERED: frozenset(),
    RequestState.LOST: frozenset(),
}


class OutgoingRequest:
    """A request of ours. `wants_late_answer`: an answer that comes after the withdrawal is still of use."""

    __slots__ = ("id", "method", "state", "wants_late_answer")

    def __init__(self, method: str, wants_late_answer: bool = False) -> None:
        self.method: str = method
        self.wants_late_answer: bool = wants_late_answer
        self.id: int = -1
        self.state: RequestState = RequestState.NEW


class Ledger:
    """The requests that we have sent on one connection, and that are not answered yet.

    `late_limit`: how many withdrawn requests of ours are remembered for the sake of a late answer. Beyond it the oldest
    is forgotten, so that a peer that never answers cannot make the table grow without end.
    """

    __slots__ = ("_late_limit", "_outgoing", "_withdrawn", "next_id")

    def __init__(self, late_limit: int = 1000) -> None:
        self._outgoing: dict[int, OutgoingRequest] = {}
        self._withdrawn: dict[int, OutgoingRequest] = {}
        self._late_limit = late_limit
        self.next_id: int = 0
        """The id that the next request of ours gets. Ids are never used twice in the life of a connection."""

    def expect(self, request: OutgoingRequest) -> None:
        """Expect an answer from the peer, to the id `next_id`. Each `request` is sent once."""
        self._move(request, RequestState.WAITING)

    def answered(self, id: object) -> tuple[OutgoingRequest, bool] | None:
        """An answer for this id has arrived: the request, and whether it comes too late, because we had withdrawn it.

        None if the id means nothing (any more).
        """
        if type(id) is not int:
            return None
        late = False
        request = self._outgoing.get(id)
        if request is None:
            late = True
            request = self._withdrawn.get(id)
            if request is None:
                return None
        self._move(request, RequestState.ANSWERED)
        return request, late

    def withdraw(self, request: OutgoingRequest) -> bool:
        """We no longer wait. False if there is nothing to withdraw, because the answer or the end came first."""
        if request.state is not RequestState.WAITING:
            return False
        self._move(request, RequestState.WITHDRAWN)
        return True

    def lose_all(self) -> list[OutgoingRequest]:
        """The peer is gone: those that still waited, in the order in which they were sent."""
        waiting = list(self._outgoing.values())
        for request in [*waiting, *self._withdrawn.values()]:
            self._move(request, RequestState.LOST)
        return waiting

    @property
    def outgoing(self) -> int:
        """How many requests of ours are not answered yet."""
        return len(self._outgoing)

    @property
    def withdrawn(self) -> int:
        """How many answers we would still take note of, though no caller waits for them."""
        return len(self._withdrawn)

    def _move(self, request: OutgoingRequest, state: RequestState) -> None:
        if state not in _MOVES[request.state]:
            raise AssertionError(f"a request of ours cannot go from {request.state.value} to {state.value}")
        request.state = state
        self._outgoing.pop(request.id, None)
        self._withdrawn.pop(request.id, None)
        if state is RequestState.WAITING:
            request.id = self.next_id
            self.next_id += 1
            self._outgoing[request.id] = request
        elif state is RequestState.WITHDRAWN and request.wants_late_answer:
            self._withdrawn[request.id] = request
            if len(self._withdrawn) > self._late_limit:
                self._withdrawn.pop(next(iter(self._withdrawn)))

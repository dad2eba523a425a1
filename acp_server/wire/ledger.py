"""The in-flight requests of this side, by id.

It does no I/O and knows neither tasks nor frames. Each change of state goes through one of its methods.
"""

from __future__ import annotations

from enum import StrEnum


class RequestState(StrEnum):
    """The state of an outgoing request. WITHDRAWN: a `$/cancel_request` was sent; LOST: the connection ended."""

    NEW = "new"
    WAITING = "waiting"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    LOST = "lost"


_MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.NEW: frozenset(),
    RequestState.WAITING: frozenset({RequestState.ANSWERED, RequestState.WITHDRAWN, RequestState.LOST}),
    RequestState.WITHDRAWN: frozenset({RequestState.ANSWERED, RequestState.LOST}),
    RequestState.ANSWERED: frozenset(),
    RequestState.LOST: frozenset(),
}


class OutgoingRequest:
    """An outgoing request. `wants_late_answer`: a late response, after the withdrawal, is still of use."""

    __slots__ = ("id", "method", "state", "wants_late_answer")

    def __init__(self, method: str, wants_late_answer: bool = False) -> None:
        self.method: str = method
        self.wants_late_answer: bool = wants_late_answer
        self.id: int = -1
        self.state: RequestState = RequestState.NEW


class Ledger:
    """The in-flight requests of one connection.

    `late_limit`: how many withdrawn requests are remembered for a late response. Beyond it the oldest is forgotten, so
    that a peer that never responds cannot grow the table without bound.
    """

    __slots__ = ("_late_limit", "_outgoing", "_withdrawn", "next_id")

    def __init__(self, late_limit: int = 1000) -> None:
        self._outgoing: dict[int, OutgoingRequest] = {}
        self._withdrawn: dict[int, OutgoingRequest] = {}
        self._late_limit = late_limit
        self.next_id: int = 0
        """The id of the next request. An id is never used twice on a connection."""

    def expect(self, request: OutgoingRequest) -> None:
        """Register a request under `next_id`. Each `request` is sent once."""
        if request.state is not RequestState.NEW:
            raise AssertionError(f"an outgoing request cannot go from {request.state.value} to waiting")
        request.state = RequestState.WAITING
        request.id = self.next_id
        self.next_id += 1
        self._outgoing[request.id] = request

    def answered(self, id: object) -> tuple[OutgoingRequest, bool] | None:
        """Take the request that a response with this id belongs to, and whether the response is late.

        None for an unknown or forgotten id.
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
        """Stop waiting for a response. False if the response or the end of the connection came first."""
        if request.state is not RequestState.WAITING:
            return False
        self._move(request, RequestState.WITHDRAWN)
        return True

    def lose_all(self) -> list[OutgoingRequest]:
        """The connection ended: the requests that were in flight, in the order of sending."""
        waiting = list(self._outgoing.values())
        for request in [*waiting, *self._withdrawn.values()]:
            self._move(request, RequestState.LOST)
        return waiting

    @property
    def outgoing(self) -> int:
        """The number of in-flight requests."""
        return len(self._outgoing)

    @property
    def withdrawn(self) -> int:
        """The number of withdrawn requests whose late response would still be used."""
        return len(self._withdrawn)

    def _move(self, request: OutgoingRequest, state: RequestState) -> None:
        if state not in _MOVES[request.state]:
            raise AssertionError(f"an outgoing request cannot go from {request.state.value} to {state.value}")
        request.state = state
        self._outgoing.pop(request.id, None)
        self._withdrawn.pop(request.id, None)
        if state is RequestState.WITHDRAWN and request.wants_late_answer:
            self._withdrawn[request.id] = request
            if len(self._withdrawn) > self._late_limit:
                self._withdrawn.pop(next(iter(self._withdrawn)))

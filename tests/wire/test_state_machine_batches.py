"""Batches at the endpoint (JSON-RPC 2.0, section 6): taken apart, and answered with one array each."""

import json
from typing import Any

import pytest

from acp_server.errors import InternalError, RequestCancelled
from acp_server.wire.batch import BATCH_BYTES, BATCH_LIMIT, Batches
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import Answered, Dropped, Endpoint, Event, Outgoing, OutgoingRequest
from tests.wire.live import cancel, notification, request, strict


class Side:
    """An endpoint, what came out of it, and the requests that it has to answer."""

    def __init__(self, batch_bytes: int = BATCH_BYTES) -> None:
        self.endpoint = Endpoint(batch_bytes=batch_bytes)
        self.pending: list[Request] = []

    def receive(self, message: Any) -> list[Event]:
        events = list(self.endpoint.receive(json.dumps(message).encode() + b"\n"))
        self.pending += [event for event in events if isinstance(event, Request)]
        return events

    def answer(self, index: int) -> bytes | None:
        return self.endpoint.answer(self.pending[index], index)


def codes(frame: bytes | None) -> list[tuple[Any, Any]]:
    """The ids of an array's members, each with its error code or None."""
    assert frame is not None
    return [(member["id"], member.get("error", {}).get("code")) for member in strict(frame)]


def refusal(events: list[Event]) -> bytes:
    (event,) = events
    assert isinstance(event, Outgoing)
    return event.frame


@pytest.mark.behaviour("H1")
def test_a_batch_too_long_to_be_accepted_is_refused_with_one_error_and_none_of_it_runs() -> None:
    """Batches are accepted, up to a length. Beyond it one is refused like any is where none are accepted."""
    side = Side()
    answer = strict(refusal(side.receive([request(id, "x") for id in range(BATCH_LIMIT + 1)])))
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert not side.endpoint.incoming
    assert len(side.receive([request(id, "x") for id in range(BATCH_LIMIT)])) == BATCH_LIMIT


@pytest.mark.behaviour("H2")
def test_an_empty_batch_is_one_error_and_a_batch_of_junk_an_array_of_them() -> None:
    assert strict(refusal(Side().receive([])))["error"]["code"] == -32600
    junk = [1, None, [], [request(1, "x")], {}, {"jsonrpc": "2.0", "method": 1}, request(True, "x"), request(5, "x", 5)]
    assert codes(refusal(Side().receive(junk))) == [(None, -32600)] * 7 + [(5, -32600)]


@pytest.mark.behaviour("H3")
def test_one_array_answers_requests_and_junk_in_their_order_but_no_notification() -> None:
    side = Side()
    events = side.receive([request(1, "x"), 17, notification("n"), notification("n", 5), request("1", "x")])
    assert [type(event) for event in events] == [Request, Notification, Dropped, Request]
    assert side.answer(1) is None
    assert codes(side.answer(0)) == [(1, None), (None, -32600), ("1", None)]


@pytest.mark.behaviour("H3")
def test_a_batch_of_notifications_is_not_answered() -> None:
    assert [type(event) for event in Side().receive([notification("n"), notification("$/n")])] == [Notification] * 2


@pytest.mark.behaviour("H3")
def test_members_answered_while_the_batch_is_read_wait_for_its_end() -> None:
    endpoint = Endpoint()
    line = json.dumps([request(1, "x"), request(2, "x"), 17]).encode() + b"\n"
    frames: list[bytes | None] = []
    for event in endpoint.receive(line):
        if isinstance(event, Request):
            frames.append(endpoint.answer(event, None))
        else:
            assert isinstance(event, Outgoing)
            frames.append(event.frame)
    assert frames[:2] == [None, None]
    assert codes(frames[2]) == [(1, None), (2, None), (None, -32600)]


@pytest.mark.behaviour("H4")
def test_a_slow_member_holds_back_its_own_array_only() -> None:
    side = Side()
    side.receive([request(1, "slow"), request(2, "x")])
    side.receive([request(3, "x")])
    side.receive(request(4, "x"))
    assert side.answer(1) is None
    assert codes(side.answer(2)) == [(3, None)]
    assert side.answer(3) is not None
    assert codes(side.answer(0)) == [(1, None), (2, None)]


@pytest.mark.behaviour("H5", "H6")
def test_a_cancel_comes_out_behind_the_member_that_it_names() -> None:
    side = Side()
    first, second, note = side.receive([request(1, "x"), request(2, "x"), cancel(1)])
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert isinstance(note, Notification)
    assert note.params == {"requestId": 1}
    assert side.endpoint.refuse(first, RequestCancelled()) is None
    assert codes(side.answer(1)) == [(1, -32800), (2, None)]


@pytest.mark.behaviour("H7")
def test_a_second_answer_to_a_member_changes_nothing_before_and_after_the_array_is_out() -> None:
    side = Side()
    first, _ = (event for event in side.receive([request(1, "x"), request(2, "x")]))
    assert isinstance(first, Request)
    assert side.endpoint.refuse(first, InternalError()) is None
    assert side.answer(0) is None
    assert codes(side.answer(1)) == [(1, -32603), (2, None)]
    assert side.answer(0) is None
    assert side.answer(1) is None


@pytest.mark.behaviour("H8")
def test_duplicate_ids_in_and_across_batches_strand_nobody() -> None:
    side = Side()
    side.receive([request(1, "x"), request(1, "x"), request(2, "x")])
    assert codes(refusal(side.receive([request(2, "x"), request(1, "x")]))) == [(None, -32600)] * 2
    assert side.answer(0) is None
    # The id is free again, though its first array is not out.
    side.receive([request(1, "x")])
    assert codes(side.answer(2)) == [(1, None)]
    assert codes(side.answer(1)) == [(1, None), (None, -32600), (2, None)]


@pytest.mark.behaviour("H9", "A11")
def test_a_batch_of_answers_reaches_each_of_those_who_wait_and_is_not_answered() -> None:
    side = Side()
    asked = [OutgoingRequest("x") for _ in range(3)]
    for request_of_ours in asked:
        side.endpoint.request(request_of_ours, None)
    answers = [{"jsonrpc": "2.0", "id": id, "result": id} for id in (2, 9, 0)]
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}
    events = side.receive([*answers, error, {"id": 0, "error": "nope"}])
    assert [type(event) for event in events] == [Answered, Dropped, Answered, Answered, Dropped]
    assert [event.request for event in events if isinstance(event, Answered)] == [asked[2], asked[0], asked[1]]
    assert side.endpoint.ledger.outgoing == 0


@pytest.mark.behaviour("H9")
def test_junk_among_answers_is_answered_alone() -> None:
    side = Side()
    side.endpoint.request(OutgoingRequest("x"), None)
    answered, complaint = side.receive([{"jsonrpc": "2.0", "id": 0, "result": 1}, 17])
    assert isinstance(answered, Answered)
    assert isinstance(complaint, Outgoing)
    assert codes(complaint.frame) == [(None, -32600)]


def test_requests_of_a_new_batch_are_refused_while_unfinished_batches_hold_too_much() -> None:
    side = Side(batch_bytes=10_000)
    side.receive([request(0, "hangs"), *[1] * 100])
    events = side.receive([request(1, "x"), notification("n"), request(2, "x"), 17])
    note, array = events
    assert isinstance(note, Notification)
    assert isinstance(array, Outgoing)
    assert codes(array.frame) == [(1, -32603), (2, -32603), (None, -32600)]
    assert strict(array.frame)[0]["error"]["data"] == {"limit": "batches"}
    assert len(side.pending) == 1
    # A message of its own is as welcome as ever, and so is a batch when the room is free again.
    side.receive(request(3, "x"))
    assert side.answer(1) is not None
    assert codes(side.answer(0))[:2] == [(0, None), (None, -32600)]
    side.receive([request(4, "x")])
    assert codes(side.answer(2)) == [(4, None)]


def test_an_answer_that_unfinished_batches_cannot_hold_is_replaced_by_an_error() -> None:
    side = Side(batch_bytes=10_000)
    side.receive([request(id, "x") for id in range(3)])
    big = "x" * 20_000
    assert side.endpoint.answer(side.pending[1], big) is None
    assert side.endpoint.answer(side.pending[0], 0) is None
    # The last one completes the array and need not be held.
    array = strict(side.endpoint.answer(side.pending[2], big) or b"")
    assert [(member["id"], member.get("error", {}).get("code")) for member in array] == [
        (0, None),
        (1, -32603),
        (2, None),
    ]
    assert array[2]["result"] == big


def test_finished_batches_hold_nothing() -> None:
    batches = Batches()
    for _ in range(3):
        batch = batches.begin()
        place = batch.open()
        batch.add(b"1\n")
        batch.seal()
        assert batches.held > 0
        place.fill(b"2\n")
        batches.begin().seal()
    assert batches.held == 0

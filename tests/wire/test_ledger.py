"""Which requests of ours are not answered yet."""

import pytest

from acp_server.wire.state_machine import Ledger, OutgoingRequest, RequestState


def asked(ledger: Ledger, *, wants_late_answer: bool = False) -> OutgoingRequest:
    request = OutgoingRequest("x", wants_late_answer)
    ledger.expect(request)
    return request


@pytest.mark.behaviour("C16")
def test_our_ids_count_up_whatever_becomes_of_the_requests() -> None:
    ledger = Ledger()
    first = asked(ledger)
    ledger.withdraw(first)
    second = asked(ledger)
    ledger.answered(second.id)
    assert ledger.next_id == 2
    assert [first.id, second.id, asked(ledger).id] == [0, 1, 2]


def test_an_answer_is_taken_once() -> None:
    ledger = Ledger()
    request = asked(ledger)
    assert ledger.answered(request.id) == (request, False)
    assert request.state is RequestState.ANSWERED
    assert ledger.answered(request.id) is None
    assert ledger.outgoing == 0


@pytest.mark.behaviour("A2", "A11")
@pytest.mark.parametrize("id", ["0", False, 0.0, -0.0, None, [0], {"0": 0}, 1, -1, 2**70], ids=repr)
def test_an_answer_to_another_id_is_nobody_s(id: object) -> None:
    ledger = Ledger()
    request = asked(ledger)
    assert ledger.answered(id) is None
    assert request.state is RequestState.WAITING


@pytest.mark.behaviour("C2", "C3")
def test_only_a_waiting_request_is_withdrawn_and_once() -> None:
    ledger = Ledger()
    withdrawn, answered, new = asked(ledger), asked(ledger), OutgoingRequest("x")
    assert ledger.withdraw(withdrawn)
    assert not ledger.withdraw(withdrawn)
    ledger.answered(answered.id)
    assert not ledger.withdraw(answered)
    assert not ledger.withdraw(new)
    assert ledger.outgoing == 0


@pytest.mark.behaviour("C4", "C5")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_late_answer_is_told_to_whom_it_still_matters(wanted: bool) -> None:
    ledger = Ledger()
    request = asked(ledger, wants_late_answer=wanted)
    ledger.withdraw(request)
    assert ledger.withdrawn == wanted
    assert ledger.answered(request.id) == ((request, True) if wanted else None)
    assert ledger.answered(request.id) is None
    assert ledger.withdrawn == 0


@pytest.mark.behaviour("C5")
def test_a_late_answer_matters_to_nobody_unless_it_is_said() -> None:
    ledger = Ledger()
    request = OutgoingRequest("x")
    ledger.expect(request)
    ledger.withdraw(request)
    assert ledger.withdrawn == 0


@pytest.mark.behaviour("K2")
def test_what_is_withdrawn_and_never_answered_does_not_pile_up() -> None:
    ledger = Ledger(late_limit=3)
    requests = [asked(ledger, wants_late_answer=True) for _ in range(5)]
    for request in requests:
        ledger.withdraw(request)
    assert (ledger.outgoing, ledger.withdrawn) == (0, 3)
    assert [ledger.answered(request.id) is not None for request in requests] == [False, False, True, True, True]


def test_the_end_loses_all_and_names_those_who_wait_in_their_order() -> None:
    ledger = Ledger()
    first, answered, withdrawn, second = (asked(ledger, wants_late_answer=True) for _ in range(4))
    ledger.answered(answered.id)
    ledger.withdraw(withdrawn)
    assert ledger.lose_all() == [first, second]
    assert ledger.lose_all() == []
    assert [r.state for r in (first, answered, withdrawn)] == [
        RequestState.LOST,
        RequestState.ANSWERED,
        RequestState.LOST,
    ]
    assert (ledger.outgoing, ledger.withdrawn) == (0, 0)
    assert ledger.answered(first.id) is None
    assert not ledger.withdraw(first)


def test_a_request_is_asked_once_and_a_second_time_changes_nothing() -> None:
    ledger = Ledger()
    request = asked(ledger)
    with pytest.raises(AssertionError, match="from waiting to waiting"):
        ledger.expect(request)
    assert (request.id, ledger.next_id, ledger.outgoing) == (0, 1, 1)
    assert ledger.answered(0) == (request, False)

"""One side of a connection as a state machine: what arrives becomes events, each request is answered once."""

import json
from typing import Any

import pytest

from acp_server.errors import EncodeError, InternalError, RpcError
from acp_server.wire.framing import LineFramer
from acp_server.wire.messages import ID_LIMIT, Notification, Request
from acp_server.wire.state_machine import (
    CANCEL_METHOD,
    Answered,
    Dropped,
    Endpoint,
    Event,
    Outgoing,
    OutgoingRequest,
    RequestState,
)
from tests.wire.live import cancel, notification, request, strict

FULL_ERROR = {"code": 1, "message": "m", "data": {"a": [1]}}


def receive(endpoint: Endpoint, *messages: Any) -> list[Event]:
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages]
    return list(endpoint.receive(b"".join(lines)))


def accepted(endpoint: Endpoint, *ids: Any) -> list[Request]:
    requests = receive(endpoint, *(request(id, "x") for id in ids))
    assert all(isinstance(event, Request) for event in requests)
    return requests  # pyright: ignore[reportReturnType]


def refused(endpoint: Endpoint, message: Any) -> Any:
    """The only event is an error that goes out."""
    (event,) = receive(endpoint, message)
    assert isinstance(event, Outgoing)
    return strict(event.frame)


def waiting(endpoint: Endpoint, *, wants_late_answer: bool = False) -> OutgoingRequest:
    asked = OutgoingRequest("x", wants_late_answer)
    endpoint.request(asked, None)
    return asked


# Requests of the peer


@pytest.mark.behaviour("A2", "A4", "L6")
@pytest.mark.parametrize("id", [0, 7, "7", None, "", "\ud800", 2**63 - 1], ids=repr)
def test_an_answer_carries_the_id_as_it_came(id: Any) -> None:
    endpoint = Endpoint()
    first, second = accepted(endpoint, id)[0], accepted(endpoint, "other")[0]
    frame = endpoint.answer(first, {"a": 1})
    assert frame is not None
    assert strict(frame) == {"jsonrpc": "2.0", "id": id, "result": {"a": 1}}
    frame = endpoint.refuse(second, RpcError("m", code=1, data={"a": [1]}))
    assert frame is not None
    assert strict(frame) == {"jsonrpc": "2.0", "id": "other", "error": FULL_ERROR}
    assert not endpoint.incoming


@pytest.mark.behaviour("A1")
def test_a_request_is_answered_once_however_often_it_is_tried() -> None:
    endpoint = Endpoint()
    (pending,) = accepted(endpoint, 1)
    assert endpoint.answer(pending, None) == b'{"jsonrpc":"2.0","id":1,"result":null}\n'
    assert endpoint.answer(pending, None) is None
    assert endpoint.refuse(pending, InternalError()) is None


@pytest.mark.behaviour("A1", "E4")
def test_a_request_is_not_answered_for_another_that_has_its_id_now() -> None:
    endpoint = Endpoint()
    (first,) = accepted(endpoint, 7)
    assert endpoint.answer(first, None) is not None
    (second,) = accepted(endpoint, 7)
    assert endpoint.answer(first, None) is None
    assert endpoint.incoming.get(7) is second
    assert endpoint.answer(second, None) is not None
    assert not endpoint.incoming


@pytest.mark.behaviour("A2")
def test_ids_of_different_types_are_different_requests() -> None:
    endpoint = Endpoint()
    requests = accepted(endpoint, 7, "7", None, "None", 0, "")
    assert list(endpoint.incoming.values()) == requests


@pytest.mark.behaviour("A14")
def test_a_result_that_cannot_be_written_is_answered_with_an_error_instead() -> None:
    endpoint = Endpoint()
    (pending,) = accepted(endpoint, 1)
    with pytest.raises(EncodeError):
        endpoint.answer(pending, object())
    assert endpoint.incoming.get(1) is pending
    assert endpoint.refuse(pending, InternalError()) == (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}\n'
    )


def broken(attribute: str, value: object) -> RpcError:
    """An error that was changed after it was made."""
    error = RpcError("m", code=5)
    setattr(error, attribute, value)
    return error


@pytest.mark.behaviour("A14")
@pytest.mark.parametrize(
    ("error", "written"),
    [
        (RpcError("m", code=5, data=object()), {"code": 5, "message": "m"}),
        (broken("code", object()), {"code": -32603, "message": "m"}),
        (broken("message", set), {"code": 5, "message": "<class 'set'>"}),
    ],
    ids=["data", "code", "message"],
)
def test_of_an_error_that_cannot_be_written_the_rest_is(error: RpcError, written: Any) -> None:
    endpoint = Endpoint()
    frame = endpoint.refuse(accepted(endpoint, 1)[0], error)
    assert frame is not None
    assert strict(frame) == {"jsonrpc": "2.0", "id": 1, "error": written}


@pytest.mark.behaviour("E5")
@pytest.mark.parametrize("id", [7, "7", None], ids=repr)
def test_an_id_in_flight_is_refused_without_naming_it_as_the_id(id: Any) -> None:
    endpoint = Endpoint()
    (first,) = accepted(endpoint, id)
    answer = refused(endpoint, request(id, "x"))
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]) == (None, -32600, {"duplicateId": id})
    assert endpoint.answer(first, 1) is not None
    assert accepted(endpoint, id)


@pytest.mark.behaviour("E5")
def test_an_invalid_message_does_not_resolve_the_request_whose_id_it_has() -> None:
    endpoint = Endpoint()
    accepted(endpoint, 7)
    assert refused(endpoint, {"jsonrpc": "2.0", "id": 7, "method": 1})["id"] is None
    assert refused(endpoint, {"jsonrpc": "2.0", "id": 8, "method": 1})["id"] == 8


@pytest.mark.behaviour("E4")
def test_what_is_answered_while_a_chunk_is_read_frees_its_id_within_the_chunk() -> None:
    endpoint = Endpoint()
    frames: list[bytes | None] = []
    line = json.dumps(request(7, "x")).encode() + b"\n"
    for event in endpoint.receive(line * 3):
        assert isinstance(event, Request)
        frames.append(endpoint.answer(event, None))
    assert frames == [b'{"jsonrpc":"2.0","id":7,"result":null}\n'] * 3


@pytest.mark.behaviour("B3")
def test_a_request_is_registered_when_it_comes_out() -> None:
    endpoint = Endpoint()
    for event in endpoint.receive(
        json.dumps(request(7, "x")).encode() + b"\n" + json.dumps(cancel(7)).encode() + b"\n"
    ):
        assert 7 in endpoint.incoming
        if isinstance(event, Notification):
            assert (event.method, event.params) == (CANCEL_METHOD, {"requestId": 7})


# What is not a request


@pytest.mark.behaviour("A8", "L5")
@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b'{"jsonrpc":"2.0","id":7,"method":"x"',
        b'{"jsonrpc":"2.0","id":7,"method":"x","params":[NaN]}',
        b'{"jsonrpc":"2.0","id":7,"method":"\xff"}',
        b"[" * 1_000_000,
        b'[{"jsonrpc":"2.0","id":7,"method":"x"},',
    ],
    ids=lambda line: repr(line[:40]),
)
def test_what_cannot_be_parsed_is_answered_with_a_null_id_and_logged(line: bytes) -> None:
    endpoint = Endpoint()
    (error,) = receive(endpoint, line + b"\n")
    assert isinstance(error, Outgoing)
    assert error.reason is not None
    assert strict(error.frame) == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    assert accepted(endpoint, 7)


@pytest.mark.behaviour("A9", "A3", "H2")
@pytest.mark.parametrize("value", [17, "x", None, True, {}, [], request(True, "x"), request([7], "x")], ids=repr)
def test_what_is_no_message_is_answered_with_one_error_object(value: Any) -> None:
    answer = refused(Endpoint(), value)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.behaviour("A3")
def test_an_id_that_is_too_long_to_be_kept_is_refused() -> None:
    endpoint = Endpoint()
    answer = refused(endpoint, request("x" * (ID_LIMIT + 1), "m"))
    assert answer == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": f"Invalid request: id is longer than {ID_LIMIT} characters"},
    }
    assert accepted(endpoint, "x" * ID_LIMIT)


@pytest.mark.behaviour("A8", "A9")
def test_any_number_of_bad_lines_shares_the_frame_that_answers_them() -> None:
    frames = {id(event.frame) for event in Endpoint().receive(b"17\n" * 100) if isinstance(event, Outgoing)}
    assert len(frames) == 1


def test_a_message_tells_how_many_bytes_it_took() -> None:
    line = json.dumps(request(7, "x")).encode()
    batch = json.dumps([request(8, "x"), notification("n")]).encode()
    one, first, second = Endpoint().receive(line + b"\n" + batch + b"\n")
    assert isinstance(one, Request)
    assert isinstance(first, Request)
    assert isinstance(second, Notification)
    assert (one.size, first.size, second.size) == (len(line), len(batch) // 2, len(batch) // 2)


@pytest.mark.behaviour("A5")
def test_a_notification_that_makes_no_sense_is_dropped() -> None:
    (event,) = receive(Endpoint(), notification("x", 5))
    assert isinstance(event, Dropped)


@pytest.mark.behaviour("L4")
def test_a_line_over_the_limit_is_answered_with_the_id_of_its_request() -> None:
    endpoint = Endpoint(line_limit=100)
    answer = refused(endpoint, request("a", "x", "y" * 100))
    assert (answer["id"], answer["error"]["code"]) == ("a", -32600)
    assert answer["error"]["message"] == "Invalid request: longer than 100 bytes"
    assert refused(endpoint, b" " * 101)["id"] is None
    assert receive(endpoint, b"\n", request("b", "x"))


# Looking ahead


def test_only_notifications_with_cancel_in_them_are_seen_ahead_of_their_turn() -> None:
    endpoint = Endpoint()
    over_the_limit = notification("x", ["cancel" * 40])
    others = [["cancel"], request("cancel", "x"), notification("other"), cancel(7), notification("session/cancel")]
    lines = LineFramer(200).feed(
        b'"cancel\n' + b"".join(json.dumps(each).encode() + b"\n" for each in [over_the_limit, *others])
    )
    seen = [(each.method, each.params) for each in endpoint.cancels_in(lines)]
    assert seen == [(CANCEL_METHOD, {"requestId": 7}), ("session/cancel", None)]
    assert not endpoint.incoming


def test_a_cancel_of_more_than_128_kib_is_seen_in_its_turn_only() -> None:
    line = json.dumps(notification("session/cancel")).encode()
    longest = line + b" " * (128 * 1024 - len(line))
    seen = Endpoint().cancels_in([longest, longest + b" "])
    assert [each.method for each in seen] == ["session/cancel"]


# Our requests


@pytest.mark.behaviour("C16")
def test_our_requests_and_notifications_leave_out_absent_parameters() -> None:
    endpoint = Endpoint()
    assert endpoint.request(OutgoingRequest("x"), None) == b'{"jsonrpc":"2.0","id":0,"method":"x"}\n'
    assert (
        endpoint.request(OutgoingRequest("y"), {"a": 1}) == b'{"jsonrpc":"2.0","id":1,"method":"y","params":{"a":1}}\n'
    )
    assert endpoint.notify("x", None) == b'{"jsonrpc":"2.0","method":"x"}\n'
    assert endpoint.notify("y", [1]) == b'{"jsonrpc":"2.0","method":"y","params":[1]}\n'


def test_a_request_of_ours_that_cannot_be_written_is_not_waited_for() -> None:
    endpoint = Endpoint()
    asked = OutgoingRequest("x")
    with pytest.raises(EncodeError):
        endpoint.request(asked, object())
    with pytest.raises(EncodeError):
        endpoint.notify("x", object())
    assert (endpoint.ledger.next_id, endpoint.ledger.outgoing, asked.state) == (0, 0, RequestState.NEW)


@pytest.mark.parametrize("members", [{"result": {"a": 1}}, {"error": FULL_ERROR}], ids=repr)
def test_an_answer_finds_its_request(members: Any) -> None:
    endpoint = Endpoint()
    _, asked = waiting(endpoint), waiting(endpoint)
    (event,) = receive(endpoint, {"jsonrpc": "2.0", "id": 1} | members)
    assert isinstance(event, Answered)
    assert (event.request, event.late) == (asked, False)
    assert (event.response.result, event.response.error) == (members.get("result"), members.get("error"))


@pytest.mark.behaviour("A12")
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":0}',
        b'{"jsonrpc":"2.0","id":0,"result":1,"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","id":0,"error":"nope"}',
        b'{"jsonrpc":"2.0","id":0,"result":NaN}',
        b'{"jsonrpc":"2.0","id":0,"result":"\xff"}',
        b'{"jsonrpc":"2.0","id":0,"result":"' + b"x" * 1000 + b'"}',
        b'{"jsonrpc":"2.0","id":0,"result":' + b"[" * 800,
    ],
    ids=lambda line: repr(line[-40:]),
)
def test_a_malformed_answer_fails_the_one_who_waits_and_nobody_else(line: bytes) -> None:
    endpoint = Endpoint(line_limit=900)
    asked, other = waiting(endpoint), waiting(endpoint)
    (event,) = receive(endpoint, line + b"\n")
    assert isinstance(event, Answered)
    assert event.request is asked
    assert event.response.malformed
    assert other.state is RequestState.WAITING


DEEP_ID = b'{"jsonrpc":"2.0","id":%b,"result":1}\n' % (b"[" * 1000 + b"]" * 1000)


@pytest.mark.behaviour("A11")
@pytest.mark.parametrize(
    "line",
    [
        *({"jsonrpc": "2.0", "id": id, "result": 1} for id in (1, "0", False, 0.0, None, [], {}, 2**70, "x" * 10_000)),
        {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
        {"id": 5, "error": "nope"},
        {"result": 1},
        DEEP_ID,
        b'{"jsonrpc":"2.0","id":5,"result":"' + b"x" * 70_000 + b'"}\n',
    ],
    ids=lambda line: repr(line)[:60],
)
def test_an_answer_to_nothing_is_dropped_and_not_answered(line: Any) -> None:
    endpoint = Endpoint(line_limit=64 * 1024)
    asked = waiting(endpoint)
    (event,) = receive(endpoint, line)
    assert isinstance(event, Dropped)
    assert len(event.reason) < 200
    assert asked.state is RequestState.WAITING


@pytest.mark.behaviour("A15", "C2", "C16")
def test_a_withdrawal_names_our_id_once() -> None:
    endpoint = Endpoint()
    _, asked = waiting(endpoint), waiting(endpoint)
    frame = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}\n'
    assert endpoint.withdraw(asked) == frame
    assert endpoint.withdraw(asked) is None


@pytest.mark.behaviour("C3")
def test_what_is_answered_or_lost_is_not_withdrawn() -> None:
    endpoint = Endpoint()
    answered, lost = waiting(endpoint), waiting(endpoint)
    receive(endpoint, {"jsonrpc": "2.0", "id": 0, "result": 1})
    endpoint.ledger.lose_all()
    assert endpoint.withdraw(answered) is None
    assert endpoint.withdraw(lost) is None


@pytest.mark.behaviour("C4", "C5")
def test_a_late_answer_is_told_to_the_one_who_wants_it() -> None:
    endpoint = Endpoint()
    wanted, unwanted = waiting(endpoint, wants_late_answer=True), waiting(endpoint)
    endpoint.withdraw(wanted)
    endpoint.withdraw(unwanted)
    late, dropped = receive(endpoint, *({"jsonrpc": "2.0", "id": id, "result": 1} for id in (0, 1)))
    assert isinstance(late, Answered)
    assert (late.request, late.late) == (wanted, True)
    assert isinstance(dropped, Dropped)


# The end of input


@pytest.mark.behaviour("G11")
def test_a_last_message_without_its_newline_is_read_if_it_is_whole() -> None:
    endpoint = Endpoint()
    assert receive(endpoint, json.dumps(request(7, "x")).encode()) == []
    (event,) = endpoint.receive_eof()
    assert isinstance(event, Request)
    assert list(endpoint.receive_eof()) == []


@pytest.mark.behaviour("A8")
def test_half_a_message_at_the_end_is_a_parse_error() -> None:
    endpoint = Endpoint()
    assert receive(endpoint, json.dumps(request(7, "x")).encode()[:-5]) == []
    (error,) = endpoint.receive_eof()
    assert isinstance(error, Outgoing)
    assert strict(error.frame)["error"]["code"] == -32700

"""A line with very many objects and arrays in it is treated like one that is too long."""

import json
from typing import Any

import pytest

from acp_server.errors import INVALID_REQUEST
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import MOST_NESTED, Answered, Dropped, Endpoint, Event, Outgoing, OutgoingRequest

AROUND = 2
"""The params, and the array in them; the message itself does not count."""


def events(message: Any, endpoint: Endpoint | None = None) -> list[Event]:
    return list((endpoint or Endpoint()).receive(json.dumps(message).encode() + b"\n"))


def holding(items: Any, **message: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **message, "params": {"items": items}}


@pytest.mark.parametrize("item", [{}, [], {"a": 1}, [1]], ids=str)
def test_a_request_may_have_so_many_and_no_more(item: Any) -> None:
    (event,) = events(holding([item] * (MOST_NESTED - AROUND), id=1, method="m"))
    assert isinstance(event, Request)
    (event,) = events(holding([item] * (MOST_NESTED - AROUND + 1), id=1, method="m"))
    assert isinstance(event, Outgoing)
    assert json.loads(event.frame) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": INVALID_REQUEST, "message": f"Invalid request: more than {MOST_NESTED} objects and arrays"},
    }


def test_they_count_wherever_they_are() -> None:
    deep = [[{"a": [[], {"b": {}}]}]] * (MOST_NESTED // 6 + 1)
    (event,) = events(holding(deep, id=1, method="m"))
    assert isinstance(event, Outgoing)


@pytest.mark.parametrize("items", ["{[" * MOST_NESTED, [7] * 3 * MOST_NESTED, ["[]"] * 2 * MOST_NESTED])
def test_texts_and_numbers_do_not_count(items: Any) -> None:
    (event,) = events(holding(items, method="m"))
    assert isinstance(event, Notification)


@pytest.mark.parametrize("id", [7, "7", None])
def test_a_request_is_refused_by_its_id_wherever_that_is(id: Any) -> None:
    (event,) = events(holding([{}] * MOST_NESTED, method="m") | {"id": id})
    assert isinstance(event, Outgoing)
    assert json.loads(event.frame)["id"] == id


@pytest.mark.behaviour("A5")
def test_a_notification_is_not_answered_and_does_nothing() -> None:
    (event,) = events(holding([{}] * MOST_NESTED, method="m"))
    assert isinstance(event, Dropped)
    assert event.notification is not None
    assert event.notification.method == "m"


@pytest.mark.parametrize("wrong", [{"jsonrpc": "1.0"}, {"method": []}, {"params": 7, "more": [{}] * MOST_NESTED}])
def test_a_request_with_more_wrong_is_refused_by_its_id_as_well(wrong: dict[str, Any]) -> None:
    (event,) = events(holding([{}] * MOST_NESTED, method="m") | {"id": 7} | wrong)
    assert isinstance(event, Outgoing)
    assert json.loads(event.frame)["id"] == 7


@pytest.mark.behaviour("A12")
@pytest.mark.parametrize("id_is_first", [True, False])
def test_a_response_is_malformed_and_its_request_answered(id_is_first: bool) -> None:
    endpoint = Endpoint()
    request = OutgoingRequest("m")
    endpoint.request(request, None)
    id, result = {"id": request.id}, {"result": [{}] * (MOST_NESTED + 1)}
    message = id | result if id_is_first else result | id
    (event,) = events({"jsonrpc": "2.0", **message}, endpoint)
    assert isinstance(event, Answered)
    assert event.request is request
    assert event.response.malformed == f"more than {MOST_NESTED} objects and arrays"


@pytest.mark.behaviour("A12", "H3")
def test_a_batch_counts_as_a_whole_and_each_member_is_treated_as_if_it_came_alone() -> None:
    endpoint = Endpoint()
    asked = OutgoingRequest("m")
    endpoint.request(asked, None)
    one = holding([{}] * (MOST_NESTED // 2), method="update")
    answer = {"jsonrpc": "2.0", "id": asked.id, "result": {}}
    wrong = holding([], id=2, method=[])
    first, second, answered, refused = events([one, one, holding([], id=1, method="m"), answer, wrong], endpoint)
    for dropped in (first, second):
        assert isinstance(dropped, Dropped)
        assert dropped.notification is not None
        assert dropped.notification.method == "update"
    assert isinstance(answered, Answered)
    assert answered.request is asked
    assert answered.response.malformed == f"more than {MOST_NESTED} objects and arrays"
    assert isinstance(refused, Outgoing)
    assert [(each["id"], each["error"]["code"]) for each in json.loads(refused.frame)] == [
        (1, INVALID_REQUEST),
        (2, INVALID_REQUEST),
    ]
    assert not endpoint.incoming


def test_a_batch_of_too_many_messages_with_too_much_in_them_is_one_error() -> None:
    (event,) = events([{}] * (MOST_NESTED + 1))
    assert isinstance(event, Outgoing)
    assert json.loads(event.frame)["error"]["message"] == "Invalid request: more than 1000 messages in one batch"

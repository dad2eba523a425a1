"""A line with very many objects and arrays in it is treated like one that is too long."""

import json
from typing import Any

import pytest

from acp_server.errors import INVALID_REQUEST
from acp_server.wire.ledger import OutgoingRequest
from acp_server.wire.messages import Notification, Request
from acp_server.wire.state_machine import MOST_NESTED, Answered, Endpoint, Event, Outgoing

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


def test_a_notification_is_answered_without_an_id_and_does_nothing() -> None:
    (event,) = events(holding([{}] * MOST_NESTED, method="m"))
    assert isinstance(event, Outgoing)
    assert json.loads(event.frame)["id"] is None


def test_a_response_is_malformed_and_its_request_answered() -> None:
    endpoint = Endpoint()
    request = OutgoingRequest("m")
    endpoint.request(request, None)
    (event,) = events({"jsonrpc": "2.0", "id": request.id, "result": [{}] * (MOST_NESTED + 1)}, endpoint)
    assert isinstance(event, Answered)
    assert event.request is request
    assert event.response.malformed == f"more than {MOST_NESTED} objects and arrays"


def test_a_batch_counts_as_a_whole() -> None:
    one = holding([{}] * (MOST_NESTED // 2), method="m")
    (event,) = events([one, one])
    assert isinstance(event, Outgoing)

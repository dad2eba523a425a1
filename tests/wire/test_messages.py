"""What a JSON value on the wire is: request, notification, response, or none of them."""

from typing import Any

import pytest

from acp_server.wire.messages import (
    Ignored,
    Invalid,
    Message,
    Notification,
    Request,
    Response,
    classify,
    is_request_id,
)

VALID_IDS = [0, -1, 7, "7", "", "\ud800", None, 2**63 - 1, -(2**63)]
INVALID_IDS = [True, False, 1.0, 1.5, 2**63, -(2**63) - 1, 2**70, float(2**70), {}, {"a": 1}, [], [7]]


def message(**members: Any) -> Message:
    return classify({"jsonrpc": "2.0"} | members)


# Ids


@pytest.mark.behaviour("A2", "A4")
@pytest.mark.parametrize("id", VALID_IDS, ids=repr)
def test_an_id_keeps_its_value_and_type(id: Any) -> None:
    assert is_request_id(id)
    found = message(id=id, method="x")
    assert isinstance(found, Request)
    assert found.id == id
    assert type(found.id) is type(id)


@pytest.mark.behaviour("A3")
@pytest.mark.parametrize("id", INVALID_IDS, ids=repr)
def test_what_is_no_id_makes_the_request_invalid_with_a_null_id(id: Any) -> None:
    assert not is_request_id(id)
    found = message(id=id, method="x")
    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (-32600, None)


# Requests and notifications


@pytest.mark.parametrize("params", [{}, {"a": 1}, [], [1]], ids=repr)
def test_parameters_are_an_object_or_an_array(params: Any) -> None:
    for found in (message(id=1, method="x", params=params), message(method="x", params=params)):
        assert isinstance(found, Request | Notification)
        assert found.params is params


@pytest.mark.parametrize("absent", [{}, {"params": None}], ids=repr)
def test_absent_and_null_parameters_are_none(absent: dict[str, Any]) -> None:
    for found in (message(id=1, method="x", **absent), message(method="x", **absent)):
        assert isinstance(found, Request | Notification)
        assert found.params is None


@pytest.mark.behaviour("A4")
def test_a_null_id_makes_a_request_and_no_id_a_notification() -> None:
    assert isinstance(message(id=None, method="x"), Request)
    assert isinstance(message(method="x"), Notification)


@pytest.mark.parametrize("params", [0, 1, "", "text", True, 1.5], ids=repr)
def test_other_parameters_make_a_request_invalid(params: Any) -> None:
    found = message(id=1, method="x", params=params)
    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (-32600, 1)


@pytest.mark.behaviour("A5")
@pytest.mark.parametrize("params", [0, 1, "", "text", True, 1.5], ids=repr)
def test_other_parameters_make_a_notification_ignored(params: Any) -> None:
    found = message(method="\ud800" * 10_000, params=params)
    assert isinstance(found, Ignored)
    assert len(found.reason) < 200
    assert found.reason.isascii()


@pytest.mark.behaviour("A10")
@pytest.mark.parametrize(
    "version", [{}, {"jsonrpc": "1.0"}, {"jsonrpc": 2.0}, {"jsonrpc": 2}, {"jsonrpc": None}], ids=repr
)
def test_another_version_is_invalid_with_the_id(version: dict[str, Any]) -> None:
    found = classify({"id": 7, "method": "x"} | version)
    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (-32600, 7)


@pytest.mark.behaviour("A10")
@pytest.mark.parametrize("method", [None, 1, True, [], ["x"], {}], ids=repr)
def test_a_method_that_is_no_string_is_invalid_with_the_id(method: Any) -> None:
    found = message(id="a", method=method)
    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (-32600, "a")
    without = message(method=method)
    assert isinstance(without, Invalid)
    assert without.id is None


@pytest.mark.behaviour("A9")
@pytest.mark.parametrize("value", [17, 1.5, "x", None, True, [], [1], {}, {"jsonrpc": "2.0"}, {"params": {}}], ids=repr)
def test_what_is_no_message_is_invalid(value: Any) -> None:
    found = classify(value)
    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (-32600, None)


# Responses


@pytest.mark.parametrize("result", [{}, [], None, 0, False, "x"], ids=repr)
def test_a_result_is_any_value_null_included(result: Any) -> None:
    for found in (message(id=7, result=result), message(id=7, result=result, error=None)):
        assert isinstance(found, Response)
        assert (found.id, found.result, found.error, found.malformed) == (7, result, None, None)


def test_an_error_is_an_object_with_a_code() -> None:
    error = {"code": -32800, "message": "m", "data": [1]}
    for found in (message(id=7, error=error), message(id=7, error=error, result=None)):
        assert isinstance(found, Response)
        assert (found.id, found.error, found.malformed) == (7, error, None)


@pytest.mark.parametrize("text", [{}, {"message": None}, {"message": 7}], ids=repr)
def test_an_error_without_a_message_has_an_empty_one(text: dict[str, Any]) -> None:
    found = message(id=7, error={"code": 1, "data": 2} | text)
    assert isinstance(found, Response)
    assert found.error == {"code": 1, "message": "", "data": 2}


@pytest.mark.behaviour("A11", "A12")
@pytest.mark.parametrize(
    "members",
    [
        {"id": 7},
        {"id": 7, "error": None},
        {"id": 7, "result": 1, "error": {"code": 1, "message": ""}},
        {"id": 7, "result": 1, "error": "nope"},
        {"id": 7, "error": "nope"},
        {"id": 7, "error": []},
        {"id": 7, "error": {}},
        {"id": 7, "error": {"code": "1", "message": ""}},
        {"id": 7, "error": {"code": 1.0, "message": ""}},
        {"id": 7, "error": {"code": True, "message": ""}},
        {"id": 7, "params": {}},
    ],
    ids=repr,
)
def test_a_malformed_response_is_a_response_all_the_same(members: dict[str, Any]) -> None:
    found = message(**members)
    assert isinstance(found, Response)
    assert found.id == 7
    assert found.malformed


@pytest.mark.behaviour("A11")
@pytest.mark.parametrize(
    "members", [{"result": 1}, {"error": {}}, {"error": None}, {"id": None}, {"id": [1], "result": 1}]
)
@pytest.mark.parametrize("version", [{}, {"jsonrpc": "2.0"}, {"jsonrpc": 1}], ids=repr)
def test_whatever_has_the_look_of_a_response_is_one(members: dict[str, Any], version: dict[str, Any]) -> None:
    assert isinstance(classify(members | version), Response)


def test_a_method_makes_it_a_request_whatever_else_it_has() -> None:
    assert isinstance(message(id=7, method="x", result=1, error={}), Request)

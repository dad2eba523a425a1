"""A boolean is no number, a fraction is no integer, an id has 64 bits."""

from typing import Any

import pytest
from pydantic import ValidationError

from acp_server import schema
from acp_server.schema.base import Record

INTEGERS = [
    (schema.ReadTextFileRequest, {"sessionId": "s", "path": "/a"}, "line", 2**32),
    (schema.ReadTextFileRequest, {"sessionId": "s", "path": "/a"}, "limit", 2**32),
    (schema.CreateTerminalRequest, {"sessionId": "s", "command": "a"}, "outputByteLimit", 2**64),
    (schema.UsageUpdate, {"sessionUpdate": "usage_update", "size": 1}, "used", 2**64),
    (schema.IntegerPropertySchema, {"type": "integer"}, "minimum", 2**63),
    (schema.StringPropertySchema, {"type": "string"}, "minLength", 2**32),
    (schema.Error, {"message": "m"}, "code", 2**31),
    (schema.InitializeRequest, {}, "protocolVersion", 2**16),
]


@pytest.mark.parametrize(("kind", "rest", "key", "too_large"), INTEGERS)
def test_only_an_integer_in_range_is_an_integer(
    kind: type[Record], rest: dict[str, Any], key: str, too_large: int
) -> None:
    assert kind.from_wire({**rest, key: too_large - 1}).to_wire()[key] == too_large - 1
    for wrong in (True, False, 1.5, 1.0, "x", [1], too_large, 2**70, -(2**70)):
        with pytest.raises(ValidationError):
            kind.from_wire({**rest, key: wrong})


@pytest.mark.parametrize("value", [7, 0, -1, 2**63 - 1, -(2**63), "7", "", None])
@pytest.mark.behaviour("A2")
def test_a_request_id_keeps_its_type_and_value(value: Any) -> None:
    read = schema.CancelRequestNotification.from_wire({"requestId": value})
    assert type(read.request_id) is type(value)
    assert read.to_wire() == {"requestId": value}


@pytest.mark.parametrize("value", [True, False, 1.5, 1.0, 2**63, -(2**63) - 1, 2**70, [], {}, [1]])
@pytest.mark.behaviour("A3", "B13")
def test_a_request_id_is_null_or_64_bits_or_a_string(value: Any) -> None:
    with pytest.raises(ValidationError, match="a string, a 64-bit integer or null"):
        schema.CancelRequestNotification.from_wire({"requestId": value})


def test_a_request_id_is_required() -> None:
    with pytest.raises(ValidationError):
        schema.CancelRequestNotification.from_wire({})


@pytest.mark.parametrize("wrong", [1, 0, "true", None, [], 1.0])
def test_only_a_boolean_is_a_boolean(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        schema.TerminalOutputResponse.from_wire({"output": "", "truncated": wrong})


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True, "1"])
def test_only_a_finite_number_is_a_number(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        schema.Cost.from_wire({"amount": wrong, "currency": "EUR"})
    assert schema.Cost.from_wire({"amount": 1, "currency": "EUR"}).amount == 1


@pytest.mark.parametrize("value", ["text", 5, 5.5, True, [], ["a"]])
def test_the_answer_to_a_form_keeps_the_types_of_its_values(value: Any) -> None:
    read = schema.ElicitationAcceptAction.from_wire({"action": "accept", "content": {"a": value}})
    assert read.content is not None
    assert type(read.content["a"]) is type(value)
    assert read.content["a"] == value


@pytest.mark.parametrize("wrong", [None, {}, [1], [None], [True]])
def test_the_answer_to_a_form_has_no_other_values(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="a list of strings"):
        schema.ElicitationAcceptAction.from_wire({"action": "accept", "content": {"a": wrong}})

"""Names that no field has: refused where Python code gives them, kept where a peer does."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from acp_server import schema
from acp_server.schema import v2
from acp_server.schema.base import Record


def records() -> list[type[Record]]:
    """Every class of both versions that Python code makes."""
    found = [getattr(package, name) for package in (schema, v2) for name in dir(package) if package.area_of(name)]
    kinds = {kind for kind in found if isinstance(kind, type) and issubclass(kind, Record)}
    return sorted((kind for kind in kinds if not issubclass(kind, schema.Unknown)), key=repr)


@pytest.mark.parametrize("kind", records())
def test_a_constructor_refuses_a_name_that_no_field_has(kind: Any) -> None:
    with pytest.raises(ValidationError, match="There is no such field"):
        kind(no_such_name_anywhere=1)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("field_meta", "meta"),
        ("rawinput", "raw_input"),
        ("raw_inputs", "raw_input"),
        ("toolcallId", "tool_call_id"),
        ("RAW_INPUT", "raw_input"),
        ("stauts", "status"),
    ],
)
def test_the_error_names_the_field_that_is_meant(wrong: str, right: str) -> None:
    names: dict[str, Any] = {wrong: {}}
    with pytest.raises(ValidationError, match=f"There is no such field; did you mean {right!r}\\?"):
        schema.ToolCall(tool_call_id="c", title="t", **names)


def test_a_constructor_tells_all_wrong_names_at_once() -> None:
    names: dict[str, Any] = {"rawinput": 1, "{0}": 2, "x" * 10: None}
    with pytest.raises(ValidationError) as caught:
        schema.ToolCall(tool_call_id="c", title="t", **names)
    assert [error["loc"] for error in caught.value.errors()] == [("rawinput",), ("{0}",), ("x" * 10,)]


def test_a_constructor_takes_the_keys_of_the_wire() -> None:
    keys: dict[str, Any] = {"toolCallId": "c", "title": "t", "_meta": {"a": 1}}
    assert schema.ToolCall(**keys) == schema.ToolCall(tool_call_id="c", title="t", meta={"a": 1})


def test_an_attribute_that_no_field_has_is_refused() -> None:
    call: Any = schema.ToolCall(tool_call_id="c", title="t")
    with pytest.raises(AttributeError, match="ToolCall has no field 'rawInput'; did you mean 'raw_input'"):
        call.rawInput = {}
    with pytest.raises(AttributeError, match="did you mean 'meta'"):
        call.model_copy(update={"field_meta": {}})
    assert call.to_wire() == {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}


def test_what_a_peer_sent_beside_the_fields_is_kept_and_may_be_changed() -> None:
    wire = {"sessionId": "s", "models": {"currentModelId": "m"}}
    response: Any = schema.NewSessionResponse.from_wire(wire)
    assert response.model_extra == {"models": {"currentModelId": "m"}}
    assert response.to_wire() == wire
    response.models = None
    assert response.models is None
    response.model_extra["other"] = 1
    assert response.to_wire() == {"sessionId": "s", "other": 1}
    assert response.model_copy().model_extra == response.model_extra


def test_reading_calls_no_constructor() -> None:
    # It would take three times as long.
    assert not any(kind.__pydantic_custom_init__ for kind in records())


def test_a_class_of_ones_own_refuses_wrong_names_too() -> None:
    class Mine(schema.NewSessionResponse):
        models: list[str] | None = None

    assert Mine(session_id="s", models=["a"]).to_wire() == {"sessionId": "s", "models": ["a"]}
    names: dict[str, Any] = {"model": []}
    with pytest.raises(ValidationError, match="did you mean 'models'"):
        Mine(session_id="s", **names)


def test_an_unknown_member_takes_any_names_and_tells_its_tag() -> None:
    anything: dict[str, Any] = {"session_update": "later", "mood": 1}
    assert schema.UnknownSessionUpdate(**anything).to_wire() == {"sessionUpdate": "later", "mood": 1}
    read = schema.from_wire(schema.SessionUpdate, {"sessionUpdate": "later", "mood": None})
    assert (read.tag, read.fields) == ("later", {"mood": None})
    assert schema.UnknownResourceContents(uri="u").tag == ""


def test_the_rules_reach_models_that_are_no_records_in_no_way() -> None:
    class Other(BaseModel):
        call: schema.ToolCall

    other = Other.model_validate({"call": {"toolCallId": "c", "title": "t", "later": 1}})
    assert other.call.to_wire()["later"] == 1

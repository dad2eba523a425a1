"""What peers get slightly wrong is read as the protocol says it should be; what Python code gets wrong is an error."""

from typing import Any

import pytest
from pydantic import ValidationError

from acp_server import schema
from acp_server.schema.base import Model, Record, attributes
from tests.each import each
from tests.schema.examples import EXAMPLES
from tests.schema.exported import definitions

DEFINITIONS = definitions()
CLASSES = [name for name in EXAMPLES if isinstance(getattr(schema, name), type)]
ANYTHING = {"rawInput", "rawOutput", "data"}
"""Fields of which no value is wrong."""


def fields(note: str) -> list[tuple[str, str]]:
    """(class, key) of every field with a note in the exported schema."""
    found: list[tuple[str, str]] = []
    for name in CLASSES:
        properties = DEFINITIONS[name].get("properties", {})
        found += [(name, key) for key, value in properties.items() if value.get(note) and key not in ANYTHING]
    return found


def example_with(name: str, key: str) -> dict[str, Any]:
    """An example that has the key, or else the first one."""
    return next((example for example in EXAMPLES[name] if key in example), EXAMPLES[name][0])


def default(cls: type[Record], key: str) -> Any:
    """What a field reads as when it is absent."""
    field = cls.model_fields[attributes(cls)[key]]
    return [] if field.is_required() else field.get_default(call_default_factory=True, validated_data={})


@each(fields("x-deserialize-default-on-error"))
def test_a_wrong_value_counts_as_absent_where_the_protocol_says_so(name: str, key: str) -> None:
    cls: type[Record] = getattr(schema, name)
    example = example_with(name, key)
    wrong = "x" if "items" in str(DEFINITIONS[name]["properties"][key]) else [5]
    read = cls.from_wire({**example, key: wrong})
    assert getattr(read, attributes(cls)[key]) == default(cls, key)
    assert _without(read.to_wire(), key) == _without(example, key)


def _without(example: dict[str, Any], key: str) -> dict[str, Any]:
    return {other: value for other, value in example.items() if other != key}


@each(fields("x-deserialize-skip-invalid-items"))
def test_wrong_items_are_left_out_where_the_protocol_says_so(name: str, key: str) -> None:
    cls: type[Record] = getattr(schema, name)
    example = example_with(name, key)
    items = example[key]
    read = cls.from_wire({**example, key: [5, *items, {"type": 5}, None, *items, []]})
    assert read.to_wire()[key] == [*items, *items]


@each(fields("x-deserialize-default-on-null"))
def test_null_counts_as_absent_where_the_protocol_says_so(name: str, key: str) -> None:
    cls: type[Record] = getattr(schema, name)
    read = cls.from_wire({**example_with(name, key), key: None})
    assert getattr(read, attributes(cls)[key]) == default(cls, key)
    with pytest.raises(ValidationError):
        cls.from_wire({**example_with(name, key), key: 5})


@each(CLASSES)
def test_null_is_read_in_every_field_that_may_be_null_or_absent(name: str) -> None:
    cls: type[Record] = getattr(schema, name)
    definition = DEFINITIONS[name]
    for key in definition.get("properties", ()):
        if key not in definition.get("required", ()) and (name, key) != ("ElicitationSchema", "properties"):
            read = cls.from_wire({**EXAMPLES[name][0], key: None})
            assert getattr(read, attributes(cls)[key]) == default(cls, key)


@each(CLASSES)
def test_a_missing_or_null_required_field_is_an_error(name: str) -> None:
    cls: type[Record] = getattr(schema, name)
    for key in DEFINITIONS[name].get("required", ()):
        field = cls.model_fields[attributes(cls)[key]]
        if not field.is_required():
            continue
        rest = _without(EXAMPLES[name][0], key)
        with pytest.raises(ValidationError):
            cls.from_wire(rest)
        if "x-deserialize-default-on-error" not in DEFINITIONS[name]["properties"][key] and key != "requestId":
            with pytest.raises(ValidationError):
                cls.from_wire({**rest, key: None})


@each([name for name in CLASSES if issubclass(getattr(schema, name), Model)])
def test_a_meta_that_is_not_an_object_never_fails_a_message(name: str) -> None:
    cls: type[Model] = getattr(schema, name)
    for meta in (5, "x", [], [{}], True, 1.5, None):
        received = {**EXAMPLES[name][-1], "_meta": meta}
        for read in (cls.from_wire(received), cls.model_validate(received)):
            assert read.meta is None
            assert read.to_wire().get("_meta") is None


def test_meta_never_becomes_a_parameter() -> None:
    received = {"sessionId": "mine", "_meta": {"sessionId": "OTHER", "session_id": "OTHER", "meta": 1}}
    read = schema.CancelNotification.from_wire(received)
    assert read.session_id == "mine"
    assert read.meta == received["_meta"]
    assert read.to_wire() == received


def test_a_wrong_value_deep_inside_costs_only_the_innermost_thing_that_may_go() -> None:
    update: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "t",
        "kind": ["read"],
        "content": [
            {"type": "content", "content": {"type": "text", "text": "kept", "annotations": {"audience": ["user", 5]}}},
            {"type": "content", "content": {"type": "text"}},
            {"type": "diff", "path": "/a", "newText": "kept", "oldText": 5},
        ],
        "locations": "/a",
    }
    read = schema.SessionNotification.from_wire({"sessionId": "s", "update": update})
    assert read.to_wire()["update"] == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "t",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "kept", "annotations": {"audience": ["user"]}}},
            {"type": "diff", "path": "/a", "newText": "kept"},
        ],
    }


def test_a_wrong_field_of_a_form_costs_only_what_may_go_inside_it() -> None:
    form = {
        "type": "object",
        "properties": {"StringPropertySchema": {"type": "string", "title": 5}, "b": {"type": "array", "items": {}}},
    }
    request = {"mode": "form", "message": "m", "sessionId": "s", "requestedSchema": form}
    with pytest.raises(ValidationError):
        schema.from_wire(schema.CreateElicitationRequest, request)
    del form["properties"]["b"]
    read = schema.from_wire(schema.CreateElicitationRequest, request)
    assert read.to_wire()["requestedSchema"]["properties"] == {"StringPropertySchema": {"type": "string"}}


def test_one_thing_that_may_not_go_fails_the_message_whatever_else_may() -> None:
    with pytest.raises(ValidationError) as caught:
        schema.PromptRequest.from_wire(
            {"sessionId": "s", "prompt": [{"type": "text", "text": "a", "annotations": 5}, {"type": "text"}]}
        )
    assert {"path": "prompt[1].text", "message": "Field required"} in schema.explain(caught.value)


def test_a_result_of_null_is_an_empty_result() -> None:
    assert schema.METHODS["fs/write_text_file"].read_result(None) == schema.WriteTextFileResponse()


def test_parameters_of_null_are_none_and_still_lack_what_is_required() -> None:
    assert schema.METHODS["session/list"].read_params(None) == schema.ListSessionsRequest()
    with pytest.raises(ValidationError):
        schema.METHODS["session/prompt"].read_params(None)


@pytest.mark.parametrize("value", [5, "x", [], True])
def test_parameters_that_are_not_an_object_are_an_error(value: Any) -> None:
    with pytest.raises(ValidationError):
        schema.METHODS["session/list"].read_params(value)


class TestInitialize:
    def read(self, **received: Any) -> schema.InitializeRequest:
        return schema.InitializeRequest.from_wire({"protocolVersion": 1, **received})

    def test_a_version_in_digits_is_a_number(self) -> None:
        assert self.read(protocolVersion="1").protocol_version == 1
        assert schema.InitializeResponse.from_wire({"protocolVersion": "2"}).protocol_version == 2

    @pytest.mark.parametrize(
        "version", ["", "one", "1.0", "-1", "¹", "70000", "9" * 5000, 1.0, True, None, -1, 70000, [1]]
    )
    def test_any_other_version_is_an_error(self, version: Any) -> None:
        with pytest.raises(ValidationError):
            self.read(protocolVersion=version)

    def test_capabilities_under_their_short_name_are_understood(self) -> None:
        read = self.read(capabilities={"terminal": True})
        assert read.client_capabilities.terminal is True
        assert read.to_wire() == {"protocolVersion": 1, "clientCapabilities": {"terminal": True}}

    def test_capabilities_under_their_own_name_win(self) -> None:
        short, own = {"capabilities": {"terminal": True}}, {"clientCapabilities": {"terminal": False}}
        for received in ({**short, **own}, {**own, **short}):
            assert self.read(**received).client_capabilities.terminal is False

    def test_without_capabilities_nothing_is_announced(self) -> None:
        for received in ({}, {"clientCapabilities": None}, {"clientCapabilities": {}}, {"clientCapabilities": []}):
            assert self.read(**received).client_capabilities == schema.ClientCapabilities()

    def test_nulls_and_empty_objects_of_clients_in_use_are_read(self) -> None:
        read = self.read(
            clientCapabilities={"fs": None, "auth": {}, "terminal": None, "field_meta": None},
            clientInfo={"name": "x"},
            field_meta=None,
        )
        assert read.client_capabilities.fs.read_text_file is False
        assert read.client_info is None

    def test_one_wrong_capability_does_not_cost_the_others(self) -> None:
        read = self.read(clientCapabilities={"fs": {"readTextFile": "yes", "writeTextFile": True}, "terminal": 1})
        assert read.to_wire()["clientCapabilities"] == {"fs": {"writeTextFile": True}}


class TestPythonCode:
    """Leniency is for what comes from a peer."""

    def test_a_wrong_value_is_an_error_even_where_a_peer_would_be_forgiven(self) -> None:
        with pytest.raises(ValidationError):
            schema.ToolCall.model_validate({"tool_call_id": "c", "title": "t", "content": "text"})
        with pytest.raises(ValidationError):
            schema.TextContent.model_validate({"text": "a", "annotations": 5})

    def test_both_names_of_a_field_are_understood(self) -> None:
        assert schema.ToolCallLocation.model_validate({"path": "/a", "line": 1}) == schema.ToolCallLocation(
            path="/a", line=1
        )
        by_name = schema.PromptResponse(stop_reason="end_turn", meta={"a": 1})
        by_alias = schema.PromptResponse.model_validate({"stopReason": "end_turn", "_meta": {"a": 1}})
        assert by_name == by_alias

    def test_the_wire_has_only_one_name_for_a_field(self) -> None:
        with pytest.raises(ValidationError):
            schema.PromptResponse.from_wire({"stop_reason": "end_turn"})


def test_a_wrong_item_of_a_list_whose_items_must_all_be_right_is_an_error() -> None:
    with pytest.raises(ValidationError):
        schema.SessionConfigSelect.from_wire({**EXAMPLES["SessionConfigSelect"][0], "options": [{"value": "a"}]})
    with pytest.raises(ValidationError):
        schema.NewSessionRequest.from_wire({"cwd": "/w", "mcpServers": [{"name": "a", "command": "b"}, 5]})

"""What is read is written again as it was, for every type, and both the examples and what we write fit the schemas."""

import copy
from typing import Any

import jsonschema

from acp_server import schema
from tests.each import each
from tests.schema.examples import EXAMPLES
from tests.schema.exported import definitions

DEFINITIONS = definitions()
OBJECTS = sorted(
    name
    for name, definition in DEFINITIONS.items()
    if schema.area_of(name) is not None
    and ("properties" in definition or definition.get("type") == "object" or "$ref" in str(definition))
)
CASES = [(name, example) for name, examples in EXAMPLES.items() for example in examples]


def validator(name: str) -> Any:
    """A validator for one definition of the exported schemas."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS})


def written(value: Any) -> Any:
    """The wire form of what was read as any type; unions of lists come as lists."""
    return [written(item) for item in value] if isinstance(value, list) else value.to_wire()


@each(CASES)
def test_what_is_read_is_written_again_as_it_was(name: str, example: Any) -> None:
    assert written(schema.from_wire(getattr(schema, name), example)) == example


@each(CASES)
def test_an_example_fits_the_exported_schema(name: str, example: Any) -> None:
    validator(name).validate(example)


def test_every_type_has_an_example() -> None:
    assert sorted(EXAMPLES) == OBJECTS


@each(OBJECTS)
def test_the_examples_use_every_property(name: str) -> None:
    definition = DEFINITIONS[name]
    used = {key for example in EXAMPLES[name] if isinstance(example, dict) for key in example}
    assert set(definition.get("properties", ())) <= used


@each(schema.METHODS.values())
def test_the_parameters_and_the_result_of_a_method_are_read_through_its_row(method: schema.Method) -> None:
    for example in EXAMPLES[method.params]:
        assert method.read_params(example).to_wire() == example
    for example in EXAMPLES[method.result] if method.result else ():
        assert method.read_result(example).to_wire() == example


@each(sorted(name for name in EXAMPLES if "anyOf" in DEFINITIONS[name] or "oneOf" in DEFINITIONS[name]))
def test_every_member_of_a_union_has_an_example(name: str) -> None:
    read = [schema.from_wire(getattr(schema, name), example) for example in EXAMPLES[name]]
    members = {
        member["$ref"].rpartition("/")[2]
        for member in (DEFINITIONS[name].get("anyOf") or DEFINITIONS[name]["oneOf"])
        if "$ref" in member
    }
    assert members <= {type(value).__name__ for value in read} | {"ElicitationSessionScope", "ElicitationRequestScope"}


def test_a_received_object_is_not_changed_by_reading_it() -> None:
    example = {"sessionId": "s", "prompt": [{"type": "text", "text": "a", "annotations": 5}], "_meta": {"a": [1]}}
    before = copy.deepcopy(example)
    schema.PromptRequest.from_wire(example)
    assert example == before


def test_big_nested_content_is_carried_unchanged() -> None:
    deep: Any = None
    for _ in range(100):
        deep = {"deeper": [deep], "text": "ä" * 50}
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "t",
        "content": [{"type": "content", "content": {"type": "text", "text": "x" * 1_000_000}}] * 200,
        "locations": [{"path": f"/w/{line}", "line": line} for line in range(5000)],
        "rawOutput": deep,
    }
    notification = {"sessionId": "s", "update": update, "_meta": deep}
    assert schema.SessionNotification.from_wire(notification).to_wire() == notification

"""What is read of version 2 is written again as it was, and both the examples and what we write fit the schemas."""

from typing import Any

import jsonschema

from acp_server import schema
from acp_server.schema import v2
from tests.each import each
from tests.schema.exported import definitions
from tests.schema.v2.examples import EXAMPLES

DEFINITIONS = definitions(2)
OBJECTS = sorted(
    name
    for name, definition in DEFINITIONS.items()
    if v2.area_of(name) is not None
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
    assert written(schema.from_wire(getattr(v2, name), example)) == example


@each(CASES)
def test_an_example_fits_the_exported_schema(name: str, example: Any) -> None:
    validator(name).validate(example)


def test_every_type_has_an_example() -> None:
    assert sorted(EXAMPLES) == OBJECTS
    assert all(EXAMPLES.values())


@each(OBJECTS)
def test_the_examples_use_every_property(name: str) -> None:
    used = {key for example in EXAMPLES[name] if isinstance(example, dict) for key in example}
    assert set(DEFINITIONS[name].get("properties", ())) <= used


@each(v2.METHODS.values())
def test_the_parameters_and_the_result_of_a_method_are_read_through_its_row(method: v2.Method) -> None:
    for example in EXAMPLES[method.params]:
        assert method.read_params(example).to_wire() == example
    for example in EXAMPLES[method.result] if method.result else ():
        assert method.read_result(example).to_wire() == example


@each(sorted(name for name in EXAMPLES if "anyOf" in DEFINITIONS[name] or "oneOf" in DEFINITIONS[name]))
def test_every_member_of_a_union_has_an_example(name: str) -> None:
    read = [schema.from_wire(getattr(v2, name), example) for example in EXAMPLES[name]]
    members = {
        member["$ref"].rpartition("/")[2]
        for member in (DEFINITIONS[name].get("anyOf") or DEFINITIONS[name]["oneOf"])
        if "$ref" in member
    }
    assert members <= {type(value).__name__ for value in read} | {"ElicitationSessionScope", "ElicitationRequestScope"}

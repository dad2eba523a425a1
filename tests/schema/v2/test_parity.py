"""Our types of version 2 are those of its draft: definition by definition, against the schema that is published.

It comes with the same npm package as that of version 1.
"""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from acp_server import schema
from acp_server.schema import v2
from acp_server.schema.export import SIDES
from tests.schema.exported import definitions
from tests.schema.reasons import AHEAD_METHODS, AHEAD_TYPES, ALONE, THEIRS_ALONE
from tests.schema.test_parity import ABSENT_MEMBERS, ABSENT_METHODS, find_published
from tests.schema.v2.examples import EXAMPLES

OURS = definitions(2)

SHARED = "the type of version 1, which does not refuse an empty list"

UNBOUNDED = {("StringMultiSelectItems", "enum"): SHARED, ("TitledMultiSelectItems", "anyOf"): SHARED}
"""Lists that may not be empty there, and why they may be here."""


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    """The published definitions, by name."""
    return find_published(2, "schema.unstable.json")["$defs"]


def test_the_states_and_stop_reasons_and_their_fields_are_the_published_ones(published: dict[str, Any]) -> None:
    def constants(union: list[Any], key: str) -> set[str]:
        return {m["properties"][key]["const"] for m in union if "const" in m["properties"][key]}

    def known(name: str) -> set[str]:
        return set(OURS[name]["anyOf"][0]["enum"])

    assert known("SessionState") == constants(published["StateUpdate"]["anyOf"], "state")
    assert known("StopReason") == constants(published["IdleStateUpdate"]["anyOf"], "stopReason")
    fields = {key: value for name in THEIRS_ALONE[2] for key, value in published[name]["properties"].items()}
    ours = OURS["StateUpdate"]["properties"]
    assert set(fields) | {"state", "sessionUpdate"} == set(ours)
    note = "x-deserialize-default-on-error"
    assert {key: value.get(note) for key, value in fields.items()} == {key: ours[key].get(note) for key in fields}
    assert OURS["StateUpdate"]["required"] == ["sessionUpdate", "state"]


def bounds(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every lower bound of a list and every encoding of a string, with the names of the fields on the way to it."""
    if isinstance(value, list):
        for item in value:
            yield from bounds(item, path)
    elif isinstance(value, dict):
        for key in ("minItems", "contentEncoding"):
            if key in value and not isinstance(value[key], dict):
                yield path, key, value[key]
        for key, below in value.items():
            if key == "properties":
                for name, field in below.items():
                    yield from bounds(field, (*path, name))
            else:
                yield from bounds(below, path)


def test_lists_that_may_not_be_empty_and_encodings_are_the_published_ones(published: dict[str, Any]) -> None:
    def all_bounds(definitions: dict[str, Any]) -> set[Any]:
        return set(bounds({"properties": {name: definitions[name] for name in OURS.keys() & published.keys()}}))

    assert {path for path, _, _ in all_bounds(published) - all_bounds(OURS)} == set(UNBOUNDED)
    assert not all_bounds(OURS) - all_bounds(published)


def test_every_method_takes_and_gives_what_is_published(published: dict[str, Any]) -> None:
    expected = {
        (name, definition["x-method"], definition["x-side"])
        for name, definition in published.items()
        if "x-method" in definition and definition["x-method"] not in ABSENT_METHODS
    }
    ours = {
        (name, method.name, SIDES[method.receiver])
        for method in v2.METHODS.values()
        for name in (method.params, method.result)
        if name is not None and method.name not in AHEAD_METHODS
    }
    assert ours == expected


def test_the_defaults_are_the_published_ones(published: dict[str, Any]) -> None:
    theirs = {
        (name, key): value["default"]
        for name, definition in published.items()
        for key, value in definition.get("properties", {}).items()
        if "default" in value and f"{name}.{key}" not in ABSENT_MEMBERS
    }
    ours = {(name, key): OURS[name]["properties"][key].get("default") for name, key in theirs}
    assert ours == theirs


def test_what_we_write_fits_the_published_schema(published: dict[str, Any]) -> None:
    cases = [(name, example) for name in set(EXAMPLES) - set(ALONE[2]) - AHEAD_TYPES for example in EXAMPLES[name]]
    for name, example in cases:
        validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": published})
        read = schema.from_wire(getattr(v2, name), example)
        validator.validate([item.to_wire() for item in read] if isinstance(read, list) else read.to_wire())

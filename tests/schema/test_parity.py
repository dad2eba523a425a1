"""Our types are those of the protocol: definition by definition, against the schema that ACP publishes.

The published schema is not part of this repository. It comes with the npm package `@agentclientprotocol/sdk` that the
interop tests install; the variable ACP_PUBLISHED_SCHEMA names another copy.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from acp_server import schema
from acp_server.schema.base import Record, attributes
from acp_server.schema.export import SIDES
from acp_server.schema.features import ABSENT
from tests.schema.canonical import Canonical, differences
from tests.schema.examples import EXAMPLES
from tests.schema.exported import definitions
from tests.schema.reasons import AHEAD_METHODS, AHEAD_TYPES, ALONE, TOLERATED, covers
from tests.schema.watch import Published, report

PACKAGE = Path(__file__).parents[1] / "interop/node/node_modules/@agentclientprotocol/sdk"

OURS = definitions()

ABSENT_METHODS = {method for feature in ABSENT.values() for method in feature.methods}
ABSENT_MEMBERS = {member for feature in ABSENT.values() for member in feature.members}


def find_published(version: int = 1, name: str = "schema.json") -> dict[str, Any]:
    """The published document of a version. Skips the tests where it is missing, except in CI."""
    other = os.environ.get("ACP_PUBLISHED_SCHEMA") if (version, name) == (1, "schema.json") else None
    path = Path(other or PACKAGE / "schema" / f"v{version}" / name)
    if path.is_file():
        return json.loads(path.read_text("utf-8"))
    missing = f"the published schema is missing: {path.name} of the npm package @agentclientprotocol/sdk"
    if os.environ.get("CI"):
        pytest.fail(f"{missing}, and CI must compare with it", pytrace=False)
    pytest.skip(missing)


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    """The published definitions, by name."""
    return find_published(1, "schema.unstable.json")["$defs"]


@pytest.mark.parametrize("name", ["schema.json", "schema.unstable.json"])
@pytest.mark.parametrize("version", [1, 2])
def test_every_difference_from_a_published_schema_has_a_reason(version: int, name: str) -> None:
    text, unexplained = report(published_document(version, name))
    assert not unexplained, text


@pytest.mark.parametrize("version", [1, 2])
def test_every_reason_is_that_of_a_difference(version: int) -> None:
    places = [place for name in ("schema.json", "schema.unstable.json") for place in differing(version, name)]
    assert not [entry for entry in TOLERATED[version] if not any(covers(entry, place) for place in places)]
    assert not ALONE[version].keys() & find_published(version, "schema.unstable.json")["$defs"].keys()


def differing(version: int, name: str) -> Iterator[tuple[str, str]]:
    """Every definition and place that differs."""
    ours, theirs = definitions(version, name), find_published(version, name)["$defs"]
    mine, other = Canonical(ours), Canonical(theirs)
    for defined in ours.keys() & theirs.keys():
        for where, _, _ in differences(mine.definition(defined), other.definition(defined)):
            yield defined, where


def published_document(version: int, name: str, changes: dict[str, Any] | None = None) -> Published:
    """A published document, some of whose definitions are changed."""
    published = find_published(version, name)["$defs"] | (changes or {})
    return Published(name, version, name == "schema.json", published)


def test_every_method_takes_and_gives_what_is_published(published: dict[str, Any]) -> None:
    expected = {
        (name, definition["x-method"], definition["x-side"])
        for name, definition in published.items()
        if "x-method" in definition and definition["x-method"] not in ABSENT_METHODS
    }
    ours = {
        (name, method.name, SIDES[method.receiver])
        for method in schema.METHODS.values()
        for name in (method.params, method.result)
        if name is not None and method.name not in AHEAD_METHODS
    }
    assert ours == expected


def published_defaults() -> Iterator[tuple[str, str]]:
    """(class, key) of every field of ours that has a default other than null."""
    for name, definition in OURS.items():
        for key, value in definition.get("properties", {}).items():
            if "default" in value:
                yield name, key


def test_every_default_reads_as_the_published_one() -> None:
    published = find_published()["$defs"]  # In the other document defaults have members that are absent here.
    for name, key in published_defaults():
        cls: type[Record] = getattr(schema, name)
        attribute = attributes(cls)[key]
        theirs = published.get(name, {}).get("properties", {}).get(key, {})
        if "default" in theirs:
            example = EXAMPLES[name][-1]
            read = cls.from_wire({**example, key: theirs["default"]})
            without = cls.from_wire({other: value for other, value in example.items() if other != key})
            assert getattr(read, attribute) == getattr(without, attribute), f"{name}.{key}"


def test_every_published_default_is_one_of_ours(published: dict[str, Any]) -> None:
    theirs = {
        (name, key)
        for name, definition in published.items()
        for key, value in definition.get("properties", {}).items()
        if "default" in value and f"{name}.{key}" not in ABSENT_MEMBERS
    }
    assert theirs <= set(published_defaults())


def test_what_we_write_fits_the_published_schema(published: dict[str, Any]) -> None:
    cases = [(name, example) for name in set(EXAMPLES) - set(ALONE[1]) - AHEAD_TYPES for example in EXAMPLES[name]]
    for name, example in cases:
        validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": published})
        read = schema.from_wire(getattr(schema, name), example)
        validator.validate([item.to_wire() for item in read] if isinstance(read, list) else read.to_wire())


def test_the_comparison_sees_a_difference_of_every_kind(published: dict[str, Any]) -> None:
    def change(name: str, key: str | None, **changes: Any) -> dict[str, Any]:
        definition = published[name]
        if key is None:
            return {name: {**definition, **changes}}
        properties = {**definition["properties"], key: {**definition["properties"][key], **changes}}
        return {name: {**definition, "properties": properties}}

    changed = {
        "a missing property": change("ToolCallLocation", None, properties={"path": {"type": "string"}}),
        "required": change("ToolCallLocation", None, required=["path", "line"]),
        "nullability": change("ToolCallLocation", "line", type="integer"),
        "a type": change("ToolCallLocation", "line", type=["string", "null"]),
        "a constraint": change("ToolCallLocation", "line", minimum=1),
        "a width": change("ToolCallLocation", "line", format="uint64"),
        "a note": change("ToolCallLocation", "line", **{"x-deserialize-default-on-error": False}),
        "an item": change("PromptRequest", "prompt", items={"$ref": "#/$defs/Role"}),
        "a value of an enumeration": change("StopReason", None, oneOf=published["StopReason"]["oneOf"][:-1]),
        "a member of a union": change("ContentBlock", None, oneOf=published["ContentBlock"]["oneOf"][:-1]),
        "a field of a member": change("SessionConfigBoolean", "currentValue", type="string"),
    }
    for what, changes in changed.items():
        _, unexplained = report(published_document(1, "schema.unstable.json", changes))
        assert unexplained, what

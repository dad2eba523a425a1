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
from tests.schema.canonical import Canonical, Difference, differences
from tests.schema.examples import EXAMPLES
from tests.schema.exported import definitions

PACKAGE = Path(__file__).parents[1] / "interop/node/node_modules/@agentclientprotocol/sdk"

OURS = definitions()

TAG = "the tag is part of the class here, and of the union around it there; the unions are compared whole"
MEMBER = "has the fields here that stand beside the union there; the union is compared whole"
RAW = "what an unknown member holds is not looked into"

TOLERATED: dict[tuple[str, str], str] = {
    **{
        (name, f"object.{part}.{tag}"): TAG
        for tag, names in {
            "type": (
                "TextContent ImageContent AudioContent ResourceLink EmbeddedResource Content Diff Terminal "
                "McpServerHttp McpServerSse AuthMethodTerminal StringPropertySchema NumberPropertySchema "
                "IntegerPropertySchema BooleanPropertySchema MultiSelectPropertySchema StringMultiSelectItems"
            ),
            "sessionUpdate": (
                "ToolCall Plan AvailableCommandsUpdate CurrentModeUpdate ConfigOptionUpdate SessionInfoUpdate "
                "UsageUpdate Notice CompactionUpdate CompactionSummaryChunk"
            ),
            "outcome": "SelectedPermissionOutcome",
            "action": "ElicitationAcceptAction",
        }.items()
        for name in names.split()
        for part in ("properties", "required")
    },
    ("SessionConfigSelect", ""): MEMBER,
    ("SessionConfigBoolean", ""): MEMBER,
    ("ElicitationFormMode", ""): MEMBER,
    ("ElicitationUrlMode", ""): MEMBER,
    ("ElicitationAcceptAction", "object.properties._meta"): MEMBER,
    ("CreateElicitationRequest", "object()"): RAW,
    ("CreateElicitationRequest", "object(: message, mode, requestId)"): RAW,
    ("CreateElicitationRequest", "object(: message, mode, sessionId)"): RAW,
    ("CreateElicitationResponse", "object().properties._meta"): RAW,
}
"""The differences that are meant: where, and why. An entry covers everything inside the place it names."""

OURS_ALONE = {
    "UserMessageChunk": "ContentChunk with its tag",
    "AgentMessageChunk": "ContentChunk with its tag",
    "AgentThoughtChunk": "ContentChunk with its tag",
    "ToolCallProgress": "ToolCallUpdate with its tag",
    "CancelledPermissionOutcome": "has no name there",
    "ElicitationDeclineAction": "has no name there",
    "ElicitationCancelAction": "has no name there",
}
"""Definitions that the published schema does not have, and why."""


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
    return find_published()["$defs"]


def all_differences(published: dict[str, Any], definitions: dict[str, Any] = OURS) -> dict[tuple[str, str], Difference]:
    """Every difference in every definition that both have, by definition and place."""
    ours, theirs = Canonical(definitions), Canonical(published)
    return {
        (name, difference[0]): difference
        for name in sorted(definitions.keys() & published.keys())
        for difference in differences(ours.definition(name), theirs.definition(name))
    }


def covers(entry: tuple[str, str], found: tuple[str, str]) -> bool:
    """Whether an entry of the table is about a difference."""
    (name, place), (where, at) = entry, found
    return name == where and (not place or at == place or at.startswith(f"{place}."))


def test_every_published_definition_is_here(published: dict[str, Any]) -> None:
    assert set(OURS) - set(OURS_ALONE) == set(published)
    assert not set(OURS_ALONE) & set(published), "stale entries of OURS_ALONE"


def test_every_definition_says_the_same_as_the_published_one(published: dict[str, Any]) -> None:
    untold = [
        f"{name}: {where}: ours {ours!r}, published {theirs!r}"
        for (name, where), (_, ours, theirs) in all_differences(published).items()
        if not any(covers(entry, (name, where)) for entry in TOLERATED)
    ]
    assert not untold, "\n".join(untold)


def test_every_tolerated_difference_is_still_there(published: dict[str, Any]) -> None:
    found = all_differences(published)
    stale = [entry for entry in TOLERATED if not any(covers(entry, place) for place in found)]
    assert not stale


def test_every_method_takes_and_gives_what_is_published(published: dict[str, Any]) -> None:
    expected = {
        (name, definition["x-method"], definition["x-side"])
        for name, definition in published.items()
        if "x-method" in definition
    }
    ours = {
        (name, method.name, SIDES[method.receiver])
        for method in schema.METHODS.values()
        for name in (method.params, method.result)
        if name is not None
    }
    assert ours == expected


def published_defaults() -> Iterator[tuple[str, str]]:
    """(class, key) of every field of ours that has a default other than null."""
    for name, definition in OURS.items():
        for key, value in definition.get("properties", {}).items():
            if "default" in value:
                yield name, key


def test_every_default_reads_as_the_published_one(published: dict[str, Any]) -> None:
    for name, key in published_defaults():
        cls: type[Record] = getattr(schema, name)
        attribute = attributes(cls)[key]
        theirs = published[name]["properties"][key] if name in published else {}
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
        if "default" in value
    }
    assert theirs <= set(published_defaults())


def test_what_we_write_fits_the_published_schema(published: dict[str, Any]) -> None:
    cases = [(name, example) for name in set(EXAMPLES) - set(OURS_ALONE) for example in EXAMPLES[name]]
    for name, example in cases:
        validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": published})
        read = schema.from_wire(getattr(schema, name), example)
        validator.validate([item.to_wire() for item in read] if isinstance(read, list) else read.to_wire())


def test_the_comparison_sees_a_difference_of_every_kind(published: dict[str, Any]) -> None:
    def change(name: str, key: str | None, **changes: Any) -> dict[str, Any]:
        definition = published[name]
        if key is None:
            return {**published, name: {**definition, **changes}}
        properties = {**definition["properties"], key: {**definition["properties"][key], **changes}}
        return {**published, name: {**definition, "properties": properties}}

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
    for what, document in changed.items():
        untold = [p for p in all_differences(document) if not any(covers(entry, p) for entry in TOLERATED)]
        assert untold, what

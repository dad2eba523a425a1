"""Finds the members of a value that no published schema has. Such members are an agent's or a client's own.

The suite checks messages against the stable schema. `published/`, which `make schema` writes, also has later schemas
and drafts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .schema import KEPT, fits, resolved, tagged, text_of

PUBLISHED = Path(__file__).with_name("published")
"""Generated files, which are not edited by hand."""

Schema = Mapping[str, Any]

_OPEN: Schema = {}
"""The schema of anything."""

_EARLIER: Mapping[str, frozenset[str]] = {
    "AgentCapabilities": frozenset({"nes", "positionEncoding"}),
    "AuthMethodAgent": frozenset({"type", "vars", "link"}),
    "ClientCapabilities": frozenset({"nes", "positionEncodings"}),
    "ClientSessionCapabilities": frozenset({"compaction"}),
    "ToolCall": frozenset({"name"}),
    "ToolCallProgress": frozenset({"name"}),
    "ToolCallUpdate": frozenset({"name"}),
}
"""Members by type of earlier drafts that the newest schema no longer has."""


class Published(NamedTuple):
    """The additions of the newest published schema to the stable schema."""

    release: str
    date: str
    members: Mapping[str, Sequence[str]]
    methods: Sequence[str]
    updates: Sequence[str]
    """Kinds of `session/update`."""

    def __str__(self) -> str:
        return f"{self.release} of {self.date}"


@cache
def published(version: int = 1) -> Published:
    """Return the newest schema of a version of the protocol that was known when the suite was built."""
    return Published(**json.loads((PUBLISHED / f"v{version}.json").read_text("utf-8")))


def unknown_members(name: str, value: Mapping[str, Any]) -> list[str]:
    """Return the paths of the members of `value`, at any depth, that the type `name` of version 1 does not have."""
    text = text_of(value)
    return _unknown_of(name, value) if text is None else _unknown_of_text(name, text)


@lru_cache(KEPT)
def _unknown_of_text(name: str, text: str) -> list[str]:
    return _unknown_of(name, json.loads(text))


def _unknown_of(name: str, value: Any) -> list[str]:
    return sorted(_unknown([{"$ref": f"#/$defs/{name}"}], value, ""))


def _unknown(schemas: Sequence[Schema], value: Any, where: str) -> Iterator[str]:
    """Return the unknown members of a value that fits all these schemas. A part that one of the schemas leaves open may
    contain anything."""
    if not isinstance(value, dict | list):
        return
    parts = [part for schema in schemas for part in _parts(schema, value)]
    if isinstance(value, list):
        items = [part["items"] for part in parts if "items" in part]
        for each in value:
            yield from _unknown(items, each, where)
    elif parts and not any(_is_open(part) for part in parts):
        for key, each in value.items():
            if known := [member for part in parts for member in _member(part, key)]:
                yield from _unknown(known, each, f"{where}{key}.")
            else:
                yield f"{where}{key}"


def _parts(schema: Schema, value: Any) -> Iterator[Schema]:
    """Return the schema and those of its alternatives that the value fits. All of them list possible members."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    schema = resolved(schema, 1)
    beyond = {*_EARLIER.get(name, ()), *published().members.get(name, ())}
    yield {**schema, "beyond": beyond} if beyond else schema
    for keyword in ("anyOf", "oneOf"):
        if choices := [each for each in schema.get(keyword, ()) if each.get("type") != "null"]:
            chosen = _chosen(choices, value)
            for choice in chosen:
                yield from _parts(choice, value)
            if not chosen:
                yield _OPEN


def _chosen(choices: list[Schema], value: Any) -> Sequence[Schema]:
    if len(choices) == 1:
        return choices
    return tagged(choices, value, 1) or [each for each in choices if fits(each, value, 1)]


def _is_open(part: Schema) -> bool:
    """Whether members of any name are allowed, because the schema lists no members, or because the kind of the value
    has no schema."""
    if "anyOf" in part or "oneOf" in part or isinstance(part.get("additionalProperties"), dict):
        return False
    return "properties" not in part or any("not" in each for each in part["properties"].values())


def _member(part: Schema, key: str) -> Iterator[Schema]:
    """Return the schema that a part has for a member."""
    if key in part.get("properties", ()):
        yield part["properties"][key]
    elif key == "_meta" or key in part.get("beyond", ()):
        yield _OPEN
    elif isinstance(part.get("additionalProperties"), dict):
        yield part["additionalProperties"]

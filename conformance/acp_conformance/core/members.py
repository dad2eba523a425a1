"""Finds the members of a value that no published schema has, and for version 2 the names where its schema is open.
Such members and names are an agent's or a client's own.

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
    values: Sequence[str] = ()
    """Names where the schema is open, such as kinds, states and types."""

    def __str__(self) -> str:
        return f"{self.release} of {self.date}"


@cache
def published(version: int = 1) -> Published:
    """Return the newest schema of a version of the protocol that was known when the suite was built."""
    return Published(**json.loads((PUBLISHED / f"v{version}.json").read_text("utf-8")))


class Foreign(NamedTuple):
    """A member, or the value of a member, that no published schema has."""

    where: str
    value: str | None = None
    """The value; None if the member itself is unknown."""


def unknown_members(name: str, value: Mapping[str, Any], version: int = 1) -> list[str]:
    """Return the paths of the members of `value`, at any depth, that the type `name` does not have."""
    return sorted({each.where for each in foreign(name, value, version) if each.value is None})


def unknown_values(name: str, value: Mapping[str, Any], version: int) -> list[str]:
    """Return the names in `value`, each as `path 'name'`, that the open type `name` does not have. Names that begin
    with an underscore may be custom."""
    later = published(version).values
    named = {each for each in foreign(name, value, version) if each.value is not None and each.value not in later}
    return sorted(f"{each.where} {each.value!r:.100}" for each in named)


def foreign(name: str, value: Mapping[str, Any], version: int) -> Sequence[Foreign]:
    """Return what `value`, which fits the type `name`, has beyond it."""
    text = text_of(value)
    return _foreign_of(name, value, version) if text is None else _foreign_of_text(name, text, version)


@lru_cache(KEPT)
def _foreign_of_text(name: str, text: str, version: int) -> Sequence[Foreign]:
    return _foreign_of(name, json.loads(text), version)


def _foreign_of(name: str, value: Any, version: int) -> Sequence[Foreign]:
    return list(_unknown([{"$ref": f"#/$defs/{name}"}], value, "", version))


def _unknown(schemas: Sequence[Schema], value: Any, where: str, version: int) -> Iterator[Foreign]:
    """Return what is unknown in a value that fits all these schemas. A part that one of the schemas leaves open may
    contain anything."""
    if isinstance(value, str):
        yield from _unknown_name(schemas, value, where, version)
        return
    if not isinstance(value, dict | list):
        return
    parts = [part for schema in schemas for part in _parts(schema, value, version)]
    if isinstance(value, list):
        items = [part["items"] for part in parts if "items" in part]
        for each in value:
            yield from _unknown(items, each, where, version)
    elif opened := [part for part in parts if _is_open(part)]:
        for tag, text in _other_tags(opened, value):
            yield Foreign(f"{where}{tag}", text)
    else:
        for key, each in value.items():
            if known := [member for part in parts for member in _member(part, key)]:
                yield from _unknown(known, each, f"{where}{key}.", version)
            elif parts:
                yield Foreign(f"{where}{key}")


def _unknown_name(schemas: Sequence[Schema], value: str, where: str, version: int) -> Iterator[Foreign]:
    """Return a name that the schema allows and does not enumerate."""
    choices = [each for schema in schemas for each in resolved(schema, version).get("anyOf", ())]
    choices += [each for choice in choices for each in resolved(choice, version).get("anyOf", ())]
    names = [name for each in choices for name in each.get("enum", ())]
    if names and value not in names and not value.startswith("_"):
        yield Foreign(where.removesuffix("."), value)


def _other_tags(parts: Sequence[Schema], value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The tags by which a value is of none of the known kinds."""
    for part in parts:
        for key, each in part.get("properties", {}).items():
            if "not" in each and not str(value.get(key)).startswith("_"):
                yield key, str(value.get(key))


def _parts(schema: Schema, value: Any, version: int) -> Iterator[Schema]:
    """Return the schema and those of its alternatives that the value fits. All of them list possible members."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    schema = resolved(schema, version)
    earlier = _EARLIER.get(name, ()) if version == 1 else ()
    beyond = {*earlier, *published(version).members.get(name, ())}
    yield {**schema, "beyond": beyond} if beyond else schema
    for keyword in ("anyOf", "oneOf"):
        if choices := [each for each in schema.get(keyword, ()) if each.get("type") != "null"]:
            chosen = _chosen(choices, value, version)
            for choice in chosen:
                yield from _parts(choice, value, version)
            if not chosen:
                yield _OPEN


def _chosen(choices: list[Schema], value: Any, version: int) -> Sequence[Schema]:
    if len(choices) == 1:
        return choices
    return tagged(choices, value, version) or [each for each in choices if fits(each, value, version)]


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

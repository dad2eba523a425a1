"""JSON Schema definitions in a form that does not depend on how they are spelled, and the differences between two.

A definition becomes the set of its alternatives: references at its top are followed, `allOf` is merged, properties
beside a union are given to each of its members, enumerations and lists of types are taken apart. Inside properties and
items a reference to a definition stays a reference, so that each difference shows up once, where it is made.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
Difference = tuple[str, Any, Any]
"""(where, what the first has, what the second has); None for nothing."""

NOTES = (
    "x-deserialize-default-on-error",
    "x-deserialize-skip-invalid-items",
    "x-deserialize-default-on-null",
)
CONSTRAINTS = ("format", "minimum", "maximum", "minLength", "maxLength", "pattern", *NOTES)


class Canonical:
    """The definitions of one schema document."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self.definitions = definitions

    def definition(self, name: str) -> dict[str, Any]:
        """The alternatives of a definition, by a label made of what tells them apart."""
        return self._labelled(self._alternatives(self.definitions[name], follow=True))

    def _nested(self, schema: Any) -> dict[str, Any]:
        return self._labelled(self._alternatives(schema, follow=False))

    def _labelled(self, alternatives: Iterator[dict[str, Any]]) -> dict[str, Any]:
        """By what each is; objects by their tags, and where those are the same by what they require."""
        group = list(alternatives)
        objects = [alternative for alternative in group if alternative.get("type") == "object"]
        tags = [_tags(alternative) for alternative in objects]
        found: dict[str, Any] = {}
        for alternative in group:
            label = _label(alternative)
            if label == "object" and len(objects) > 1:
                own = _tags(alternative)
                label = ", ".join(sorted(alternative["required"]) if tags.count(own) > 1 else own)
                label = f"object({', '.join(own)}: {label})" if tags.count(own) > 1 else f"object({label})"
            assert label not in found or found[label] == alternative, f"two alternatives are both {label}"
            found[label] = alternative
        return found

    def _alternatives(self, schema: Any, *, follow: bool) -> Iterator[dict[str, Any]]:
        schema = dict(schema)
        notes = {key: schema.pop(key) for key in NOTES if key in schema}
        for alternative in self._unannotated(schema, follow=follow):
            yield alternative | notes

    def _unannotated(self, schema: dict[str, Any], *, follow: bool) -> Iterator[dict[str, Any]]:
        parts = list(schema.pop("allOf", ()))
        if "$ref" in schema:
            parts.append({"$ref": schema.pop("$ref")})
        union = [*schema.pop("anyOf", ()), *schema.pop("oneOf", ())]
        wholes = [self._part(part, follow=follow) for part in parts]
        if union:
            wholes.append([a for member in union for a in self._alternatives(member, follow=follow)])
        own = list(self._own(schema))
        combined = own or [{}]
        for whole in wholes:
            combined = [_merged(a, b) for a in combined for b in whole]
        yield from combined

    def _part(self, part: Schema, *, follow: bool) -> list[dict[str, Any]]:
        if "$ref" not in part:
            return list(self._alternatives(part, follow=follow))
        name = part["$ref"].rpartition("/")[2]
        if follow:
            return list(self._alternatives(self.definitions[name], follow=True))
        return [{"ref": name}]

    def _own(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What the keywords other than references and unions say."""
        kinds = schema.get("type")
        if kinds is None and "properties" in schema:
            kinds = "object"
        if kinds is None:
            return
        constraints = {key: schema[key] for key in CONSTRAINTS if key in schema}
        constants = [schema["const"]] if "const" in schema else schema.get("enum")
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            match kind:
                case "null":
                    yield {"type": "null"}
                case "object":
                    yield self._object(schema)
                case "array":
                    yield {"type": "array", "items": self._nested(schema.get("items", {}))}
                case _ if constants is not None:
                    yield from ({"type": kind, "const": value, **constraints} for value in constants)
                case _:
                    yield {"type": kind, **constraints, **_excluded(schema)}

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "object",
            "properties": {key: self._property(value) for key, value in schema.get("properties", {}).items()},
            "required": set(schema.get("required", ())),
        }
        values = schema.get("additionalProperties", True)
        if values is not True:
            found["values"] = self._nested(values)
        excluded = schema.get("not")
        if excluded is not None:  # "not an object with one of these tags"
            for other in excluded["anyOf"]:
                ((key, tag),) = other["properties"].items()
                found["properties"][key]["string"].setdefault("not", set()).add(tag["const"])
        return found

    def _property(self, schema: Any) -> dict[str, Any]:
        nested = self._nested(schema)
        notes = {key: schema[key] for key in NOTES if key in schema}
        # Notes belong to the property as a whole.
        for alternative in nested.values():
            for key in NOTES:
                alternative.pop(key, None)
        return {**nested, **notes}


def _excluded(schema: Schema) -> dict[str, Any]:
    return {"not": set(schema["not"]["enum"])} if "not" in schema else {}


def _merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    if a.get("type") == b.get("type") == "object":
        return {
            **a,
            **b,
            "properties": {**a["properties"], **b["properties"]},
            "required": a["required"] | b["required"],
        }
    return {**a, **b}


def _label(alternative: Mapping[str, Any]) -> str:
    if "const" in alternative:
        return repr(alternative["const"])
    if "ref" in alternative:
        return alternative["ref"]
    kind = alternative.get("type", "any")
    if kind == "array":
        return f"array of {'/'.join(sorted(alternative['items']))}"
    return kind


def _tags(alternative: Mapping[str, Any]) -> list[str]:
    """The properties of an object that can only have one value."""
    return sorted(
        f"{key}={next(iter(value))}"
        for key, value in alternative["properties"].items()
        if key in alternative["required"] and len(value) == 1 and "const" in next(iter(value.values()))
    )


def differences(first: Any, second: Any, where: str = "") -> Iterator[Difference]:
    """What differs between two canonical forms."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted({*first, *second}):
            yield from differences(first.get(key), second.get(key), f"{where}.{key}" if where else key)
    elif isinstance(first, set) and isinstance(second, set):
        for item in sorted(first ^ second):
            yield f"{where}.{item}", item if item in first else None, item if item in second else None
    elif first != second:
        yield where, first, second

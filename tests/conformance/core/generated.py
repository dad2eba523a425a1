"""Values that are as a schema has them, made at random, and the places in them where one breach can be planted."""

import random
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

DEEP = 6
"""Unions that hold themselves end at this depth."""

TEXTS = ("", "a", "/a/b", "two words", "\u00e9", "x" * 40)

OTHER: dict[str, Any] = {
    "string": {"not": "a string"},
    "integer": "not a number",
    "number": "not a number",
    "boolean": 7,
    "object": "not an object",
    "array": {"not": "an array"},
    "null": 7,
}
"""A value of another type, by type."""


class Generated:
    """One value of one type, with the ways to break it."""

    def __init__(self, name: str, definitions: Mapping[str, Schema], seed: int) -> None:
        self.definitions = definitions
        self._random = random.Random(f"{name} {seed}")
        self.breaches: list[Callable[[], None]] = []
        """Each makes one change, most of which make the value invalid."""
        self.closed: list[dict[str, Any]] = []
        """The objects in it whose members are all known."""
        self.value = self._of({"$ref": f"#/$defs/{name}"}, 0, "")

    def _of(self, schema: Schema, depth: int, key: str) -> Any:
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self._of_union(schema, keyword, depth, key)
        return self._of_type(schema, depth, key)

    def _of_union(self, schema: Schema, keyword: str, depth: int, key: str) -> Any:
        choices = list(schema[keyword])
        if depth > DEEP and any(each.get("type") == "null" for each in choices):
            return None
        chosen = self._random.choice(choices)
        if "properties" not in schema:
            return self._of(chosen, depth + 1, key)
        chosen = self._resolved(chosen)
        merged = {
            **{name: each for name, each in schema.items() if name != keyword},
            "properties": {**schema["properties"], **chosen["properties"]},
            "required": [*schema.get("required", ()), *chosen.get("required", ())],
        }
        return self._of(merged, depth, key)

    def _of_type(self, schema: Schema, depth: int, key: str) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._random.choice(kind)
        if kind == "string":
            return self._text(schema, key)
        if kind in ("integer", "number"):
            return self._random.randint(int(schema.get("minimum", 1)), int(schema.get("maximum", 9)))
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind == "null":
            return None
        if kind == "array":
            least = schema.get("minItems", 0)
            count = self._random.randint(least, least + (2 if depth < DEEP else 0))
            made = [self._of(schema.get("items", {}), depth + 1, key) for _ in range(count)]
            self._break_members(made, schema.get("items", {}))
            return made
        return self._object(schema, depth) if kind == "object" else self._random.choice([None, 1, "a", [], {"a": 1}])

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        required = schema.get("required", ())
        often = 0.6 if depth < DEEP else 0.0
        made: dict[str, Any] = {
            name: self._of(each, depth + 1, name)
            for name, each in properties.items()
            if name in required or self._random.random() < often
        }
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and depth < DEEP:
            made["own"] = self._of(others, depth + 1, "own")
        elif "properties" not in schema:
            made["anything"] = self._random.choice(TEXTS)
        elif not any("not" in each for each in properties.values()):
            self.closed.append(made)
        for name in required:
            self.breaches.append(lambda name=name: made.pop(name, None))
        for name in made.keys() & properties.keys():
            self._break(made, name, properties[name])
        return made

    def _break_members(self, made: list[Any], items: Schema) -> None:
        for index in range(len(made)):
            self._break(made, index, items)

    def _break(self, owner: Any, place: Any, schema: Schema) -> None:
        kind = self._resolved(schema).get("type")
        other = OTHER.get(kind, {"of": ["no type"]}) if isinstance(kind, str) else {"of": ["no type"]}
        self.breaches.append(lambda: owner.__setitem__(place, other))

    def _text(self, schema: Schema, key: str) -> str:
        if key in ("path", "cwd", "additionalDirectories"):
            return "/a/b"
        if "not" in schema:
            return "_own"
        return self._random.choice([each for each in TEXTS if len(each) >= schema.get("minLength", 0)])

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].removeprefix("#/$defs/")]
        return schema

"""Writes the types of this package as JSON Schema 2020-12, which validators in other languages read.

    python -m acp_server.schema.export [--check] [--stable] DIRECTORY...

Each version of the protocol has a folder. `DIRECTORY/v1/schema.json` has every stable type under `$defs`. The schema as
a whole describes any one message. `DIRECTORY/v1/methods.json` has the types of the parameters and the result of each
method, its receiver, and the required capability. `schema.unstable.json` and `methods.unstable.json` also have the
unstable features, see `acp_server.schema.features`. The schemas describe messages that may be sent. They do not
describe lenient reading and unknown members of newer peers, except for the `x-deserialize-*` keys that ACP itself
publishes.
"""

import argparse
import ast
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypeAliasType

from acp_server import schema
from acp_server.schema import v2
from acp_server.schema.base import Record, Unknown, attributes
from acp_server.schema.features import FEATURES, Feature
from acp_server.schema.methods import Method

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REF = "#/$defs/"
BASES = (Record, v2.Patch)
SIDES = {"agent": "agent", "client": "client", "both": "protocol"}
EXTENSIONS = {
    "ExtRequest": "Parameters of a request outside of the protocol, whose name begins with `_`: any JSON.",
    "ExtResponse": "Result of a request outside of the protocol: any JSON.",
    "ExtNotification": "Parameters of a notification outside of the protocol, whose name begins with `_`: any JSON.",
}


class Version(NamedTuple):
    """A version of the protocol, with the package of its types."""

    number: int
    package: ModuleType
    methods: Mapping[str, Method]
    members: Mapping[str, Mapping[str, str]]
    """The capabilities that members of unions need."""
    error_id: Json
    """The JSON Schema of an error response's id."""


V1 = Version(schema.PROTOCOL_VERSION, schema, schema.METHODS, schema.MEMBER_CAPABILITIES, {"$ref": f"{REF}RequestId"})
# The id of an unreadable request is null, although null is not a request id in version 2.
NO_ID: Json = {"anyOf": [{"type": "integer", "format": "int64"}, {"type": "string"}, {"type": "null"}]}
V2 = Version(v2.PROTOCOL_VERSION, v2, v2.METHODS, v2.MEMBER_CAPABILITIES, NO_ID)
VERSIONS = (V1, V2)


def documents(version: Version = V1) -> dict[str, Json]:
    """Return the documents of a version, by file name."""
    every = definitions(version)
    return {
        "schema.json": _schema(version, stable(version, every), "."),
        "schema.unstable.json": _schema(version, every, ", with what is unstable."),
        "methods.json": _methods(version, _stable_methods(version), but=_unstable()),
        "methods.unstable.json": _methods(version, [*version.methods.values()]),
    }


def _schema(version: Version, definitions: Json, of: str) -> Json:
    return {
        "$schema": DIALECT,
        "title": f"Agent Client Protocol, version {version.number}",
        "description": f"One message of the protocol, from either side{of}",
        "anyOf": [_message(side) for side in ("Agent", "Client")] + [_protocol_message(version)],
        "$defs": definitions,
    }


def _methods(version: Version, methods: Sequence[Method], but: Sequence[Feature] = ()) -> Json:
    gone = {member for feature in but for member in feature.members}
    return {
        "protocolVersion": version.number,
        "methods": {method.name: _row(method) for method in methods},
        "memberCapabilities": {
            union: {tag: capability for tag, capability in tags.items() if f"{union}.{tag}" not in gone}
            for union, tags in version.members.items()
        },
    }


def _stable_methods(version: Version) -> list[Method]:
    unstable = {name for feature in _unstable() for name in feature.methods}
    return [method for name, method in version.methods.items() if name not in unstable]


def _unstable() -> list[Feature]:
    return [feature for feature in FEATURES.values() if feature.state == "unstable"]


def stable(version: Version, definitions: Mapping[str, Json]) -> dict[str, Json]:
    """Return the definitions without the types, members and methods of unstable features."""
    return without(_unstable(), definitions) | _envelopes(version, _stable_methods(version))


def without(features: Sequence[Feature], definitions: Mapping[str, Json]) -> dict[str, Json]:
    """Return the definitions without the types of these features and without the features' members of other types."""
    types = {name for feature in features for name in feature.types}
    gone = {_ref(name)["$ref"] for name in types}
    members: dict[str, set[str]] = {}
    for place in (member for feature in features for member in feature.members):
        name, _, key = place.partition(".")
        members.setdefault(name, set()).add(key)
    return {
        name: _left(definition, gone, members[name]) if name in members else definition
        for name, definition in definitions.items()
        if name not in types
    }


def _left(part: Any, gone: set[str], members: set[str]) -> Any:
    """Return a definition without these properties, tags and enum values, and without references to the types in
    `gone`."""
    if isinstance(part, list):
        listed = cast("list[Any]", part)
        return [_left(each, gone, members) for each in listed if not (isinstance(each, dict) and _refers(each, gone))]
    if not isinstance(part, dict):
        return part
    kept = dict(cast("Json", part))
    if "properties" in kept:
        kept["properties"] = {key: value for key, value in kept["properties"].items() if key not in members}
    if "enum" in kept:
        kept["enum"] = [word for word in kept["enum"] if word not in members]
    return {key: _left(value, gone, members) for key, value in kept.items()}


def _refers(part: Any, gone: set[str]) -> bool:
    return part.get("$ref") in gone


def definitions(version: Version = V1) -> dict[str, Json]:
    """Return the JSON Schema of every type, by name, with references of the form `#/$defs/Name`."""
    types = dict(_types(version.package))
    _, written = TypeAdapter.json_schemas(
        [(name, "validation", TypeAdapter[Any](kind)) for name, kind in types.items()],
        ref_template=REF + "{model}",
        schema_generator=_Generator,
    )
    found = {name: _tidied(definition) for name, definition in written["$defs"].items()}
    for name, definition in found.items():
        kind = types[name]
        definition["description"] = _docstrings(kind.__module__)[name]
        if isinstance(kind, type):
            _complete(cast("type[Record]", kind), definition)
    for method in version.methods.values():
        for name in (method.params, method.result):
            if name is not None:
                found[name] |= {"x-method": method.name, "x-side": SIDES[method.receiver]}
    return (
        found
        | {name: {"description": text} for name, text in EXTENSIONS.items()}
        | _envelopes(version, [*version.methods.values()])
    )


class _Generator(GenerateJsonSchema):
    """Pydantic's generator without the titles that it derives from names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _types(package: ModuleType) -> Iterator[tuple[str, Any]]:
    for name in filter(package.area_of, dir(package)):
        kind = getattr(package, name)
        if isinstance(kind, TypeAliasType) or (
            isinstance(kind, type) and issubclass(kind, Record) and not issubclass(kind, Unknown) and kind not in BASES
        ):
            yield name, kind


def _tidied(definition: Json) -> Json:
    """Return a generated definition without meaningless members, and with every required member in `required`."""
    definition = dict(definition)
    definition.pop("title", None)
    if "oneOf" in definition and "discriminator" not in definition:
        definition["anyOf"] = definition.pop("oneOf")  # an empty list matches both members
    if "anyOf" in definition:  # pydantic inlines a member with its name as title
        definition["anyOf"] = [_ref(member["title"]) if "title" in member else member for member in definition["anyOf"]]
    if "properties" in definition:
        definition.pop("additionalProperties", None)
        required = set(definition.get("required", ()))
        for key, value in definition["properties"].items():
            if value.pop("x-required", False):
                required.add(key)
            if value.pop("x-of-python", False) or value.get("default", ...) is None or "const" in value:
                value.pop("default", None)
            if "x-default" in value:
                value["default"] = value.pop("x-default")
        definition["required"] = sorted(required)
        if not required:
            del definition["required"]
    return definition


def _complete(cls: type[Record], definition: Json) -> None:
    """Add to the properties of a class the parts that pydantic does not know: descriptions, and generated defaults."""
    properties: dict[str, Json] = definition.get("properties", {})
    for key, name in attributes(cls).items():
        if key not in properties:
            continue
        field = cls.model_fields[name]
        if field.default_factory is not None:
            made = field.get_default(call_default_factory=True, validated_data={})
            properties[key]["default"] = made.to_wire() if isinstance(made, Record) else made
        if (text := meaning_of(cls, name)) is not None:
            properties[key]["description"] = text


def meaning_of(cls: type[Record], name: str) -> str | None:
    """Return the description of a field, which is the docstring below it in the source."""
    bases = [base for base in cls.__mro__ if issubclass(base, Record)]
    texts = (_docstrings(base.__module__).get(f"{base.__name__}.{name}") for base in bases)
    return next(filter(None, texts), None)


@cache
def _docstrings(module: str) -> dict[str, str]:
    """Return the docstrings of a module: of classes and aliases by `Name`, of attributes by `Name.attribute`."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    found = dict(_strings_below(tree.body))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = ast.get_docstring(node) or ""
            found.update((f"{node.name}.{name}", text) for name, text in _strings_below(node.body))
    return found


def _strings_below(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node, below in pairwise(body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield target.id, inspect.cleandoc(str(below.value.value))


def _ref(name: str) -> Json:
    return {"$ref": REF + name}


def _row(method: Method) -> Json:
    row: Json = {"receiver": method.receiver, "params": method.params, "result": method.result}
    return {**row, "kind": "request" if method.is_request else "notification", "capability": method.capability}


def _envelopes(version: Version, methods: Sequence[Method]) -> dict[str, Json]:
    """Return the definitions of requests, notifications and responses, by their sender."""
    found: dict[str, Json] = {}
    for sender, receiver in (("Agent", "client"), ("Client", "agent")):
        sent = [method for method in methods if method.receiver == receiver]
        answered = [method.result for method in methods if method.receiver == sender.lower() and method.result]
        requests = [method.params for method in sent if method.is_request]
        notifications = [method.params for method in sent if not method.is_request]
        found[f"{sender}Request"] = {
            "description": f"A request of the {sender.lower()}.",
            **_call([*requests, "ExtRequest"], {"id": _ref("RequestId")}),
        }
        found[f"{sender}Notification"] = {
            "description": f"A notification of the {sender.lower()}.",
            **_call([*notifications, "ExtNotification"], {}),
        }
        found[f"{sender}Response"] = {
            "description": f"An answer of the {sender.lower()}: a result or an error.",
            "anyOf": [
                _object(
                    {"id": _ref("RequestId"), "result": {"anyOf": [_ref(name) for name in [*answered, "ExtResponse"]]}}
                ),
                _object({"id": version.error_id, "error": _ref("Error")}),
            ],
        }
    return found


def _object(properties: Json, optional: Json | None = None) -> Json:
    return {"type": "object", "properties": properties | (optional or {}), "required": sorted(properties)}


def _call(params: Sequence[str], always: Json) -> Json:
    return _object(
        {**always, "method": {"type": "string"}},
        {"params": {"anyOf": [*(_ref(name) for name in params), {"type": "null"}]}},
    )


def _message(side: str) -> Json:
    version: Json = {"const": "2.0", "type": "string"}
    return {
        **_object({"jsonrpc": version}),
        "anyOf": [_ref(side + kind) for kind in ("Request", "Response", "Notification")],
    }


def _protocol_message(version: Version) -> Json:
    names = [method.params for method in version.methods.values() if method.receiver == "both"]
    return _call(names, {"jsonrpc": {"const": "2.0", "type": "string"}})


def _text(document: Json) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _texts(directory: Path, *, only_stable: bool = False) -> dict[Path, str]:
    return {
        directory / f"v{version.number}" / name: _text(document)
        for version in VERSIONS
        for name, document in documents(version).items()
        if not (only_stable and "unstable" in name)
    }


def stale(directory: Path, *, only_stable: bool = False) -> list[Path]:
    """Return the files under `directory` that differ from the types, and files that should not exist."""
    wanted = _texts(directory, only_stable=only_stable)
    wrong = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    present = [path for version in VERSIONS for path in sorted((directory / f"v{version.number}").glob("*"))]
    return wrong + [path for path in present if path not in wanted]


def write(directory: Path, *, only_stable: bool = False) -> None:
    """Write every file, and remove files that should not exist."""
    for path in stale(directory, only_stable=only_stable):
        path.unlink(missing_ok=True)
    for path, text in _texts(directory, only_stable=only_stable).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns exit status 1 if `--check` finds a stale file, whose name is printed on standard
    error."""
    parser = argparse.ArgumentParser(prog="python -m acp_server.schema.export", description="Write the JSON Schemas.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is stale")
    parser.add_argument("--stable", action="store_true", help="only the files without unstable features")
    parser.add_argument("directories", type=Path, nargs="+", help="where the files are, such as protocol_schemas")
    options = parser.parse_args(arguments)
    if not options.check:
        for directory in options.directories:
            write(directory, only_stable=options.stable)
        return 0
    found = [path for directory in options.directories for path in stale(directory, only_stable=options.stable)]
    for path in found:
        sys.stderr.write(f"stale: {path}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

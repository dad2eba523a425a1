"""The published schemas of the protocol, and their JSON values, ids, methods and capabilities.

Each function takes the version of the protocol, so another version can be judged as soon as its schema files are added.

This module looks at single values. `checker` and `meaning` check a message against earlier messages of its
conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

FOLDERS = Path(__file__).with_name("schemas")
"""Generated files, which are not edited by hand."""

JsonId = int | str | None

KEPT = 1_000
"""The most values whose validity is remembered."""

_LONGEST_KEPT = 10_000
"""The most characters of such a value."""


class NotJson(ValueError):
    """Raised for text that is not JSON. `NaN` and `Infinity`, which Python would accept, are not JSON."""


def parse(line: bytes | str) -> Any:
    """Return the JSON value of a line.

    Raises:
     UnicodeDecodeError: The line is not UTF-8.
     NotJson: The line is not JSON.
    """
    text = line.decode("utf-8") if isinstance(line, bytes) else line
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise NotJson("nested too deeply to be read") from error
    except ValueError as error:
        raise NotJson(str(error)) from error


def encoded(message: object) -> bytes:
    """Return a JSON value as bytes. Surrogates, which UTF-8 cannot encode, are written as escapes."""
    try:
        return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode()


def same_id(left: object, right: object) -> bool:
    """Whether two ids are the same JSON value. 1, "1", 1.0 and true are four different ids."""
    return type(left) is type(right) and left == right


@cache
def methods(version: int = 1) -> Mapping[str, Mapping[str, Any]]:
    """Return the methods of a version of the protocol by name: `kind`, `receiver`, `params`, `result`, `capability`."""
    return json.loads((FOLDERS / f"v{version}" / "methods.json").read_text("utf-8"))["methods"]


@cache
def member_capabilities(version: int = 1) -> Mapping[str, Mapping[str, str]]:
    """Return the capabilities that members of a union need, by the name of the union and the tag of the member."""
    return json.loads((FOLDERS / f"v{version}" / "methods.json").read_text("utf-8"))["memberCapabilities"]


@cache
def _definitions(version: int) -> Mapping[str, Any]:
    return json.loads((FOLDERS / f"v{version}" / "schema.json").read_text("utf-8"))["$defs"]


def resolved(schema: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    """Return a schema, or the target of its reference."""
    ref = schema.get("$ref")
    return schema if ref is None else _definitions(version)[ref.removeprefix("#/$defs/")]


def tagged(choices: Any, instance: Any, version: int) -> list[Mapping[str, Any]]:
    """Return the types among `choices` whose constant members, such as `type`, have the same values in the instance."""
    if not isinstance(instance, dict):
        return []
    found: list[Mapping[str, Any]] = []
    for choice in choices:
        properties = resolved(choice, version).get("properties", {})
        tags = {name: each["const"] for name, each in properties.items() if "const" in each}
        if tags and all(name in instance and instance[name] == tag for name, tag in tags.items()):
            found.append(choice)
    return found


_Errors = Iterator[jsonschema.ValidationError]


@cache
def _validators(version: int) -> Any:
    """Return the class of the validators for a version of the protocol."""

    def ref(validator: Any, ref: str, instance: object, schema: object) -> _Errors:
        yield from validator.descend(instance, resolved({"$ref": ref}, version))

    def union(keyword: str) -> Any:
        """Validate a union as the standard does. If a constant member of the value names a choice, report only the
        errors of that choice."""
        standard = jsonschema.Draft202012Validator.VALIDATORS[keyword]

        def check(validator: Any, choices: Any, instance: Any, schema: Any) -> _Errors:
            if len(named := tagged(choices, instance, version)) != 1:
                yield from standard(validator, choices, instance, schema)
                return
            errors = list(validator.descend(instance, named[0]))
            others = (each for each in choices if each is not named[0])
            if errors and not any(fits(each, instance, version) for each in others):
                yield from errors

        return check

    return extend(
        # All references of a schema are to its own definitions: resolving them as addresses takes a third of the time.
        jsonschema.Draft202012Validator,
        {"$ref": ref, "oneOf": union("oneOf"), "anyOf": union("anyOf")},
    )


@cache
def _validator(name: str, version: int) -> Any:
    return _validators(version)(_definitions(version)[name])


def fits(schema: Mapping[str, Any], value: Any, version: int) -> bool:
    """Whether `value` fits a schema."""
    return _validators(version)(schema).is_valid(value)


def errors_of(name: str, value: Any, version: int = 1) -> str:
    """Return the most informative fault of `value` as the type `name` of the schema; empty if there is no fault."""
    text = text_of(value)
    return _errors(name, value, version) if text is None else _errors_of_text(name, text, version)


def text_of(value: Any) -> str | None:
    """Return `value` as a key for known results; None if the text is too long to keep.

    Conversations begin with the same messages, so most values of a run have been checked before.
    """
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return None
    return text if len(text) <= _LONGEST_KEPT else None


@lru_cache(KEPT)
def _errors_of_text(name: str, text: str, version: int) -> str:
    return _errors(name, json.loads(text), version)


def _errors(name: str, value: Any, version: int) -> str:
    error = best_match(_validator(name, version).iter_errors(value))
    if error is None:
        return ""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    message = error.message if len(error.message) <= 200 else error.message[:200] + "..."
    return f"{where.lstrip('.') or 'it'}: {message}"


def announced(capabilities: Mapping[str, Any], path: str) -> bool:
    """Whether a capability such as `fs.readTextFile` is announced: present, not null and not false."""
    value: Any = capabilities
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value is not None and value is not False


def _refuse(constant: str) -> Any:
    raise NotJson(f"{constant} is not JSON")

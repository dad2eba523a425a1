"""What a tool takes, as a JSON Schema from elsewhere says it: from a server of tools, or a file.

Its patterns are matched in bounded time, and a bounded number of its references is followed: either could block the
event loop for hours. jsonschema matches patterns with Python's `re`, which has no bound. It follows every reference:
thirty definitions of which each refers twice to the next are a thousand million. What is here takes the place of those
keywords.
"""

from __future__ import annotations

import inspect
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any, Final, cast

import regex
from jsonschema import ValidationError, validators
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from acp_server.errors import InvalidParams, UsageError
from acp_server.schema.reading import place_of
from acp_server.tools.parameters import name_of

_SECONDS: Final = 0.1
"""For all matches of one check together."""

_LONGEST: Final = 1_000
"""Characters of a pattern."""

_LARGEST: Final = 100_000
"""Characters of one whose counted repeats are written out, as compiling it does: they take some 30 MB."""

_COUNT: Final = re.compile(r"\{\s*(\d{0,9})\s*,?\s*(\d{0,9})")
_RECURSION: Final = re.compile(r"\(\?(?:R|[0-9+-]|&|P>)")
"""It may take memory without end, faster than any time limit."""

_MOST_FOLLOWED: Final = 20_000
"""References that are followed in one check: half a second. A tree of arguments needs one for each of its nodes."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED: Final = frozenset({"pattern", "patternProperties", *_REFERENCES})


class TooMuch(Exception):
    """A check takes too long. The text says why."""


class Bounds:
    """Those of the checks of one schema. A pattern that cannot be read here, or is too large, lets everything pass: who
    wrote the schema checks as well."""

    def __init__(self) -> None:
        self._compiled: dict[str, regex.Pattern[str] | None] = {}
        self._deadline = 0.0
        self._followed = 0

    def validator(self, kind: Any, schema: Any, **options: Any) -> Any:
        """A validator of a schema, of a class made from `kind`; of `kind` itself if the schema has neither patterns nor
        references."""
        if not _has_named(schema):
            return kind(schema, **options)
        additional = kind.VALIDATORS.get("additionalProperties")

        def additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if isinstance(instance, dict) and (patterns := schema.get("patternProperties")):
                names = cast("dict[str, Any]", instance)
                found = {name: True for name in names if any(self._found(pattern, name) for pattern in patterns)}
                schema = {"properties": {**found, **schema.get("properties", {})}}
            yield from additional(validator, allowed, instance, schema)

        keywords = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": additional_properties,
            # They would match the patterns, and follow the references, by themselves again.
            "unevaluatedProperties": _anything,
            "unevaluatedItems": _anything,
            **{name: self._counted(kind.VALIDATORS.get(name)) for name in _REFERENCES},
        }
        keywords = {name: check for name, check in keywords.items() if name in kind.VALIDATORS}
        bounded = cast("Any", validators).extend(kind, keywords)
        return bounded(_in_one_dialect(schema), **options)

    def begin(self) -> None:
        """A check begins. It raises TooMuch if the matches in it take too long together, or if it follows too many
        references."""
        self._deadline = time.monotonic() + _SECONDS
        self._followed = 0

    def _counted(self, follow: Any) -> Any:
        def reference(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._followed += 1
            if self._followed > _MOST_FOLLOWED:
                raise TooMuch("the references of the schema take too long to follow")
            yield from follow(validator, target, instance, schema) or ()

        return reference

    def _pattern(self, _validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not self._found(pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def _pattern_properties(self, validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            for pattern, schema in patterns.items():
                if self._regex(pattern) is None:
                    continue
                for name, value in cast("dict[str, Any]", instance).items():
                    if self._found(pattern, name):
                        yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def _found(self, pattern: str, text: str) -> bool:
        compiled = self._regex(pattern)
        left = self._deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            return compiled is None or compiled.search(text, timeout=left) is not None
        except TimeoutError:
            raise TooMuch("a pattern of the schema takes too long to match") from None

    def _regex(self, pattern: str) -> regex.Pattern[str] | None:
        if pattern not in self._compiled:
            self._compiled[pattern] = _compile(pattern)
        return self._compiled[pattern]


def _anything(_validator: Any, _given: Any, _instance: Any, _schema: Any) -> Iterator[Any]:
    yield from ()


def _has_named(schema: Any) -> bool:
    left = [schema]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            if _NAMED & named.keys():
                return True
            left += named.values()
        elif isinstance(value, list):
            left += cast("list[Any]", value)
    return False


def _in_one_dialect(schema: Any) -> Any:
    """The schema without `$schema`, for which jsonschema would take one of its own classes inside of ours."""
    if isinstance(schema, list):
        return [_in_one_dialect(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema).items()
    return {name: _in_one_dialect(part) for name, part in parts if name != "$schema" or not isinstance(part, str)}


def _compile(pattern: str) -> regex.Pattern[str] | None:
    counts = [max(int(least or 1), int(most or 1)) for least, most in _COUNT.findall(pattern)]
    if len(pattern) > _LONGEST or len(pattern) * math.prod(counts) > _LARGEST or _RECURSION.search(pattern):
        return None
    try:
        # Not cached: the pattern belongs to this schema.
        return regex.compile(pattern, cache_pattern=False)
    except (regex.error, RecursionError):
        return None


_ARGUMENTS: Final = "arguments"
"""The one parameter of the function that gets them."""

_PROBLEMS: Final = 20
"""How many problems a model is told of at once."""

_NO_OTHERS: Final[Any] = cast("Any", Registry)()

_MESSAGE: Final = 300
"""Characters of one of them, and of its place: they repeat what does not fit, and the names around it."""


class SchemaParameters:
    """See `acp_server.tools.tool.Arguments`. References in the schema are followed inside of it, and nowhere else.

    Raises UsageError for what is not a schema of an object, and for a function without a parameter `arguments`.
    """

    def __init__(self, function: Callable[..., Any], schema: Mapping[str, Any]) -> None:
        if not callable(function) or _ARGUMENTS not in inspect.signature(function).parameters:
            raise UsageError(f"{name_of(function)} gets what a schema describes as `{_ARGUMENTS}`, and must take that")
        # A copy: what was checked is what is told.
        self._schema = deepcopy(dict(schema))
        if self._schema.setdefault("type", "object") != "object":
            raise UsageError(f"the arguments of a tool are an object, not {self._schema['type']!r}")
        kind = validator_for(self._schema, default=Draft202012Validator)
        try:
            kind.check_schema(self._schema)
        except SchemaError as error:
            raise UsageError(f"this is not a JSON Schema: {error.message}") from error
        # Without this registry it would fetch what a schema refers to from the network.
        self._bounds = Bounds()
        self._validator: Any = self._bounds.validator(kind, self._schema, registry=_NO_OTHERS)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The schema."""
        return deepcopy(self._schema)

    def read(self, params: Any) -> dict[str, Any]:
        """See `Arguments.read`."""
        arguments: Any = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else params
        self._bounds.begin()
        try:
            problems = [_told(error) for error in islice(self._validator.iter_errors(arguments), _PROBLEMS)]
        except Unresolvable as error:
            problems = [{"path": "", "message": f"the schema refers to what is not in it: {error.ref}"[:_MESSAGE]}]
        except TooMuch as error:
            problems = [{"path": "", "message": str(error)}]
        except RecursionError:
            problems = [{"path": "", "message": "too deeply nested"}]
        if problems:
            raise InvalidParams(data={"problems": problems})
        return {_ARGUMENTS: arguments}


def _told(error: ValidationError) -> dict[str, str]:
    return {"path": place_of(error.absolute_path)[:_MESSAGE], "message": error.message[:_MESSAGE]}

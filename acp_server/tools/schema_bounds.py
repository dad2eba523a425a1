"""Checks values against an untrusted JSON Schema in bounded time, for any schema and any value.

jsonschema follows every reference, compares each item of a list with each other item, collects the errors of each
alternative, matches patterns with Python's `re`, and quotes whole values in its messages. This module counts the steps
of a check, and replaces the keywords whose steps may take long.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, Final, cast

import regex
from jsonschema import ValidationError, validators
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
from referencing import Registry
from referencing.jsonschema import specification_with

from acp_server.tools.patterns import unrolled_length

_STEPS: Final = 1_000_000
"""The most steps of one check, about a second. A keyword takes one step, plus one for each member of the schema and of
the value that it visits."""

_STEPS_OF_AN_ERROR: Final = 5

_SECONDS: Final = 0.1
"""The most seconds for one match. Each microsecond of a match counts as a step."""

_LONGEST: Final = 1_000
"""The most characters of a pattern."""

_LARGEST: Final = 100_000
"""The most characters of a pattern with its counted repeats unrolled, as in its compiled form, which then takes some 30
MB."""

_COUNT: Final = re.compile(r"\{\s*(\d{0,9})\s*,?\s*(\d{0,9})")
_RECURSION: Final = re.compile(r"\(\?(?:R|[0-9+-]|&|P>)")
"""A recursive pattern may take unbounded memory before a time limit ends it."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MOST_FOLLOWED: Final = 20_000
"""The most references that one check follows, about half a second. A tree of arguments needs one for each node."""

_DEEPEST: Final = 150
"""The deepest nesting of keywords. Python's recursion limit is only slightly higher, and a native library that reaches
it panics instead of raising."""

_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
"""These keywords follow references and match patterns a second time, and compare each name with each other name."""

_WALKS: Final = frozenset(
    {
        *("items", "prefixItems", "additionalItems", "contains", *_UNEVALUATED),
        *("additionalProperties", "patternProperties", "propertyNames"),
    }
)
"""Keywords that visit each member of a value."""

_OWN_WAYS: Final = frozenset({"pattern", "patternProperties", *_REFERENCES})

Check = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]
"""Implements a keyword. It gets the validator, the value of the keyword in the schema, the value to check, and the
schema."""


class TooMuch(Exception):
    """Raised if a check takes too long. The text has the reason."""


class _Left(threading.local):
    """The remaining steps and references of the check that runs in this thread, and its depth."""

    steps = 0
    references = 0
    depth = 0


class Bounds:
    """The bounds for the checks of one schema. If a pattern does not compile here or is too large, it accepts every
    text, because the author of the schema checks the text as well."""

    def __init__(self) -> None:
        self._compiled: dict[str, regex.Pattern[str] | None] = {}
        self._constants: dict[int, tuple[Any, frozenset[Any]]] = {}
        self._left = _Left()

    def validator(self, kind: Any, schema: Any, **options: Any) -> Any:
        """Return a validator for a schema. Its class is made from `kind`."""
        own: dict[str, Check] = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties(kind.VALIDATORS.get("additionalProperties")),
            "enum": self._enum,
            "const": self._const,
            "uniqueItems": self._unique_items,
            "anyOf": self._any_of,
            "oneOf": self._one_of,
            "items": _items(kind.VALIDATORS.get("items")),
            **{name: _exactly(kind.VALIDATORS.get(name)) for name in ("multipleOf", "divisibleBy")},
        }
        if _has_key(schema, _OWN_WAYS):
            own |= dict.fromkeys(_UNEVALUATED, _anything)
        checks = {name: self._counted(name, own.get(name, check)) for name, check in kind.VALIDATORS.items()}
        return cast("Any", validators).extend(kind, checks)(_in_one_dialect(schema), **options)

    def begin(self, value: Any, steps: int = _STEPS) -> Any:
        """Begin a check of `value` in this thread. Returns an equal value to check instead; messages quote only the
        beginning of that value. This call and the check raise TooMuch when the bounds are exceeded."""
        self._left.steps = steps
        self._left.depth = 0
        self._left.references = _MOST_FOLLOWED * steps // _STEPS
        return self._quoted_in_short(value)

    def _take(self, steps: int) -> None:
        self._left.steps -= steps
        if self._left.steps < 0:
            raise TooMuch("checking the arguments against the schema takes too long")

    def _follow(self) -> None:
        self._left.references -= 1
        if self._left.references < 0:
            raise TooMuch("following the references of the schema takes too long")

    def _counted(self, name: str, check: Any) -> Check:
        follows, walks, squares = name in _REFERENCES, name in _WALKS, name in _UNEVALUATED

        def counted(validator: Any, says: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            if follows:
                self._follow()
            members = _members(instance) if walks else 0
            self._take(1 + _members(says) + members + (members * members // 100 if squares else 0))
            self._left.depth += 1
            if self._left.depth > _DEEPEST:
                raise TooMuch("the arguments or their schema are nested too deeply")
            try:
                for error in check(validator, says, instance, schema) or ():
                    self._take(_STEPS_OF_AN_ERROR + len(error.message) // 100)
                    yield error
            finally:
                self._left.depth -= 1

        return counted

    # -- values

    def _quoted_in_short(self, value: Any) -> Any:
        """Return an equal value whose `repr` is only its beginning, so that messages stay short."""
        if isinstance(value, str):
            return value if len(value) <= _QUOTED else _Text(value)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            self._take(1 + len(items) // 10)
            return _Items(map(self._quoted_in_short, items))
        if isinstance(value, dict):
            members = cast("dict[Any, Any]", value)
            self._take(1 + len(members) // 10)
            return _Members((self._quoted_in_short(name), self._quoted_in_short(of)) for name, of in members.items())
        return value

    def _same(self, value: Any) -> Any:
        """Return a hashable form of a value. It is equal for values that JSON Schema considers equal. A value cannot be
        crafted to collide, because texts are hashed with a secret and numbers are hashed as text."""
        self._take(1)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return tuple(map(self._same, cast("list[Any]", value)))
        if isinstance(value, dict):
            return frozenset((name, self._same(of)) for name, of in cast("dict[Any, Any]", value).items())
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return (None, value)
        return (int, hex(int(value)) if not isinstance(value, float) or value.is_integer() else repr(value))

    # -- keywords

    def _constants_of(self, values: list[Any]) -> frozenset[Any]:
        if id(values) not in self._constants:
            self._constants[id(values)] = (values, frozenset(map(self._same, values)))
        return self._constants[id(values)][1]

    def _enum(self, _validator: Any, values: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if self._same(instance) not in self._constants_of(values):
            yield ValidationError(f"{instance!r} is not one of {values!r}")

    def _const(self, _validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        # Compared by kind first: most values are texts and numbers, and differ from a list or an object at once.
        if isinstance(value, (list, dict)) != isinstance(instance, (list, dict)) or self._same(value) != self._same(
            instance
        ):
            yield ValidationError(f"{value!r} was expected")

    def _unique_items(self, _validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if unique and isinstance(instance, list):
            items = cast("list[Any]", instance)
            if len(set(map(self._same, items))) < len(items):
                yield ValidationError(f"{items!r} has non-unique elements")

    def _any_of(self, validator: Any, schemas: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if not any(_fits(validator, instance, each) for each in schemas):
            yield ValidationError(f"{instance!r} is not valid under any of the given schemas")

    def _one_of(self, validator: Any, schemas: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        fitting = list(islice((each for each in schemas if _fits(validator, instance, each)), 2))
        if not fitting:
            yield ValidationError(f"{instance!r} is not valid under any of the given schemas")
        elif len(fitting) > 1:
            yield ValidationError(f"{instance!r} is valid under each of {fitting[1]!r}, {fitting[0]!r}")

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

    def _additional_properties(self, check: Any) -> Check:
        def additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if not isinstance(instance, dict):
                return
            members = cast("dict[str, Any]", instance)
            known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
            others = (
                name
                for name in members
                if name not in known and not any(self._found(pattern, name) for pattern in patterns)
            )
            if allowed is False:
                # The check sorts all of them for a message that quotes a few.
                others = islice(others, _QUOTED_MEMBERS)
            yield from check(validator, allowed, {name: members[name] for name in others}, {})

        return additional_properties

    def _found(self, pattern: str, text: str) -> bool:
        compiled = self._regex(pattern)
        if compiled is None:
            return True
        begun = time.perf_counter()
        try:
            return compiled.search(text, timeout=_SECONDS, concurrent=True) is not None
        except (TimeoutError, MemoryError):
            raise TooMuch("matching a pattern of the schema takes too long") from None
        finally:
            self._take(int((time.perf_counter() - begun) * 1_000_000))

    def _regex(self, pattern: str) -> regex.Pattern[str] | None:
        if pattern not in self._compiled:
            self._compiled[pattern] = _compile(pattern)
        return self._compiled[pattern]


# -- what messages quote

_QUOTED: Final = 1_000
"""The most characters of a text in a message."""

_QUOTED_MEMBERS: Final = 20


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self[:_QUOTED])


class _Items(list[Any]):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, islice(self, _QUOTED_MEMBERS)))}]"


class _Members(dict[Any, Any]):
    __slots__ = ()

    def __repr__(self) -> str:
        members = islice(self.items(), _QUOTED_MEMBERS)
        return f"{{{', '.join(f'{name!r}: {value!r}' for name, value in members)}}}"


# -- schemas


def _members(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, (list, dict)) else 0


def _anything(_validator: Any, _says: Any, _instance: Any, _schema: Any) -> Iterator[ValidationError]:
    yield from ()


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _items(check: Any) -> Check:
    """Make the keyword `items`. If no further item is allowed, it checks only a few items, because the message quotes
    all of them."""

    def items(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if allowed is False and isinstance(instance, list):
            instance = _Items(cast("list[Any]", instance)[: len(schema.get("prefixItems", ())) + _QUOTED_MEMBERS])
        yield from check(validator, allowed, instance, schema) or ()

    return items


def _exactly(check: Any) -> Check:
    """Make the keyword `multipleOf`. It uses fractions if the quotient is larger than any float."""

    def multiple_of(validator: Any, of: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        try:
            yield from check(validator, of, instance, schema)
        except OverflowError:
            if (Fraction(instance) / Fraction(of)).denominator != 1:
                yield ValidationError(f"{instance!r} is not a multiple of {of}")

    return multiple_of


def _has_key(schema: Any, names: frozenset[str]) -> bool:
    left = [schema]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            if names & named.keys():
                return True
            left += named.values()
        elif isinstance(value, list):
            left += cast("list[Any]", value)
    return False


def _in_one_dialect(schema: Any) -> Any:
    """Return the schema without `$schema`, which would make jsonschema replace this module's validator class by its
    own."""
    if isinstance(schema, list):
        return [_in_one_dialect(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema).items()
    return {name: _in_one_dialect(part) for name, part in parts if name != "$schema" or not isinstance(part, str)}


@cache
def _of_schemas() -> Any:
    """Return the metaschemas, each without `$schema`, see `_in_one_dialect`."""
    registry: Any = cast("Any", Registry)()
    for uri in cast("Any", REGISTRY):
        contents = cast("Any", REGISTRY)[uri].contents
        resource = specification_with(contents["$schema"]).create_resource(_in_one_dialect(contents))
        registry = registry.with_resource(uri, resource)
    return registry.crawl()


def schema_problem(kind: Any, schema: Any, steps: int) -> str | None:
    """Return the reason why `schema` is not valid for this validator class; None if it is valid."""
    bounds = Bounds()
    validator = bounds.validator(kind, kind.META_SCHEMA, registry=_of_schemas())
    try:
        error = next(validator.iter_errors(bounds.begin(schema, steps)), None)
    except TooMuch:
        return "it takes too long to be checked"
    return None if error is None else error.message


def _compile(pattern: str) -> regex.Pattern[str] | None:
    counts = [max(int(least or 1), int(most or 1)) for least, most in _COUNT.findall(pattern)]
    if len(pattern) > _LONGEST or len(pattern) * math.prod(counts) > _LARGEST or _RECURSION.search(pattern):
        return None
    if unrolled_length(pattern) > _LARGEST:
        return None
    try:
        # Not cached: the pattern belongs to this schema.
        return regex.compile(pattern, cache_pattern=False)
    except (regex.error, ValueError, RecursionError):
        return None

"""Validators for the types of authors. A validator stops at the first wrong item, like the validators of the protocol's
types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, Final, cast

from pydantic_core import CoreSchema, SchemaValidator

from acp_server.schema.base import NO_SCHEMAS, Record, first_problem

_building: Final = Lock()


def check_of(schema: CoreSchema) -> SchemaValidator:
    """Return a validator for this pydantic schema that stops at the first wrong item of a collection."""
    # pydantic reuses the validator of a complete class, which does not stop at the first wrong item. So the classes in
    # the schema are marked incomplete while the validator is built.
    with _building:
        complete = [cls for cls in _classes(schema) if cls.__dict__.get("__pydantic_complete__")]
        try:
            for cls in complete:
                cls.__pydantic_complete__ = False
            return SchemaValidator(first_problem(schema))
        finally:
            for cls in complete:
                cls.__pydantic_complete__ = True


def _classes(schema: Any) -> Iterable[Any]:
    """Return the classes in a schema that may already have a validator, except the protocol's classes."""
    if isinstance(schema, (list, tuple)):
        return chain.from_iterable(map(_classes, cast("Sequence[Any]", schema)))
    if not isinstance(schema, dict):
        return ()
    fields = cast("dict[str, Any]", schema)
    kind = fields.get("type")
    if not isinstance(kind, str):  # a table of fields or choices, as in `first_problem`
        return chain.from_iterable(map(_classes, fields.values()))
    cls = fields.get("cls") if kind in ("model", "dataclass", "typed-dict") else None
    own = () if cls is None or issubclass(cls, Record) else (cls,)
    return chain(own, *(_classes(each) for key, each in fields.items() if key not in NO_SCHEMAS))


__all__ = ["check_of"]

"""Notes beside a type: what a receiver forgives in a field, what the error of a union says.

Strictness in one place, tolerance in another: validation ignores `Wire`, so it costs nothing while a
message is well formed and code that builds a wrong object hears of it. Only `acp_server.schema.forgive`
acts on it, when a received message has failed; the exported JSON Schema shows it under the keys that ACP
publishes.
"""

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wire:
    """The notes on one field."""

    required: bool = False
    """Part of every message although Python code may leave it to its default."""
    on_error: bool = False
    """A value of the wrong shape counts as absent (`x-deserialize-default-on-error`)."""
    skip_items: bool = False
    """Items of the wrong shape are left out of the list (`x-deserialize-skip-invalid-items`)."""
    on_null: bool = False
    """Null counts as absent (`x-deserialize-default-on-null`)."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Write the notes into the JSON Schema of the field; `x-required` is for the exporter alone."""
        notes = {
            "x-required": self.required,
            "x-deserialize-default-on-error": self.on_error,
            "x-deserialize-skip-invalid-items": self.skip_items,
            "x-deserialize-default-on-null": self.on_null,
        }
        return {**handler(schema), **{key: True for key, value in notes.items() if value}}


Lenient: TypeAlias = Annotated[T, Wire(on_error=True)]
"""A wrong value counts as absent."""
LenientItems: TypeAlias = Annotated[T, Wire(on_error=True, skip_items=True)]
"""Wrong items are left out; a wrong list counts as absent."""
NullIsDefault: TypeAlias = Annotated[T, Wire(on_null=True)]
"""Null counts as absent."""
Sent: TypeAlias = Annotated[T, Wire(required=True)]
"""Has a default in Python and is written all the same, because the protocol requires it."""


@dataclass(frozen=True, slots=True)
class Expect:
    """One error for a union of plain values, in place of one for each of its members."""

    what: str
    """What the error says was expected."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="expected", custom_error_message=f"Input should be {self.what}"
        )

"""The form of an elicitation: a small part of JSON Schema, one property a field (protocol: elicitation)."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, LenientItems, Model, Sent, Unknown
from acp_server.schema.types import Bool, Double, Int64, UInt32, UInt64
from acp_server.schema.unions import OpenEnum, Tagged

ElicitationSchemaType = TypeAliasType("ElicitationSchemaType", Annotated[Literal["object"] | str, OpenEnum()])
"""The type of a form: always `object`."""

StringFormat = TypeAliasType("StringFormat", Annotated[Literal["email", "uri", "date", "date-time"] | str, OpenEnum()])
"""What the text of a field has to be."""


class EnumOption(Model):
    """A value to choose, with a title."""

    const: str
    """The value."""
    title: str
    """What the user sees."""
    description: Lenient[str | None] = None
    """A few words on what it means."""


class _Property(Model):
    """What every field of a form has."""

    title: Lenient[str | None] = None
    """Its label."""
    description: Lenient[str | None] = None
    """A few words on what to enter."""


class StringPropertySchema(_Property):
    """A text field, or with `enum` or `one_of` a choice of one."""

    type: Sent[Literal["string"]] = "string"
    min_length: UInt32 | None = None
    """The fewest characters."""
    max_length: UInt32 | None = None
    """The most characters."""
    pattern: str | None = None
    """A regular expression that the text has to match."""
    format: StringFormat | None = None
    """What the text has to be."""
    default: Lenient[str | None] = None
    """What it holds at first."""
    enum: list[str] | None = None
    """The values to choose from."""
    one_of: list[EnumOption] | None = None
    """The values to choose from, with titles."""


class NumberPropertySchema(_Property):
    """A field for a number."""

    type: Sent[Literal["number"]] = "number"
    minimum: Double | None = None
    """The smallest number, included."""
    maximum: Double | None = None
    """The largest number, included."""
    default: Lenient[Double | None] = None
    """What it holds at first."""


class IntegerPropertySchema(_Property):
    """A field for a whole number."""

    type: Sent[Literal["integer"]] = "integer"
    minimum: Int64 | None = None
    """The smallest number, included."""
    maximum: Int64 | None = None
    """The largest number, included."""
    default: Lenient[Int64 | None] = None
    """What it holds at first."""


class BooleanPropertySchema(_Property):
    """A field that is on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    default: Lenient[Bool | None] = None
    """What it holds at first."""


class StringMultiSelectItems(Model):
    """Values to choose from."""

    type: Sent[Literal["string"]] = "string"
    enum: list[str]
    """The values."""


class TitledMultiSelectItems(Model):
    """Values to choose from, with titles. They have no `type`."""

    type: SkipJsonSchema[None] = None
    any_of: list[EnumOption]
    """The values."""


class UnknownMultiSelectItems(Unknown):
    """Values to choose from in a form that this version does not have."""

    type: str


MultiSelectItems = TypeAliasType(
    "MultiSelectItems",
    Annotated[
        StringMultiSelectItems | TitledMultiSelectItems | UnknownMultiSelectItems, Tagged("type", extensible=True)
    ],
)
"""The values of a choice of several, told apart by `type`."""


class MultiSelectPropertySchema(_Property):
    """A choice of several."""

    type: Sent[Literal["array"]] = "array"
    min_items: UInt64 | None = None
    """The fewest values."""
    max_items: UInt64 | None = None
    """The most values."""
    items: MultiSelectItems
    """The values to choose from."""
    default: LenientItems[list[str] | None] = None
    """What is chosen at first."""


class UnknownPropertySchema(Unknown):
    """A kind of field that this version does not have."""

    type: str


ElicitationPropertySchema = TypeAliasType(
    "ElicitationPropertySchema",
    Annotated[
        StringPropertySchema
        | NumberPropertySchema
        | IntegerPropertySchema
        | BooleanPropertySchema
        | MultiSelectPropertySchema
        | UnknownPropertySchema,
        Tagged("type", extensible=True),
    ],
)
"""A field of a form, told apart by `type`."""


class ElicitationSchema(Model):
    """A form: its fields by name."""

    type: Lenient[ElicitationSchemaType] = "object"
    title: Lenient[str | None] = None
    """Its heading."""
    description: Lenient[str | None] = None
    """A few words on what it is for."""
    properties: dict[str, ElicitationPropertySchema] = Field(default_factory=dict[str, ElicitationPropertySchema])
    """The fields, in order."""
    required: list[str] | None = None
    """The names of the fields that have to be filled."""

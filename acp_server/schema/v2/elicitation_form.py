"""The form of an elicitation: a small part of JSON Schema, one property a field (ACP v2, elicitation).

Most of its fields are as in version 1, and are the same types.
"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema import elicitation_form as v1
from acp_server.schema.base import Lenient, Model, Sent, Unknown
from acp_server.schema.elicitation_form import (
    BooleanPropertySchema,
    ElicitationSchemaType,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
)
from acp_server.schema.elicitation_form import MultiSelectItems as MultiSelectItems
from acp_server.schema.elicitation_form import StringMultiSelectItems as StringMultiSelectItems
from acp_server.schema.elicitation_form import TitledMultiSelectItems as TitledMultiSelectItems
from acp_server.schema.elicitation_form import UnknownMultiSelectItems as UnknownMultiSelectItems
from acp_server.schema.unions import OpenEnum, Tagged
from acp_server.schema.v2.types import Regex

StringFormat = TypeAliasType(
    "StringFormat", Annotated[Literal["email", "uri", "date", "date-time"] | str, OpenEnum(extensible=True)]
)
"""What the text of a field has to be. Names of one's own begin with `_`."""


class StringPropertySchema(v1.StringPropertySchema):
    """A text field, or with `enum` or `one_of` a choice of one."""

    pattern: Regex | None = None
    """A regular expression that the text has to match."""
    format: StringFormat | None = None
    """What the text has to be."""
    enum: Annotated[list[str], Field(min_length=1)] | None = None
    """The values to choose from."""
    one_of: Annotated[list[EnumOption], Field(min_length=1)] | None = None
    """The values to choose from, with titles."""


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

    type: Sent[ElicitationSchemaType] = "object"
    title: Lenient[str | None] = None
    """Its heading."""
    description: Lenient[str | None] = None
    """A few words on what it is for."""
    properties: dict[str, ElicitationPropertySchema]
    """The fields, in order."""
    required: list[str] | None = None
    """The names of the fields that have to be filled."""

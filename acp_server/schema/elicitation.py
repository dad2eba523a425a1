"""`elicitation/create` and `elicitation/complete`: the agent asks the user for input (protocol: elicitation).

A request has one of two modes, a form or a URL, and belongs to a session or, outside of sessions, to a request. A form
is a small part of JSON Schema, one property a field.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, StrictStr, TypeAdapter, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError
from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    UNSET,
    Expect,
    Items,
    JsonObject,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Record,
    Sent,
    Sparse,
    Unknown,
    UnknownTag,
)
from acp_server.schema.types import (
    Bool,
    Double,
    ElicitationId,
    Int64,
    RequestId,
    SessionId,
    Tagged,
    ToolCallId,
    UInt32,
    UInt64,
    Uri,
)
from acp_server.schema.words import OpenEnum

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
    enum: MaybeItems[str] = UNSET
    """The values to choose from."""
    one_of: MaybeItems[EnumOption] = UNSET
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
    enum: Items[str]
    """The values."""


class TitledMultiSelectItems(Model):
    """Values to choose from, with titles. They have no `type`."""

    type: SkipJsonSchema[None] = None
    any_of: Items[EnumOption]
    """The values."""


class UnknownMultiSelectItems(Unknown):
    """Values to choose from in a form that this version does not have."""

    type: UnknownTag


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
    default: LenientItems[MaybeItems[str]] = UNSET
    """What is chosen at first."""


class UnknownPropertySchema(Unknown):
    """A kind of field that this version does not have."""

    type: UnknownTag


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
    required: MaybeItems[str] = UNSET
    """The names of the fields that have to be filled."""


class ElicitationSessionScope(Record):
    """The question belongs to a session, and perhaps to one tool call in it."""

    session_id: SessionId
    """The session."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call."""


class ElicitationRequestScope(Sparse):
    """The question belongs to a request outside of sessions, such as `authenticate`."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    request_id: RequestId
    """The request."""


def with_scopes(schema: CoreSchema, handler: GetJsonSchemaHandler, *scopes: type[Record]) -> JsonObject:
    """The JSON Schema of a mode: the fields of the scope are those of one scope or of the other."""
    written = handler.resolve_ref_schema(handler(schema))
    for key in ("sessionId", "toolCallId", "requestId"):
        del written["properties"][key]
    written["anyOf"] = [handler(TypeAdapter(scope).core_schema) for scope in scopes]
    return written


class _Mode(Sparse, Model):
    """What both modes have. Set `session_id` (and `tool_call_id`), or `request_id`."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    message: str
    """What is asked, in words for the user."""
    session_id: SessionId | None = None
    """The session that the question belongs to."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call in that session that it belongs to."""
    request_id: RequestId = None
    """The request that it belongs to, where there is no session."""

    @property
    def scope(self) -> ElicitationSessionScope | ElicitationRequestScope:
        """What the question belongs to."""
        if self.session_id is not None:
            return ElicitationSessionScope(session_id=self.session_id, tool_call_id=self.tool_call_id)
        return ElicitationRequestScope(request_id=self.request_id)

    @model_validator(mode="after")
    def _has_a_scope(self) -> Self:
        if self.session_id is None and "request_id" not in self.__pydantic_fields_set__:
            raise PydanticCustomError("elicitation_scope", "An elicitation belongs to a session or to a request")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        """See `with_scopes`."""
        return with_scopes(schema, handler, ElicitationSessionScope, ElicitationRequestScope)


class ElicitationFormMode(_Mode):
    """Ask through a form. Only for clients with `elicitation.form`."""

    mode: Sent[Literal["form"]] = "form"
    requested_schema: ElicitationSchema
    """The form."""


class ElicitationUrlMode(_Mode):
    """Send the user to a URL; `elicitation/complete` follows. Only for clients with `elicitation.url`."""

    mode: Sent[Literal["url"]] = "url"
    elicitation_id: ElicitationId
    """Names the elicitation in `elicitation/complete`."""
    url: Uri
    """Where to go."""


class UnknownElicitationMode(Unknown):
    """A way of asking that this version does not have."""

    mode: UnknownTag


CreateElicitationRequest = TypeAliasType(
    "CreateElicitationRequest",
    Annotated[ElicitationFormMode | ElicitationUrlMode | UnknownElicitationMode, Tagged("mode", extensible=True)],
)
"""Parameters of `elicitation/create`, told apart by `mode`."""

ElicitationContentValue = TypeAliasType(
    "ElicitationContentValue",
    Annotated[
        StrictStr | Int64 | Double | Bool | list[StrictStr],
        Expect("a string, a number, a boolean or a list of strings"),
    ],
)
"""What a field of a form was filled with."""


class _NotAccepted(Model):
    """It is false: nothing was answered. Only `ElicitationAcceptAction` is true."""

    def __bool__(self) -> bool:
        return False


class ElicitationAcceptAction(Model):
    """The user answered."""

    action: Sent[Literal["accept"]] = "accept"
    content: dict[str, ElicitationContentValue] | None = None
    """The answer to a form, by the names of its fields."""


class ElicitationDeclineAction(_NotAccepted):
    """The user said no."""

    action: Sent[Literal["decline"]] = "decline"


class ElicitationCancelAction(_NotAccepted):
    """The user closed the question without an answer."""

    action: Sent[Literal["cancel"]] = "cancel"


class UnknownElicitationAction(Unknown):
    """An outcome that this version does not have; it answers nothing."""

    action: UnknownTag

    def __bool__(self) -> bool:
        return False


CreateElicitationResponse = TypeAliasType(
    "CreateElicitationResponse",
    Annotated[
        ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction | UnknownElicitationAction,
        Tagged("action", extensible=True),
    ],
)
"""Result of `elicitation/create`, told apart by `action`."""


class CompleteElicitationNotification(Model):
    """Parameters of `elicitation/complete`: what happened at the URL is over."""

    elicitation_id: ElicitationId
    """The elicitation."""

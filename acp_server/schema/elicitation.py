"""`elicitation/create` and `elicitation/complete`: the agent asks the user for input (protocol: elicitation).

A request has one of two modes, a form or a URL, and belongs to a session or, outside of sessions, to a request. A form
is a subset of JSON Schema, with one property for each field.
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
"""The required format of a field's text."""


class EnumOption(Model):
    """A value to choose, with a title."""

    const: str
    """The value."""
    title: str
    """The text to show the user."""
    description: Lenient[str | None] = None
    """A short description of its meaning."""


class _Property(Model):
    """The members of every field of a form."""

    title: Lenient[str | None] = None
    """Its label."""
    description: Lenient[str | None] = None
    """A short description of the expected input."""


class StringPropertySchema(_Property):
    """A text field; with `enum` or `one_of`, a choice of one value."""

    type: Sent[Literal["string"]] = "string"
    min_length: UInt32 | None = None
    """The fewest characters."""
    max_length: UInt32 | None = None
    """The most characters."""
    pattern: str | None = None
    """A regular expression that the text must match."""
    format: StringFormat | None = None
    """The required format of the text."""
    default: Lenient[str | None] = None
    """The initial value."""
    enum: MaybeItems[str] = UNSET
    """The available values."""
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
    """The initial value."""


class IntegerPropertySchema(_Property):
    """A field for a whole number."""

    type: Sent[Literal["integer"]] = "integer"
    minimum: Int64 | None = None
    """The smallest number, included."""
    maximum: Int64 | None = None
    """The largest number, included."""
    default: Lenient[Int64 | None] = None
    """The initial value."""


class BooleanPropertySchema(_Property):
    """A field that is on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    default: Lenient[Bool | None] = None
    """The initial value."""


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
"""The values of a choice of several, distinguished by `type`."""


class MultiSelectPropertySchema(_Property):
    """A choice of several."""

    type: Sent[Literal["array"]] = "array"
    min_items: UInt64 | None = None
    """The fewest values."""
    max_items: UInt64 | None = None
    """The most values."""
    items: MultiSelectItems
    """The available values."""
    default: LenientItems[MaybeItems[str]] = UNSET
    """The initial choice."""


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
"""A field of a form, distinguished by `type`."""


class ElicitationSchema(Model):
    """A form: its fields by name."""

    type: Lenient[ElicitationSchemaType] = "object"
    title: Lenient[str | None] = None
    """Its heading."""
    description: Lenient[str | None] = None
    """A short description of its purpose."""
    properties: dict[str, ElicitationPropertySchema] = Field(default_factory=dict[str, ElicitationPropertySchema])
    """The fields, in order."""
    required: MaybeItems[str] = UNSET
    """The names of the required fields."""


class ElicitationSessionScope(Record):
    """The scope of an elicitation that belongs to a session, and perhaps to one of the session's tool calls."""

    session_id: SessionId
    """The session."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call."""


class ElicitationRequestScope(Sparse):
    """The scope of an elicitation that belongs to a request outside of sessions, such as `authenticate`."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    request_id: RequestId
    """The request."""


def with_scopes(schema: CoreSchema, handler: GetJsonSchemaHandler, *scopes: type[Record]) -> JsonObject:
    """Return the JSON Schema of a mode, which has the members of exactly one of the scopes."""
    written = handler.resolve_ref_schema(handler(schema))
    for key in ("sessionId", "toolCallId", "requestId"):
        del written["properties"][key]
    written["anyOf"] = [handler(TypeAdapter(scope).core_schema) for scope in scopes]
    return written


class _Mode(Sparse, Model):
    """The members of both modes. Set `session_id` (and `tool_call_id`), or `request_id`."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    message: str
    """The question to the user."""
    session_id: SessionId | None = None
    """The session of the elicitation."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call in that session."""
    request_id: RequestId = None
    """The request of the elicitation, if there is no session."""

    @property
    def scope(self) -> ElicitationSessionScope | ElicitationRequestScope:
        """The session or request of the elicitation."""
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
    """Ask by a form. Only for clients with `elicitation.form`."""

    mode: Sent[Literal["form"]] = "form"
    requested_schema: ElicitationSchema
    """The form."""


class ElicitationUrlMode(_Mode):
    """Send the user to a URL. `elicitation/complete` follows. Only for clients with `elicitation.url`."""

    mode: Sent[Literal["url"]] = "url"
    elicitation_id: ElicitationId
    """Identifies the elicitation in `elicitation/complete`."""
    url: Uri
    """The URL to open."""


class UnknownElicitationMode(Unknown):
    """A mode that this version does not have."""

    mode: UnknownTag


CreateElicitationRequest = TypeAliasType(
    "CreateElicitationRequest",
    Annotated[ElicitationFormMode | ElicitationUrlMode | UnknownElicitationMode, Tagged("mode", extensible=True)],
)
"""Parameters of `elicitation/create`, distinguished by `mode`."""

ElicitationContentValue = TypeAliasType(
    "ElicitationContentValue",
    Annotated[
        StrictStr | Int64 | Double | Bool | list[StrictStr],
        Expect("a string, a number, a boolean or a list of strings"),
    ],
)
"""The value of a form's field."""


class _NotAccepted(Model):
    """The base of outcomes without an answer. They are false in a condition; only `ElicitationAcceptAction` is true."""

    def __bool__(self) -> bool:
        return False


class ElicitationAcceptAction(Model):
    """The user answered."""

    action: Sent[Literal["accept"]] = "accept"
    content: dict[str, ElicitationContentValue] | None = None
    """The answer to a form, by the names of its fields."""


class ElicitationDeclineAction(_NotAccepted):
    """The user declined."""

    action: Sent[Literal["decline"]] = "decline"


class ElicitationCancelAction(_NotAccepted):
    """The user closed the question without an answer."""

    action: Sent[Literal["cancel"]] = "cancel"


class UnknownElicitationAction(Unknown):
    """An outcome that this version does not have. It counts as no answer."""

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
"""Result of `elicitation/create`, distinguished by `action`."""


class CompleteElicitationNotification(Model):
    """Parameters of `elicitation/complete`: the interaction at the URL has ended."""

    elicitation_id: ElicitationId
    """The elicitation."""

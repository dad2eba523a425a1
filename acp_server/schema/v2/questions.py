"""What the agent asks the user: whether it may do something, `session/request_permission`, and for input,
`elicitation/create` and `elicitation/complete` (ACP v2, permission requests, elicitation).

An elicitation has one of two modes, a form or a URL, and belongs to a session or, outside of sessions, to a request. A
form is a small part of JSON Schema, one property a field. Most of its fields are as in version 1, and are the same
types.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from typing_extensions import TypeAliasType

from acp_server.schema import elicitation as v1
from acp_server.schema.base import (
    UNSET,
    Items,
    JsonObject,
    Lenient,
    MaybeItems,
    Model,
    Record,
    Sent,
    Unknown,
    UnknownTag,
)
from acp_server.schema.elicitation import (
    BooleanPropertySchema,
    ElicitationCancelAction,
    ElicitationDeclineAction,
    ElicitationSchemaType,
    ElicitationSessionScope,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    UnknownElicitationAction,
    UnknownPropertySchema,
    with_scopes,
)
from acp_server.schema.elicitation import CompleteElicitationNotification as CompleteElicitationNotification
from acp_server.schema.elicitation import MultiSelectItems as MultiSelectItems
from acp_server.schema.elicitation import StringMultiSelectItems as StringMultiSelectItems
from acp_server.schema.elicitation import TitledMultiSelectItems as TitledMultiSelectItems
from acp_server.schema.elicitation import UnknownMultiSelectItems as UnknownMultiSelectItems
from acp_server.schema.tool_call import PermissionOption as PermissionOptionV1
from acp_server.schema.tool_call import SelectedPermissionOutcome, UnknownPermissionOutcome
from acp_server.schema.types import Tagged, Uri
from acp_server.schema.v2.tool_call import ToolCallUpdate
from acp_server.schema.v2.types import (
    AbsolutePath,
    ElicitationId,
    PermissionOptionId,
    Regex,
    RequestId,
    SessionId,
    TerminalId,
    ToolCallId,
)
from acp_server.schema.words import OpenEnum

PermissionOptionKind = TypeAliasType(
    "PermissionOptionKind",
    Annotated[Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str, OpenEnum(extensible=True)],
)
"""What a choice means: yes or no, this time or from now on. Names of one's own begin with `_`."""


class PermissionOption(PermissionOptionV1):
    """A choice offered to the user."""

    option_id: PermissionOptionId
    """Names the choice; no other choice of the request has the same id."""
    kind: PermissionOptionKind
    """What it means."""


class ToolCallPermissionSubject(Model):
    """The question is about a tool call."""

    type: Sent[Literal["tool_call"]] = "tool_call"
    tool_call: ToolCallUpdate
    """The call, as it is shown with the question."""


class CommandPermissionSubject(Model):
    """The question is about a command."""

    type: Sent[Literal["command"]] = "command"
    command: str
    """The command."""
    cwd: AbsolutePath
    """The directory to run it in."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call that it belongs to."""
    terminal_id: Lenient[TerminalId | None] = None
    """The terminal that it would run in."""


class UnknownPermissionSubject(Unknown):
    """A subject that this version does not have."""

    type: UnknownTag


RequestPermissionSubject = TypeAliasType(
    "RequestPermissionSubject",
    Annotated[
        ToolCallPermissionSubject | CommandPermissionSubject | UnknownPermissionSubject,
        Tagged("type", extensible=True),
    ],
)
"""What a question is about, told apart by `type`."""


class RequestPermissionRequest(Model):
    """Parameters of `session/request_permission`."""

    session_id: SessionId
    """The session that asks."""
    title: str
    """The question, in a few words for the user."""
    description: Lenient[str | None] = None
    """More of it."""
    subject: RequestPermissionSubject | None = None
    """What it is about."""
    options: Annotated[Items[PermissionOption], Field(min_length=1)]
    """The choices."""


class CancelledPermissionOutcome(Model):
    """The question ended before the user chose."""

    outcome: Sent[Literal["cancelled"]] = "cancelled"


RequestPermissionOutcome = TypeAliasType(
    "RequestPermissionOutcome",
    Annotated[
        CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownPermissionOutcome,
        Tagged("outcome", extensible=True),
    ],
)
"""What became of the question, told apart by `outcome`. An option that was not offered approves nothing."""


class RequestPermissionResponse(Model):
    """Result of `session/request_permission`."""

    outcome: RequestPermissionOutcome
    """What became of the question."""


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
    enum: Annotated[MaybeItems[str], Field(min_length=1)] = UNSET
    """The values to choose from."""
    one_of: Annotated[MaybeItems[EnumOption], Field(min_length=1)] = UNSET
    """The values to choose from, with titles."""


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
    required: MaybeItems[str] = UNSET
    """The names of the fields that have to be filled."""


class ElicitationRequestScope(Record):
    """The question belongs to a request outside of sessions, such as `auth/login`."""

    request_id: RequestId
    """The request."""


class _Mode(Model):
    """What both modes have. Set `session_id` (and `tool_call_id`), or `request_id`."""

    message: str
    """What is asked, in words for the user."""
    session_id: SessionId | None = None
    """The session that the question belongs to."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call in that session that it belongs to."""
    request_id: RequestId | None = None
    """The request that it belongs to, where there is no session."""

    @model_validator(mode="after")
    def _has_a_scope(self) -> Self:
        if self.session_id is None and self.request_id is None:
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
    message: str
    """What is asked, in words for the user."""


CreateElicitationRequest = TypeAliasType(
    "CreateElicitationRequest",
    Annotated[ElicitationFormMode | ElicitationUrlMode | UnknownElicitationMode, Tagged("mode", extensible=True)],
)
"""Parameters of `elicitation/create`, told apart by `mode`."""

ElicitationContentValue = TypeAliasType(
    "ElicitationContentValue",
    Annotated[
        Any,
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string"},
                    {"type": "integer", "format": "int64"},
                    {"type": "number", "format": "double"},
                    {"type": "boolean"},
                    {"type": "array", "items": {"type": "string"}},
                    {},
                ]
            }
        ),
    ],
)
"""What a field of a form was filled with: a string, a number, a boolean, a list of strings, or what comes after."""


class ElicitationAcceptAction(Model):
    """The user answered."""

    action: Sent[Literal["accept"]] = "accept"
    content: dict[str, ElicitationContentValue] | None = None
    """The answer to a form, by the names of its fields."""


CreateElicitationResponse = TypeAliasType(
    "CreateElicitationResponse",
    Annotated[
        ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction | UnknownElicitationAction,
        Tagged("action", extensible=True),
    ],
)
"""Result of `elicitation/create`, told apart by `action`."""

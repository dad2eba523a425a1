"""Questions of the agent to the user. `session/request_permission` requests permission, `elicitation/create` and
`elicitation/complete` request input (ACP v2, permission requests, elicitation).

An elicitation has one of two modes, a form or a URL. It belongs to a session or, outside of sessions, to a request. A
form is a subset of JSON Schema, with one property for each field. Most types of elicitations are the same as in version
1.
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
"""The meaning of an option: allow or reject, once or always. Custom kinds begin with `_`."""


class PermissionOption(PermissionOptionV1):
    """An option of a permission request."""

    option_id: PermissionOptionId
    """Identifies the option; unique in the request."""
    kind: PermissionOptionKind
    """Its meaning."""


class ToolCallPermissionSubject(Model):
    """The request is about a tool call."""

    type: Sent[Literal["tool_call"]] = "tool_call"
    tool_call: ToolCallUpdate
    """The call, as it is shown with the request."""


class CommandPermissionSubject(Model):
    """The request is about a command."""

    type: Sent[Literal["command"]] = "command"
    command: str
    """The command."""
    cwd: AbsolutePath
    """Its working directory."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """Its tool call."""
    terminal_id: Lenient[TerminalId | None] = None
    """The terminal in which the command would run."""


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
"""The subject of a permission request, distinguished by `type`."""


class RequestPermissionRequest(Model):
    """Parameters of `session/request_permission`."""

    session_id: SessionId
    """The session of the request."""
    title: str
    """The question to the user, as a short text."""
    description: Lenient[str | None] = None
    """More details."""
    subject: RequestPermissionSubject | None = None
    """Its subject."""
    options: Annotated[Items[PermissionOption], Field(min_length=1)]
    """The options."""


class CancelledPermissionOutcome(Model):
    """The request ended before the user chose."""

    outcome: Sent[Literal["cancelled"]] = "cancelled"


RequestPermissionOutcome = TypeAliasType(
    "RequestPermissionOutcome",
    Annotated[
        CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownPermissionOutcome,
        Tagged("outcome", extensible=True),
    ],
)
"""The outcome, distinguished by `outcome`. An option that was not offered approves nothing."""


class RequestPermissionResponse(Model):
    """Result of `session/request_permission`."""

    outcome: RequestPermissionOutcome
    """The outcome."""


StringFormat = TypeAliasType(
    "StringFormat", Annotated[Literal["email", "uri", "date", "date-time"] | str, OpenEnum(extensible=True)]
)
"""The required format of a field's text. Custom formats begin with `_`."""


class StringPropertySchema(v1.StringPropertySchema):
    """A text field; with `enum` or `one_of`, a choice of one value."""

    pattern: Regex | None = None
    """A regular expression that the text must match."""
    format: StringFormat | None = None
    """The required format of the text."""
    enum: Annotated[MaybeItems[str], Field(min_length=1)] = UNSET
    """The available values."""
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
"""A field of a form, distinguished by `type`."""


class ElicitationSchema(Model):
    """A form: its fields by name."""

    type: Sent[ElicitationSchemaType] = "object"
    title: Lenient[str | None] = None
    """Its heading."""
    description: Lenient[str | None] = None
    """A short description of its purpose."""
    properties: dict[str, ElicitationPropertySchema]
    """The fields, in order."""
    required: MaybeItems[str] = UNSET
    """The names of the required fields."""


class ElicitationRequestScope(Record):
    """The elicitation belongs to a request outside of sessions, such as `auth/login`."""

    request_id: RequestId
    """The request."""


class _Mode(Model):
    """The members of both modes. Set `session_id` (and `tool_call_id`), or `request_id`."""

    message: str
    """The question to the user."""
    session_id: SessionId | None = None
    """The session of the elicitation."""
    tool_call_id: Lenient[ToolCallId | None] = None
    """The tool call in that session."""
    request_id: RequestId | None = None
    """The request of the elicitation, if there is no session."""

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
    """Ask by a form. Only for clients with `elicitation.form`."""

    mode: Sent[Literal["form"]] = "form"
    requested_schema: ElicitationSchema
    """The form."""


class ElicitationUrlMode(_Mode):
    """Send the user to a URL; `elicitation/complete` follows. Only for clients with `elicitation.url`."""

    mode: Sent[Literal["url"]] = "url"
    elicitation_id: ElicitationId
    """Identifies the elicitation in `elicitation/complete`."""
    url: Uri
    """The URL to open."""


class UnknownElicitationMode(Unknown):
    """A mode that this version does not have."""

    mode: UnknownTag
    message: str
    """The question to the user."""


CreateElicitationRequest = TypeAliasType(
    "CreateElicitationRequest",
    Annotated[ElicitationFormMode | ElicitationUrlMode | UnknownElicitationMode, Tagged("mode", extensible=True)],
)
"""Parameters of `elicitation/create`, distinguished by `mode`."""

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
"""The value of a form's field: a string, a number, a boolean, a list of strings, or a value that a later version
adds."""


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
"""Result of `elicitation/create`, distinguished by `action`."""

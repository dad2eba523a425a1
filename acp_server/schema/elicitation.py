"""`elicitation/create` and `elicitation/complete`: the agent asks the user for input (protocol: elicitation).

A request has one of two modes, a form or a URL, and belongs to a session or, outside of sessions, to a
request.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import GetJsonSchemaHandler, StrictStr, TypeAdapter, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from typing_extensions import TypeAliasType

from acp_server.schema.base import Expect, JsonObject, Lenient, Model, Record, Sent, Sparse, Unknown
from acp_server.schema.elicitation_form import ElicitationSchema
from acp_server.schema.types import Bool, Double, ElicitationId, Int64, RequestId, SessionId, ToolCallId, Uri
from acp_server.schema.unions import Tagged


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

    mode: str


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


class ElicitationAcceptAction(Model):
    """The user answered."""

    action: Sent[Literal["accept"]] = "accept"
    content: dict[str, ElicitationContentValue] | None = None
    """The answer to a form, by the names of its fields."""


class ElicitationDeclineAction(Model):
    """The user said no."""

    action: Sent[Literal["decline"]] = "decline"


class ElicitationCancelAction(Model):
    """The user closed the question without an answer."""

    action: Sent[Literal["cancel"]] = "cancel"


class UnknownElicitationAction(Unknown):
    """An outcome that this version does not have; it answers nothing."""

    action: str


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

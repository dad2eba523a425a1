"""The basic types of version 2: identifiers, numbers, the error object, and patches.

Plain values with the same meaning as in version 1 have the same types. A patch is an update of a message, a tool call,
a terminal or a compaction. It changes the object with the patch's id (ACP v2, prompt lifecycle). A field of a patch can
be unset, null or a value, which are three different things (`acp_server.schema.base`). An unset field stays unchanged
and is not written. A null field is cleared. Both read as None, and `is_null` tells them apart.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StrictStr,
    WithJsonSchema,
    model_serializer,
)
from typing_extensions import TypeAliasType

from acp_server.errors import UNSUPPORTED_VERSION
from acp_server.schema.base import (
    Expect,
    Items,
    Lenient,
    Model,
    Record,
    attributes,
)
from acp_server.schema.types import KNOWN_ERRORS, Base64Text, Int32, Int64, MediaTypeName, error_code
from acp_server.schema.types import AuthMethodId as AuthMethodId
from acp_server.schema.types import CompactionId as CompactionId
from acp_server.schema.types import ElicitationId as ElicitationId
from acp_server.schema.types import MessageId as MessageId
from acp_server.schema.types import PermissionOptionId as PermissionOptionId
from acp_server.schema.types import ProtocolVersion as ProtocolVersion
from acp_server.schema.types import SessionConfigGroupId as SessionConfigGroupId
from acp_server.schema.types import SessionConfigId as SessionConfigId
from acp_server.schema.types import SessionConfigValueId as SessionConfigValueId
from acp_server.schema.types import SessionId as SessionId
from acp_server.schema.types import ToolCallId as ToolCallId
from acp_server.schema.words import Absolute

Cells = Annotated[
    int,
    Field(strict=True, ge=1, le=2**16 - 1),
    WithJsonSchema({"type": "integer", "format": "uint16", "minimum": 1, "maximum": 65535}),
]
LineNumber = Annotated[
    int,
    Field(strict=True, ge=1, le=2**32 - 1),
    WithJsonSchema({"type": "integer", "format": "uint32", "minimum": 1}),
]
Fraction = Annotated[
    float,
    Field(strict=True, ge=0, le=1, allow_inf_nan=False),
    WithJsonSchema({"type": "number", "format": "double", "minimum": 0, "maximum": 1}),
]
# Formats are checked by the code that uses the value, as in version 1.
Timestamp = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Regex = Annotated[str, WithJsonSchema({"type": "string", "format": "regex"})]
Base64 = Annotated[Base64Text, WithJsonSchema({"type": "string", "contentEncoding": "base64"})]

AbsolutePath = TypeAliasType("AbsolutePath", Annotated[str, Absolute()])
"""An absolute path in the syntax of the agent's system. It is not a URI."""

MediaType = TypeAliasType("MediaType", MediaTypeName)
"""A media type, such as `image/png`."""

PlanId = TypeAliasType("PlanId", str)
"""Identifies a plan within its session."""

SessionListCursor = TypeAliasType("SessionListCursor", str)
"""Where a page of `session/list` begins. The agent chooses it; it is opaque to clients."""

TerminalId = TypeAliasType("TerminalId", str)
"""Identifies a terminal that the agent runs, within its session."""

RequestId = TypeAliasType("RequestId", Annotated[Int64 | StrictStr, Expect("a string or a 64-bit integer")])
"""The id of a JSON-RPC request: a 64-bit integer or a string. Null is not an id."""

ErrorCode = TypeAliasType("ErrorCode", Annotated[Int32, error_code(*KNOWN_ERRORS, UNSUPPORTED_VERSION)])
"""The kind of an error."""

PROTOCOL_VERSION: Literal[2] = 2
"""The version that these types describe."""


class Patch(Model):
    """A patch of an object with an id. Only members that are set change, and null clears a member."""

    # A value that is not an object counts as absent. The type of `Model` would read it as None, which clears.
    meta: Lenient[dict[str, Any] | None] = None
    """Extension data to change, by key. None removes the key, and any other value replaces the key's value. NULL clears
    all keys."""

    @classmethod
    def may_be_null(cls, name: str) -> bool:
        """Whether null has its own meaning for this attribute, see `Record`. Every member that may change may also be
        cleared."""
        return not cls.model_fields[name].is_required() and cls.model_fields[name].default is None

    @model_serializer(mode="wrap")
    def _write_what_clears(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if not info.exclude_none:  # a plain model_dump shows everything
            return data
        for key, name in attributes(type(self)).items():
            if name in self.__pydantic_fields_set__ and getattr(self, name) is None:
                data[key if info.by_alias else name] = None
        # A field that this package does not know may be cleared too.
        data.update((key, None) for key, value in (self.__pydantic_extra__ or {}).items() if value is None)
        return data


class UnsupportedProtocolVersionErrorData(Model):
    """The data of -32022, the response to `initialize` when the two sides have no common version."""

    requested: ProtocolVersion
    """The newest version that the client supports."""
    supported: Items[ProtocolVersion]
    """Every version that the agent supports."""


class SessionNotFoundErrorData(Model):
    """The data of -32002 about a session."""

    session_id: SessionId
    """The session that does not exist."""


ErrorData = TypeAliasType(
    "ErrorData",
    Annotated[UnsupportedProtocolVersionErrorData | SessionNotFoundErrorData | Any, Field(union_mode="left_to_right")],
)
"""Details of an error: one of the two known forms, or any JSON."""


class Error(Record):
    """Why a request failed (JSON-RPC 2.0, section 5.1)."""

    code: ErrorCode
    """The kind of the error."""
    message: str
    """One sentence."""
    data: Lenient[ErrorData | None] = None
    """Details."""

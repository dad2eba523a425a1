"""The plain values of the protocol: identifiers, numbers of a fixed width, request ids, error codes, the error
object of a response. Code that raises and catches uses `acp_server.errors`.

To a type checker an identifier is a string; its name says whose it is, and the published schema shows it.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr, WithJsonSchema
from typing_extensions import TypeAliasType

from acp_server.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from acp_server.schema.base import Expect, Lenient, Record

Bool = StrictBool
"""`true` or `false`; nothing that only looks like it."""

# `strict` keeps booleans, fractions and digit strings out. The bounds are those of the width, which the published
# schema states as a format.
Int32 = Annotated[
    int, Field(strict=True, ge=-(2**31), le=2**31 - 1), WithJsonSchema({"type": "integer", "format": "int32"})
]
Int64 = Annotated[
    int, Field(strict=True, ge=-(2**63), le=2**63 - 1), WithJsonSchema({"type": "integer", "format": "int64"})
]
UInt32 = Annotated[
    int, Field(strict=True, ge=0, le=2**32 - 1), WithJsonSchema({"type": "integer", "format": "uint32", "minimum": 0})
]
UInt64 = Annotated[
    int, Field(strict=True, ge=0, le=2**64 - 1), WithJsonSchema({"type": "integer", "format": "uint64", "minimum": 0})
]
Double = Annotated[
    float, Field(strict=True, allow_inf_nan=False), WithJsonSchema({"type": "number", "format": "double"})
]
Uri = Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]

SessionId = TypeAliasType("SessionId", str)
"""Names one conversation. The agent makes it; clients treat it as opaque."""

ToolCallId = TypeAliasType("ToolCallId", str)
"""Names one tool call within its session."""

MessageId = TypeAliasType("MessageId", str)
"""Names the message that a chunk belongs to, within its session."""

TerminalId = TypeAliasType("TerminalId", str)
"""Names a terminal that the client runs."""

ElicitationId = TypeAliasType("ElicitationId", str)
"""Names an elicitation that is finished outside of the protocol, at a URL."""

CompactionId = TypeAliasType("CompactionId", str)
"""Names one compaction of a session's context, within that session."""

AuthMethodId = TypeAliasType("AuthMethodId", str)
"""Names a way to authenticate."""

PermissionOptionId = TypeAliasType("PermissionOptionId", str)
"""Names a choice offered to the user, within its permission request."""

SessionModeId = TypeAliasType("SessionModeId", str)
"""Names a mode of a session."""

SessionConfigId = TypeAliasType("SessionConfigId", str)
"""Names a configuration option of a session."""

SessionConfigGroupId = TypeAliasType("SessionConfigGroupId", str)
"""Names a group of values of a configuration option."""

SessionConfigValueId = TypeAliasType("SessionConfigValueId", str)
"""Names a value of a configuration option."""

RequestId = TypeAliasType(
    "RequestId", Annotated[Int64 | StrictStr | None, Expect("a string, a 64-bit integer or null")]
)
"""The id of a JSON-RPC request: a 64-bit integer, a string, or null, which is allowed and discouraged."""

ProtocolVersion = TypeAliasType(
    "ProtocolVersion",
    Annotated[
        int,
        Field(strict=True, ge=0, le=2**16 - 1),
        WithJsonSchema({"type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535}),
    ],
)
"""The major version of the protocol; everything smaller is negotiated through capabilities."""

_KNOWN_ERRORS = (
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    AUTH_REQUIRED,
    RESOURCE_NOT_FOUND,
)

ErrorCode = TypeAliasType(
    "ErrorCode",
    Annotated[
        Int32,
        WithJsonSchema(
            {
                "anyOf": [
                    *({"const": code, "format": "int32", "type": "integer"} for code in _KNOWN_ERRORS),
                    {"format": "int32", "type": "integer"},
                ]
            }
        ),
    ],
)
"""What kind of error an answer reports; `acp_server.errors` has an exception for each known code."""

PROTOCOL_VERSION: Literal[1] = 1
"""The version that these types describe."""


class Error(Record):
    """Why a request failed (JSON-RPC 2.0, section 5.1)."""

    code: ErrorCode
    """What kind of error it is."""
    message: str
    """One sentence."""
    data: Lenient[Any] = None
    """More about it, any JSON."""

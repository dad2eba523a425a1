"""The plain values of version 2. Those that are as in version 1 are the same types."""

from typing import Annotated, Literal

from pydantic import Field, StrictStr, WithJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import Expect
from acp_server.schema.types import AuthMethodId as AuthMethodId
from acp_server.schema.types import CompactionId as CompactionId
from acp_server.schema.types import ElicitationId as ElicitationId
from acp_server.schema.types import Int32, Int64
from acp_server.schema.types import MessageId as MessageId
from acp_server.schema.types import PermissionOptionId as PermissionOptionId
from acp_server.schema.types import ProtocolVersion as ProtocolVersion
from acp_server.schema.types import SessionConfigGroupId as SessionConfigGroupId
from acp_server.schema.types import SessionConfigId as SessionConfigId
from acp_server.schema.types import SessionConfigValueId as SessionConfigValueId
from acp_server.schema.types import SessionId as SessionId
from acp_server.schema.types import ToolCallId as ToolCallId

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
# What a format means is left to the code that uses the value, as in version 1.
Timestamp = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Regex = Annotated[str, WithJsonSchema({"type": "string", "format": "regex"})]
Base64 = Annotated[str, WithJsonSchema({"type": "string", "contentEncoding": "base64"})]

AbsolutePath = TypeAliasType("AbsolutePath", str)
"""An absolute path in the syntax of the agent's machine. It is not a URI."""

MediaType = TypeAliasType("MediaType", str)
"""A media type, such as `image/png`."""

PlanId = TypeAliasType("PlanId", str)
"""Names one plan within its session."""

SessionListCursor = TypeAliasType("SessionListCursor", str)
"""Where a page of `session/list` begins. The agent makes it; clients treat it as opaque."""

TerminalId = TypeAliasType("TerminalId", str)
"""Names a terminal that the agent runs, within its session."""

RequestId = TypeAliasType("RequestId", Annotated[Int64 | StrictStr, Expect("a string or a 64-bit integer")])
"""The id of a JSON-RPC request: a 64-bit integer or a string. Null is not an id."""

# Written out, so that this module needs nothing of the package's exceptions: -32022 is the one that version 1 lacks.
_KNOWN_ERRORS = (-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002, -32022)

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
"""What kind of error an answer reports."""

PROTOCOL_VERSION: Literal[2] = 2
"""The version that these types describe."""

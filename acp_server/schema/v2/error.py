"""The error object of a response, with the data that version 2 gives to two of the errors (ACP v2, errors)."""

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, Model, Record
from acp_server.schema.v2.types import ErrorCode, ProtocolVersion, SessionId


class UnsupportedProtocolVersionErrorData(Model):
    """Goes with -32022, the answer to `initialize` when the two sides have no version in common."""

    requested: ProtocolVersion
    """The newest version that the client speaks."""
    supported: list[ProtocolVersion]
    """Every version that the agent speaks."""


class SessionNotFoundErrorData(Model):
    """Goes with -32002 when it is about a session."""

    session_id: SessionId
    """The session that does not exist."""


ErrorData = TypeAliasType(
    "ErrorData",
    Annotated[UnsupportedProtocolVersionErrorData | SessionNotFoundErrorData | Any, Field(union_mode="left_to_right")],
)
"""More about an error: one of the two known shapes, or any JSON."""


class Error(Record):
    """Why a request failed (JSON-RPC 2.0, section 5.1)."""

    code: ErrorCode
    """What kind of error it is."""
    message: str
    """One sentence."""
    data: Lenient[ErrorData | None] = None
    """More about it."""

"""The error object of a response, as published. Code that raises and catches uses `acp_server.errors`."""

from typing import Any

from acp_server.schema.base import Record
from acp_server.schema.markers import Lenient
from acp_server.schema.types import ErrorCode

__all__ = [
    "Error",
]


class Error(Record):
    """Why a request failed (JSON-RPC 2.0, section 5.1)."""

    code: ErrorCode
    """What kind of error it is."""
    message: str
    """One sentence."""
    data: Lenient[Any] = None
    """More about it, any JSON."""

"""`session/request_permission`: may this tool run? (protocol: tool calls)"""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Model, Record, Unknown
from acp_server.schema.markers import Sent
from acp_server.schema.tool_call import ToolCallUpdate
from acp_server.schema.types import PermissionOptionId, SessionId
from acp_server.schema.unions import OpenEnum, Tagged

__all__ = [
    "CancelledPermissionOutcome",
    "PermissionOption",
    "PermissionOptionKind",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "SelectedPermissionOutcome",
    "UnknownPermissionOutcome",
]

PermissionOptionKind = TypeAliasType(
    "PermissionOptionKind",
    Annotated[Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str, OpenEnum()],
)
"""What a choice means: yes or no, this time or from now on."""


class PermissionOption(Model):
    """A choice offered to the user."""

    option_id: PermissionOptionId
    """Names the choice."""
    name: str
    """Its label."""
    kind: PermissionOptionKind
    """What it means."""


class RequestPermissionRequest(Model):
    """Parameters of `session/request_permission`."""

    session_id: SessionId
    """The session that asks."""
    tool_call: ToolCallUpdate
    """The tool call that waits for the answer."""
    options: list[PermissionOption]
    """The choices."""


class SelectedPermissionOutcome(Model):
    """The user chose."""

    outcome: Sent[Literal["selected"]] = "selected"
    option_id: PermissionOptionId
    """The choice."""


class CancelledPermissionOutcome(Record):
    """The turn was cancelled before the user chose."""

    outcome: Sent[Literal["cancelled"]] = "cancelled"


class UnknownPermissionOutcome(Unknown):
    """An outcome that this version does not have; it approves nothing."""

    outcome: str


RequestPermissionOutcome = TypeAliasType(
    "RequestPermissionOutcome",
    Annotated[CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownPermissionOutcome, Tagged("outcome")],
)
"""What became of the question, told apart by `outcome`."""


class RequestPermissionResponse(Model):
    """Result of `session/request_permission`."""

    outcome: RequestPermissionOutcome
    """What became of the question."""

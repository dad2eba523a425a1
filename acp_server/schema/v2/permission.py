"""`session/request_permission`: may the agent do this? (ACP v2, permission requests)"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema import tool_call as v1
from acp_server.schema.base import Lenient, Model, Sent, Unknown
from acp_server.schema.tool_call import SelectedPermissionOutcome, UnknownPermissionOutcome
from acp_server.schema.types import OpenEnum, Tagged
from acp_server.schema.v2.tool_call import ToolCallUpdate
from acp_server.schema.v2.types import AbsolutePath, PermissionOptionId, SessionId, TerminalId, ToolCallId

PermissionOptionKind = TypeAliasType(
    "PermissionOptionKind",
    Annotated[Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str, OpenEnum(extensible=True)],
)
"""What a choice means: yes or no, this time or from now on. Names of one's own begin with `_`."""


class PermissionOption(v1.PermissionOption):
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

    type: str


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
    options: Annotated[list[PermissionOption], Field(min_length=1)]
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

"""Tool calls: the agent's work for the model, its progress, and its approval by `session/request_permission`.

Protocol: tool calls.
"""

from typing import Annotated, Any, Literal, Self

from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    UNSET,
    CountsAs,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Record,
    Sent,
    Unknown,
    UnknownTag,
)
from acp_server.schema.content import ContentBlock
from acp_server.schema.types import FilePath, Line, PermissionOptionId, SessionId, Tagged, TerminalId, ToolCallId
from acp_server.schema.words import OpenEnum

ToolKind = TypeAliasType(
    "ToolKind",
    Annotated[
        Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"] | str,
        OpenEnum(),
    ],
)
"""The kind of a tool, by which a client chooses an icon and a layout."""

ToolCallStatus = TypeAliasType(
    "ToolCallStatus", Annotated[Literal["pending", "in_progress", "completed", "failed"] | str, OpenEnum()]
)
"""The status of a tool call. `pending`: its input is still streaming, or it waits for approval."""


class Content(Model):
    """A content block that a tool produced."""

    type: Sent[Literal["content"]] = "content"
    content: ContentBlock
    """The block."""


class Diff(Model):
    """A change to one file."""

    type: Sent[Literal["diff"]] = "diff"
    path: FilePath
    """Absolute path of the file."""
    old_text: Lenient[str | None] = None
    """The text before; None for a new file."""
    new_text: str
    """The text after."""


class Terminal(Model):
    """A live terminal, shown within the tool call. It must be attached to the call before it is released."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal, from `terminal/create`."""


class UnknownToolCallContent(Unknown):
    """A kind of tool output that this version does not have."""

    type: UnknownTag


ToolCallContent = TypeAliasType(
    "ToolCallContent", Annotated[Content | Diff | Terminal | UnknownToolCallContent, Tagged("type")]
)
"""One item of a tool call's output, distinguished by `type`."""


class ToolCallLocation(Model):
    """A position in a file where the tool works, so that the client can follow it."""

    path: FilePath
    """Absolute path of the file."""
    line: Lenient[Line | None] = None
    """The line, counted from 1."""


class ToolCall(Model):
    """The session update `tool_call`: a tool call begins."""

    session_update: Sent[Literal["tool_call"]] = "tool_call"
    tool_call_id: ToolCallId
    """Identifies the call in later updates."""
    title: str
    """The tool's present work, as a text for the user."""
    name: Lenient[str | None] = None
    """The tool's name in code."""
    kind: Annotated[Lenient[ToolKind | None], CountsAs("other")] = None
    """The kind of the tool; unset counts as `other`."""
    status: Annotated[Lenient[ToolCallStatus | None], CountsAs("pending")] = None
    """The status of the call; unset counts as `pending`."""
    content: Annotated[LenientItems[MaybeItems[ToolCallContent]], CountsAs([])] = UNSET
    """The output so far."""
    locations: Annotated[LenientItems[MaybeItems[ToolCallLocation]], CountsAs([])] = UNSET
    """The positions in files where the tool works."""
    raw_input: Lenient[Any] = None
    """The tool's input as the model gave it, any JSON."""
    raw_output: Lenient[Any] = None
    """The tool's output as it returned it, any JSON."""


class ToolCallUpdate(Model):
    """A patch of a tool call. Only members that are set change, and a list replaces the previous list.

    As a session update it is a `ToolCallProgress`.
    """

    tool_call_id: ToolCallId
    """The call."""
    title: Lenient[str | None] = None
    """The tool's present work, as a text for the user."""
    name: Lenient[str | None] = None
    """The tool's name in code."""
    kind: Lenient[ToolKind | None] = None
    """The kind of the tool."""
    status: Lenient[ToolCallStatus | None] = None
    """The status of the call."""
    content: LenientItems[MaybeItems[ToolCallContent]] = UNSET
    """The whole output so far."""
    locations: LenientItems[MaybeItems[ToolCallLocation]] = UNSET
    """The positions in files where the tool works."""
    raw_input: Lenient[Any] = None
    """The tool's input as the model gave it, any JSON."""
    raw_output: Lenient[Any] = None
    """The tool's output as it returned it, any JSON."""


class ToolCallProgress(ToolCallUpdate):
    """The session update `tool_call_update`: a tool call continues or ends."""

    session_update: Sent[Literal["tool_call_update"]] = "tool_call_update"


PermissionOptionKind = TypeAliasType(
    "PermissionOptionKind",
    Annotated[Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str, OpenEnum()],
)
"""The meaning of an option: allow or reject, once or always."""


class PermissionOption(Model):
    """An option of a permission request."""

    option_id: PermissionOptionId
    """Identifies the option."""
    name: str
    """Its label."""
    kind: PermissionOptionKind
    """Its meaning."""

    @classmethod
    def yes_or_no(cls, yes: str = "Allow", no: str = "Reject") -> list[Self]:
        """Return two options for one decision: `yes` allows the call, and `no` rejects it. Both arguments are
        labels."""
        return [cls(option_id="yes", name=yes, kind="allow_once"), cls(option_id="no", name=no, kind="reject_once")]


class RequestPermissionRequest(Model):
    """Parameters of `session/request_permission`."""

    session_id: SessionId
    """The session of the request."""
    tool_call: ToolCallUpdate
    """The tool call that waits for the decision."""
    options: Items[PermissionOption]
    """The options."""


class SelectedPermissionOutcome(Model):
    """The user chose an option."""

    outcome: Sent[Literal["selected"]] = "selected"
    option_id: PermissionOptionId
    """The chosen option."""


class CancelledPermissionOutcome(Record):
    """The turn was cancelled before the user chose."""

    outcome: Sent[Literal["cancelled"]] = "cancelled"


class UnknownPermissionOutcome(Unknown):
    """An outcome that this version does not have. It approves nothing."""

    outcome: UnknownTag


RequestPermissionOutcome = TypeAliasType(
    "RequestPermissionOutcome",
    Annotated[CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownPermissionOutcome, Tagged("outcome")],
)
"""The outcome, distinguished by `outcome`."""


class RequestPermissionResponse(Model):
    """Result of `session/request_permission`."""

    outcome: RequestPermissionOutcome
    """The outcome."""

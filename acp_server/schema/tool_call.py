"""What the agent does for the model, how the client sees it progress, and whether it may: `session/request_permission`.

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
"""What a tool does, so that a client can choose an icon and a layout."""

ToolCallStatus = TypeAliasType(
    "ToolCallStatus", Annotated[Literal["pending", "in_progress", "completed", "failed"] | str, OpenEnum()]
)
"""How far a tool call is. `pending`: its input is still streaming, or it waits for approval."""


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
    """A live terminal, shown inside the tool call. Attach it before it is released."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal, from `terminal/create`."""


class UnknownToolCallContent(Unknown):
    """A kind of tool output that this version does not have."""

    type: UnknownTag


ToolCallContent = TypeAliasType(
    "ToolCallContent", Annotated[Content | Diff | Terminal | UnknownToolCallContent, Tagged("type")]
)
"""One piece of a tool call's output, told apart by `type`."""


class ToolCallLocation(Model):
    """A place in a file that the tool works at, so that the client can follow along."""

    path: FilePath
    """Absolute path of the file."""
    line: Lenient[Line | None] = None
    """The line, counted from 1."""


class ToolCall(Model):
    """The session update `tool_call`: a tool call begins."""

    session_update: Sent[Literal["tool_call"]] = "tool_call"
    tool_call_id: ToolCallId
    """Names the call in later updates."""
    title: str
    """What the tool is doing, in words for the user."""
    name: Lenient[str | None] = None
    """The tool's name in code."""
    kind: Annotated[Lenient[ToolKind | None], CountsAs("other")] = None
    """What sort of tool it is; unset counts as `other`."""
    status: Annotated[Lenient[ToolCallStatus | None], CountsAs("pending")] = None
    """How far the call is; unset counts as `pending`."""
    content: Annotated[LenientItems[MaybeItems[ToolCallContent]], CountsAs([])] = UNSET
    """What the tool has produced."""
    locations: Annotated[LenientItems[MaybeItems[ToolCallLocation]], CountsAs([])] = UNSET
    """The places in files it works at."""
    raw_input: Lenient[Any] = None
    """The tool's input as the model gave it, any JSON."""
    raw_output: Lenient[Any] = None
    """The tool's output as it returned it, any JSON."""


class ToolCallUpdate(Model):
    """A change to a tool call: only what is set changes, and a list replaces the list before.

    As a session update it is a `ToolCallProgress`.
    """

    tool_call_id: ToolCallId
    """The call that changes."""
    title: Lenient[str | None] = None
    """What the tool is doing, in words for the user."""
    name: Lenient[str | None] = None
    """The tool's name in code."""
    kind: Lenient[ToolKind | None] = None
    """What sort of tool it is."""
    status: Lenient[ToolCallStatus | None] = None
    """How far the call is."""
    content: LenientItems[MaybeItems[ToolCallContent]] = UNSET
    """Everything the tool has produced so far."""
    locations: LenientItems[MaybeItems[ToolCallLocation]] = UNSET
    """The places in files it works at."""
    raw_input: Lenient[Any] = None
    """The tool's input as the model gave it, any JSON."""
    raw_output: Lenient[Any] = None
    """The tool's output as it returned it, any JSON."""


class ToolCallProgress(ToolCallUpdate):
    """The session update `tool_call_update`: a tool call goes on or ends."""

    session_update: Sent[Literal["tool_call_update"]] = "tool_call_update"


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

    @classmethod
    def yes_or_no(cls, yes: str = "Allow", no: str = "Reject") -> list[Self]:
        """A choice of two, for this once: `yes` allows and `no` rejects. Both are labels."""
        return [cls(option_id="yes", name=yes, kind="allow_once"), cls(option_id="no", name=no, kind="reject_once")]


class RequestPermissionRequest(Model):
    """Parameters of `session/request_permission`."""

    session_id: SessionId
    """The session that asks."""
    tool_call: ToolCallUpdate
    """The tool call that waits for the answer."""
    options: Items[PermissionOption]
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

    outcome: UnknownTag


RequestPermissionOutcome = TypeAliasType(
    "RequestPermissionOutcome",
    Annotated[CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownPermissionOutcome, Tagged("outcome")],
)
"""What became of the question, told apart by `outcome`."""


class RequestPermissionResponse(Model):
    """Result of `session/request_permission`."""

    outcome: RequestPermissionOutcome
    """What became of the question."""

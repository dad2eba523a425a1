"""What the agent does for the model, as the client sees it progress (ACP v2, tool calls)."""

from typing import Annotated, Any, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, LenientItems, Model, Sent, Unknown
from acp_server.schema.unions import OpenEnum, Tagged
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.diff import Diff
from acp_server.schema.v2.types import AbsolutePath, LineNumber, Patch, SessionId, TerminalId, ToolCallId

ToolKind = TypeAliasType(
    "ToolKind",
    Annotated[
        Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"] | str,
        OpenEnum(extensible=True),
    ],
)
"""What a tool does, so that a client can choose an icon and a layout. Names of one's own begin with `_`."""

ToolCallStatus = TypeAliasType(
    "ToolCallStatus",
    Annotated[
        Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"] | str,
        OpenEnum(extensible=True),
    ],
)
"""How far a tool call is; `completed`, `failed` and `cancelled` are final. Names of one's own begin with `_`."""


class Content(Model):
    """A content block that a tool produced."""

    type: Sent[Literal["content"]] = "content"
    content: ContentBlock
    """The block."""


class Terminal(Model):
    """The place in a tool call where a terminal of the agent is shown."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal; `terminal_update` says what is in it."""


class UnknownToolCallContent(Unknown):
    """A kind of tool output that this version does not have."""

    type: str


ToolCallContent = TypeAliasType(
    "ToolCallContent",
    Annotated[Content | Diff | Terminal | UnknownToolCallContent, Tagged("type", extensible=True)],
)
"""One piece of a tool call's output, told apart by `type`."""


class ToolCallLocation(Model):
    """A place in a file that the tool works at, so that the client can follow along."""

    path: AbsolutePath
    """The file."""
    line: Lenient[LineNumber | None] = None
    """The line, counted from 1."""


class ToolCallCancelCapabilities(Model):
    """The client may send `tool_call/cancel` for this call."""


class ToolCallCapabilities(Model):
    """What the client can do to a tool call at present."""

    cancel: Lenient[ToolCallCancelCapabilities | None] = None
    """Cancel it alone."""


class ToolCallUpdate(Patch):
    """A tool call, or a change to it: the first update with an id makes the call.

    As a session update it is a `ToolCallProgress`.
    """

    tool_call_id: ToolCallId
    """The call."""
    name: Lenient[str | None] = None
    """The tool's name in code."""
    title: Lenient[str | None] = None
    """What the tool is doing, in words for the user."""
    kind: Lenient[ToolKind | None] = None
    """What sort of tool it is: `other` for a new call, and when it is cleared."""
    status: Lenient[ToolCallStatus | None] = None
    """How far the call is: `pending` for a new call, and when it is cleared."""
    content: LenientItems[list[ToolCallContent] | None] = None
    """Everything the tool has produced so far."""
    locations: LenientItems[list[ToolCallLocation] | None] = None
    """The places in files it works at."""
    raw_input: Lenient[Any] = None
    """The tool's input as the model gave it, any JSON."""
    raw_output: Lenient[Any] = None
    """The tool's output as it returned it, any JSON."""
    capabilities: Lenient[ToolCallCapabilities | None] = None
    """What the client can do to the call at present: nothing for a new call, and when it is cleared."""


class ToolCallProgress(ToolCallUpdate):
    """The session update `tool_call_update`."""

    session_update: Sent[Literal["tool_call_update"]] = "tool_call_update"


class ToolCallContentChunk(Model):
    """The session update `tool_call_content_chunk`: one more piece of a tool call's output."""

    session_update: Sent[Literal["tool_call_content_chunk"]] = "tool_call_content_chunk"
    tool_call_id: ToolCallId
    """The call."""
    content: ToolCallContent
    """The piece to append."""


class CancelToolCallRequest(Model):
    """Parameters of `tool_call/cancel`. Only while the call says `capabilities.cancel`."""

    session_id: SessionId
    """The session."""
    tool_call_id: ToolCallId
    """The call to cancel."""


class CancelToolCallResponse(Model):
    """Result of `tool_call/cancel`: accepted. The call has stopped when its status is final."""

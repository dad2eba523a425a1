"""What the agent does for the model, as the client sees it progress: tool calls, changes to files, terminals.

ACP v2: tool calls, terminals. The bytes of a terminal are raw: a chunk may end inside of a UTF-8 character or of an
escape sequence.
"""

from typing import Annotated, Any, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    UNSET,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Sent,
    Unknown,
    UnknownTag,
    Wire,
)
from acp_server.schema.tool_call import UnknownToolCallContent
from acp_server.schema.types import Int64, Tagged
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.types import (
    AbsolutePath,
    Base64,
    Cells,
    LineNumber,
    MediaType,
    Patch,
    SessionId,
    TerminalId,
    ToolCallId,
)
from acp_server.schema.words import OpenEnum

DiffFileType = TypeAliasType(
    "DiffFileType",
    Annotated[Literal["text", "binary", "directory", "symlink"] | str, OpenEnum(extensible=True)],
)
"""What is at a path. Names of one's own begin with `_`."""

DiffPatchFormat = TypeAliasType("DiffPatchFormat", Annotated[Literal["git_patch"] | str, OpenEnum(extensible=True)])
"""The form of a patch's text. Names of one's own begin with `_`."""


class DiffPathChange(Model):
    """A change to what is at one path."""

    path: AbsolutePath
    """The path that changes."""
    file_type: Lenient[DiffFileType | None] = None
    """What is there."""
    mime_type: Lenient[MediaType | None] = None
    """Its media type."""


class DiffPathPairChange(DiffPathChange):
    """A change that has two paths; `path` is the new one."""

    old_path: AbsolutePath
    """The path it was at."""


class DiffAdd(DiffPathChange):
    """A file is new."""

    operation: Sent[Literal["add"]] = "add"


class DiffDelete(DiffPathChange):
    """A file is gone."""

    operation: Sent[Literal["delete"]] = "delete"


class DiffModify(DiffPathChange):
    """A file is changed where it is."""

    operation: Sent[Literal["modify"]] = "modify"


class DiffMove(DiffPathPairChange):
    """A file is at another path, perhaps changed."""

    operation: Sent[Literal["move"]] = "move"


class DiffCopy(DiffPathPairChange):
    """A file is a copy of another, perhaps changed."""

    operation: Sent[Literal["copy"]] = "copy"


class UnknownDiffChange(Unknown):
    """A kind of change that this version does not have."""

    operation: UnknownTag


DiffChange = TypeAliasType(
    "DiffChange",
    Annotated[
        DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy | UnknownDiffChange,
        Tagged("operation", extensible=True),
    ],
)
"""One change, told apart by `operation`."""


class DiffPatch(Model):
    """The text of changes, to be shown."""

    format: DiffPatchFormat
    """Its form."""
    text: str
    """The text."""


class Diff(Model):
    """Changes to files. `changes` decides; `patch` is what a client shows of them."""

    type: Sent[Literal["diff"]] = "diff"
    changes: Annotated[Items[DiffChange], Wire(skip_items=True)]
    """What changes, path by path."""
    patch: Lenient[DiffPatch | None] = None
    """The text of some or all of the changes."""


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
    content: LenientItems[MaybeItems[ToolCallContent]] = UNSET
    """Everything the tool has produced so far."""
    locations: LenientItems[MaybeItems[ToolCallLocation]] = UNSET
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


class TerminalOutput(Model):
    """Everything that a terminal shows, in the place of what it showed before."""

    data: Base64
    """The bytes, base64."""


class TerminalExitStatus(Model):
    """How the command ended. That it is there says that the command has ended, even if it is empty."""

    exit_code: Lenient[Int64 | None] = None
    """The exit code of the process, as its platform has it; it may be negative."""
    signal: Lenient[str | None] = None
    """The signal that ended the process, such as `SIGTERM`."""


class TerminalSize(Model):
    """The size that the command was told."""

    cols: Cells
    """Columns."""
    rows: Cells
    """Rows."""


class TerminalCancelCapabilities(Model):
    """The client may send `terminal/cancel` for this terminal."""


class TerminalCapabilities(Model):
    """What the client can do to a terminal at present."""

    cancel: Lenient[TerminalCancelCapabilities | None] = None
    """Cancel its command alone."""


class TerminalUpdate(Patch):
    """The session update `terminal_update`: a terminal, or a change to it."""

    session_update: Sent[Literal["terminal_update"]] = "terminal_update"
    terminal_id: TerminalId
    """The terminal; the first update with an id makes it."""
    command: Lenient[str | None] = None
    """The command that runs in it."""
    cwd: Lenient[AbsolutePath | None] = None
    """The working directory of the command."""
    output: Lenient[TerminalOutput | None] = None
    """Everything it shows, in the place of what it showed before."""
    exit_status: Lenient[TerminalExitStatus | None] = None
    """How the command ended."""
    size: Lenient[TerminalSize | None] = None
    """The size that the command was told."""
    capabilities: Lenient[TerminalCapabilities | None] = None
    """What the client can do to it at present: nothing for a new terminal, and when it is cleared."""


class TerminalOutputChunk(Model):
    """The session update `terminal_output_chunk`: more output of a terminal."""

    session_update: Sent[Literal["terminal_output_chunk"]] = "terminal_output_chunk"
    terminal_id: TerminalId
    """The terminal."""
    data: Base64
    """The bytes to append; each chunk is base64 by itself."""


class CancelTerminalRequest(Model):
    """Parameters of `terminal/cancel`. Only while the terminal says `capabilities.cancel`."""

    session_id: SessionId
    """The session."""
    terminal_id: TerminalId
    """The terminal whose command is cancelled."""


class CancelTerminalResponse(Model):
    """Result of `terminal/cancel`: accepted. The command has ended when there is an `exitStatus`."""

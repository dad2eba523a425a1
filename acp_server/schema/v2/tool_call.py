"""Tool calls, terminals, and changes to files: the agent's work for the model as the client sees it.

ACP v2: tool calls, terminals. A terminal's output is raw bytes, so a chunk may end within a UTF-8 character or an
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
"""The type of file at a path. Custom types begin with `_`."""

DiffPatchFormat = TypeAliasType("DiffPatchFormat", Annotated[Literal["git_patch"] | str, OpenEnum(extensible=True)])
"""The format of a patch's text. Custom formats begin with `_`."""


class DiffPathChange(Model):
    """A change at one path."""

    path: AbsolutePath
    """The path."""
    file_type: Lenient[DiffFileType | None] = None
    """The type of the file."""
    mime_type: Lenient[MediaType | None] = None
    """Its media type."""


class DiffPathPairChange(DiffPathChange):
    """A change with two paths. `path` is the new path."""

    old_path: AbsolutePath
    """The old path."""


class DiffAdd(DiffPathChange):
    """A file is added."""

    operation: Sent[Literal["add"]] = "add"


class DiffDelete(DiffPathChange):
    """A file is deleted."""

    operation: Sent[Literal["delete"]] = "delete"


class DiffModify(DiffPathChange):
    """A file is modified."""

    operation: Sent[Literal["modify"]] = "modify"


class DiffMove(DiffPathPairChange):
    """A file is moved, and perhaps modified."""

    operation: Sent[Literal["move"]] = "move"


class DiffCopy(DiffPathPairChange):
    """A file is copied, and the copy perhaps modified."""

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
"""One change, distinguished by `operation`."""


class DiffPatch(Model):
    """The text of changes, for display."""

    format: DiffPatchFormat
    """Its format."""
    text: str
    """The text."""


class Diff(Model):
    """Changes to files. `changes` is authoritative; `patch` is for display."""

    type: Sent[Literal["diff"]] = "diff"
    changes: Annotated[Items[DiffChange], Wire(skip_items=True)]
    """The changes, one for each path."""
    patch: Lenient[DiffPatch | None] = None
    """The text of some or all of the changes."""


ToolKind = TypeAliasType(
    "ToolKind",
    Annotated[
        Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"] | str,
        OpenEnum(extensible=True),
    ],
)
"""The kind of a tool, by which a client chooses an icon and a layout. Custom kinds begin with `_`."""

ToolCallStatus = TypeAliasType(
    "ToolCallStatus",
    Annotated[
        Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"] | str,
        OpenEnum(extensible=True),
    ],
)
"""The status of a tool call; `completed`, `failed` and `cancelled` are final. Custom statuses begin with `_`."""


class Content(Model):
    """A content block that a tool produced."""

    type: Sent[Literal["content"]] = "content"
    content: ContentBlock
    """The block."""


class Terminal(Model):
    """Shows a terminal of the agent within a tool call."""

    type: Sent[Literal["terminal"]] = "terminal"
    terminal_id: TerminalId
    """The terminal, whose content is in `terminal_update`."""


ToolCallContent = TypeAliasType(
    "ToolCallContent",
    Annotated[Content | Diff | Terminal | UnknownToolCallContent, Tagged("type", extensible=True)],
)
"""One item of a tool call's output, distinguished by `type`."""


class ToolCallLocation(Model):
    """A position in a file where the tool works, so that the client can follow it."""

    path: AbsolutePath
    """The file."""
    line: Lenient[LineNumber | None] = None
    """The line, counted from 1."""


class ToolCallCancelCapabilities(Model):
    """The client may send `tool_call/cancel` for this call."""


class ToolCallCapabilities(Model):
    """The requests that the client may currently send about a tool call."""

    cancel: Lenient[ToolCallCancelCapabilities | None] = None
    """Cancel only this call."""


class ToolCallUpdate(Patch):
    """A tool call, or a patch of it: the first update with an id creates the call.

    As a session update it is a `ToolCallProgress`.
    """

    tool_call_id: ToolCallId
    """The call."""
    name: Lenient[str | None] = None
    """The tool's name in code."""
    title: Lenient[str | None] = None
    """The tool's present work, as a text for the user."""
    kind: Lenient[ToolKind | None] = None
    """The kind of the tool. It is `other` for a new call, and after it was cleared."""
    status: Lenient[ToolCallStatus | None] = None
    """The status of the call. It is `pending` for a new call, and after it was cleared."""
    content: LenientItems[MaybeItems[ToolCallContent]] = UNSET
    """The whole output so far."""
    locations: LenientItems[MaybeItems[ToolCallLocation]] = UNSET
    """The positions in files where the tool works."""
    raw_input: Lenient[Any] = None
    """The tool's input as the model gave it, any JSON."""
    raw_output: Lenient[Any] = None
    """The tool's output as it returned it, any JSON."""
    capabilities: Lenient[ToolCallCapabilities | None] = None
    """The requests that the client may currently send about the call. There are none for a new call, and after they
    were cleared."""


class ToolCallProgress(ToolCallUpdate):
    """The session update `tool_call_update`."""

    session_update: Sent[Literal["tool_call_update"]] = "tool_call_update"


class ToolCallContentChunk(Model):
    """The session update `tool_call_content_chunk`: one more item of a tool call's output."""

    session_update: Sent[Literal["tool_call_content_chunk"]] = "tool_call_content_chunk"
    tool_call_id: ToolCallId
    """The call."""
    content: ToolCallContent
    """The item to append."""


class CancelToolCallRequest(Model):
    """Parameters of `tool_call/cancel`. Only while the call has `capabilities.cancel`."""

    session_id: SessionId
    """The session."""
    tool_call_id: ToolCallId
    """The call to cancel."""


class CancelToolCallResponse(Model):
    """Result of `tool_call/cancel`: the request was accepted. The call has ended when its status is final."""


class TerminalOutput(Model):
    """The whole output of a terminal. It replaces the terminal's output so far."""

    data: Base64
    """The bytes, base64."""


class TerminalExitStatus(Model):
    """How the command ended. Its presence means that the command has ended, even if it is empty."""

    exit_code: Lenient[Int64 | None] = None
    """The exit code of the process on its platform; it may be negative."""
    signal: Lenient[str | None] = None
    """The signal that ended the process, such as `SIGTERM`."""


class TerminalSize(Model):
    """The terminal size that the command sees."""

    cols: Cells
    """Columns."""
    rows: Cells
    """Rows."""


class TerminalCancelCapabilities(Model):
    """The client may send `terminal/cancel` for this terminal."""


class TerminalCapabilities(Model):
    """The requests that the client may currently send about a terminal."""

    cancel: Lenient[TerminalCancelCapabilities | None] = None
    """Cancel only the terminal's command."""


class TerminalUpdate(Patch):
    """The session update `terminal_update`: a terminal, or a change to it."""

    session_update: Sent[Literal["terminal_update"]] = "terminal_update"
    terminal_id: TerminalId
    """The terminal. The first update with an id creates the terminal."""
    command: Lenient[str | None] = None
    """Its command."""
    cwd: Lenient[AbsolutePath | None] = None
    """The working directory of the command."""
    output: Lenient[TerminalOutput | None] = None
    """The whole output. It replaces the output so far."""
    exit_status: Lenient[TerminalExitStatus | None] = None
    """How the command ended."""
    size: Lenient[TerminalSize | None] = None
    """The terminal size that the command sees."""
    capabilities: Lenient[TerminalCapabilities | None] = None
    """The requests that the client may currently send about the terminal. There are none for a new terminal, and after
    they were cleared."""


class TerminalOutputChunk(Model):
    """The session update `terminal_output_chunk`: more output of a terminal."""

    session_update: Sent[Literal["terminal_output_chunk"]] = "terminal_output_chunk"
    terminal_id: TerminalId
    """The terminal."""
    data: Base64
    """The bytes to append. Each chunk is encoded as base64 separately."""


class CancelTerminalRequest(Model):
    """Parameters of `terminal/cancel`. Only while the terminal has `capabilities.cancel`."""

    session_id: SessionId
    """The session."""
    terminal_id: TerminalId
    """The terminal whose command is cancelled."""


class CancelTerminalResponse(Model):
    """Result of `terminal/cancel`: the request was accepted. The command has ended when there is an `exitStatus`."""

"""Terminals that the agent runs and the client shows (ACP v2, terminals).

The bytes are raw: a chunk may end inside of a UTF-8 character or of an escape sequence.
"""

from typing import Literal

from acp_server.schema.base import Lenient, Model, Sent
from acp_server.schema.types import Int64
from acp_server.schema.v2.types import AbsolutePath, Base64, Cells, Patch, SessionId, TerminalId


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

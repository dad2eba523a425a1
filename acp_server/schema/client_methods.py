"""What the agent asks of the client: files, unsaved changes included, and commands that it runs (protocol: file system,
terminals). Only for clients that have announced it, with `fs` and `terminal`.
"""

from acp_server.schema.base import Items, Lenient, Model, NullIsDefault, Sparse, no_items
from acp_server.schema.session import EnvVariable
from acp_server.schema.types import Bool, FilePath, Line, SessionId, TerminalId, UInt32, UInt64


class ReadTextFileRequest(Model):
    """Parameters of `fs/read_text_file`. Only for clients with `fs.readTextFile`."""

    session_id: SessionId
    """The session that asks."""
    path: FilePath
    """Absolute path of the file."""
    line: Line | None = None
    """The first line to read, counted from 1."""
    limit: UInt32 | None = None
    """How many lines to read at most."""


class ReadTextFileResponse(Model):
    """Result of `fs/read_text_file`."""

    content: str
    """The text."""


class WriteTextFileRequest(Model):
    """Parameters of `fs/write_text_file`. Only for clients with `fs.writeTextFile`."""

    session_id: SessionId
    """The session that asks."""
    path: FilePath
    """Absolute path of the file, which is made if it is not there."""
    content: str
    """The whole text."""


class WriteTextFileResponse(Model):
    """Result of `fs/write_text_file`: it is written."""


class CreateTerminalRequest(Sparse, Model):
    """Parameters of `terminal/create`: run a command. The terminal lives until it is released."""

    session_id: SessionId
    """The session that asks."""
    command: str
    """The program."""
    args: NullIsDefault[Items[str]] = no_items()
    """Its arguments."""
    env: NullIsDefault[Items[EnvVariable]] = no_items()
    """Variables added to its environment."""
    cwd: FilePath | None = None
    """Where it runs, an absolute path."""
    output_byte_limit: UInt64 | None = None
    """How many bytes of output are kept; the oldest go first, whole characters at a time."""


class CreateTerminalResponse(Model):
    """Result of `terminal/create`: the command has been started."""

    terminal_id: TerminalId
    """The terminal it runs in."""


class _OfTerminal(Model):
    """What every request about a terminal has."""

    session_id: SessionId
    """The session that asks."""
    terminal_id: TerminalId
    """The terminal."""


class TerminalOutputRequest(_OfTerminal):
    """Parameters of `terminal/output`."""


class TerminalExitStatus(Model):
    """How a command ended."""

    exit_code: Lenient[UInt32 | None] = None
    """Its exit status; None if a signal ended it."""
    signal: Lenient[str | None] = None
    """The signal that ended it; None if it ended by itself."""


class TerminalOutputResponse(Model):
    """Result of `terminal/output`: what there is, at once."""

    output: str
    """The output kept so far."""
    truncated: Bool
    """Whether older output has been dropped."""
    exit_status: Lenient[TerminalExitStatus | None] = None
    """How the command ended; None while it runs."""


class WaitForTerminalExitRequest(_OfTerminal):
    """Parameters of `terminal/wait_for_exit`."""


class WaitForTerminalExitResponse(TerminalExitStatus):
    """Result of `terminal/wait_for_exit`: the command has ended."""


class KillTerminalRequest(_OfTerminal):
    """Parameters of `terminal/kill`: end the command, keep the terminal and its output."""


class KillTerminalResponse(Model):
    """Result of `terminal/kill`."""


class ReleaseTerminalRequest(_OfTerminal):
    """Parameters of `terminal/release`: end the command if it runs, and free the terminal."""


class ReleaseTerminalResponse(Model):
    """Result of `terminal/release`."""

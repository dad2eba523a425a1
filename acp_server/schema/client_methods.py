"""Requests of the agent to the client: files, including unsaved changes, and commands (protocol: file system,
terminals). An agent may send them only if the client has announced `fs` or `terminal`."""

from acp_server.schema.base import Items, Lenient, Model, NullIsDefault, Sparse, no_items
from acp_server.schema.session import EnvVariable
from acp_server.schema.types import Bool, FilePath, Line, SessionId, TerminalId, UInt32, UInt64


class ReadTextFileRequest(Model):
    """Parameters of `fs/read_text_file`. Only for clients with `fs.readTextFile`."""

    session_id: SessionId
    """The session of the request."""
    path: FilePath
    """Absolute path of the file."""
    line: Line | None = None
    """The first line to read, counted from 1."""
    limit: UInt32 | None = None
    """The most lines to read."""


class ReadTextFileResponse(Model):
    """Result of `fs/read_text_file`."""

    content: str
    """The text."""


class WriteTextFileRequest(Model):
    """Parameters of `fs/write_text_file`. Only for clients with `fs.writeTextFile`."""

    session_id: SessionId
    """The session of the request."""
    path: FilePath
    """Absolute path of the file, which is created if it does not exist."""
    content: str
    """The whole text."""


class WriteTextFileResponse(Model):
    """Result of `fs/write_text_file`: the file was written."""


class CreateTerminalRequest(Sparse, Model):
    """Parameters of `terminal/create`: run a command. The terminal lives until it is released."""

    session_id: SessionId
    """The session of the request."""
    command: str
    """The program."""
    args: NullIsDefault[Items[str]] = no_items()
    """Its arguments."""
    env: NullIsDefault[Items[EnvVariable]] = no_items()
    """Variables added to its environment."""
    cwd: FilePath | None = None
    """The working directory, an absolute path."""
    output_byte_limit: UInt64 | None = None
    """The most bytes of output to keep. Above this limit the oldest output is dropped, in whole characters."""


class CreateTerminalResponse(Model):
    """Result of `terminal/create`: the command has been started."""

    terminal_id: TerminalId
    """The terminal in which the command runs."""


class _OfTerminal(Model):
    """The members of every request about a terminal."""

    session_id: SessionId
    """The session of the request."""
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
    """Result of `terminal/output`: the present output, without waiting for more."""

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
    """Parameters of `terminal/kill`: kill the command, and keep the terminal and its output."""


class KillTerminalResponse(Model):
    """Result of `terminal/kill`."""


class ReleaseTerminalRequest(_OfTerminal):
    """Parameters of `terminal/release`: kill the command if it runs, and release the terminal."""


class ReleaseTerminalResponse(Model):
    """Result of `terminal/release`."""

"""Files as the client sees them, unsaved changes included (protocol: file system)."""

from acp_server.schema.base import Model
from acp_server.schema.types import SessionId, UInt32

__all__ = [
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
]


class ReadTextFileRequest(Model):
    """Parameters of `fs/read_text_file`. Only for clients with `fs.readTextFile`."""

    session_id: SessionId
    """The session that asks."""
    path: str
    """Absolute path of the file."""
    line: UInt32 | None = None
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
    path: str
    """Absolute path of the file, which is made if it is not there."""
    content: str
    """The whole text."""


class WriteTextFileResponse(Model):
    """Result of `fs/write_text_file`: it is written."""

"""The life of a session: new, resume, list, close, delete; the MCP servers that it is opened with, its commands.

ACP v2: session setup, session list, session delete, slash commands.
"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, LenientItems, Model, NullIsDefault, Sent, Sparse, Unknown
from acp_server.schema.session import CloseSessionRequest as CloseSessionRequest
from acp_server.schema.session import CloseSessionResponse as CloseSessionResponse
from acp_server.schema.session import DeleteSessionRequest as DeleteSessionRequest
from acp_server.schema.session import DeleteSessionResponse as DeleteSessionResponse
from acp_server.schema.session import EnvVariable, HttpHeader, UnknownMcpServer
from acp_server.schema.types import Tagged, Uri
from acp_server.schema.v2.config_options import SessionConfigOption
from acp_server.schema.v2.types import AbsolutePath, SessionId, SessionListCursor, Timestamp


class McpServerStdio(Sparse, Model):
    """An MCP server to start as a process and talk to over its standard streams. Only with `session.mcp.stdio`."""

    type: Sent[Literal["stdio"]] = "stdio"
    name: str
    """A name for the user."""
    command: AbsolutePath
    """The executable."""
    args: NullIsDefault[list[str]] = Field(default_factory=list[str])
    """Its arguments."""
    env: NullIsDefault[list[EnvVariable]] = Field(default_factory=list[EnvVariable])
    """Variables added to its environment."""


class McpServerHttp(Sparse, Model):
    """An MCP server reached over streamable HTTP. Only with `session.mcp.http`."""

    type: Sent[Literal["http"]] = "http"
    name: str
    """A name for the user."""
    url: Uri
    """Where it is."""
    headers: NullIsDefault[list[HttpHeader]] = Field(default_factory=list[HttpHeader])
    """Headers to send with every request."""


McpServer = TypeAliasType(
    "McpServer", Annotated[McpServerHttp | McpServerStdio | UnknownMcpServer, Tagged("type", extensible=True)]
)
"""An MCP server, told apart by `type`."""


class TextCommandInput(Model):
    """The command takes whatever is typed after its name."""

    type: Sent[Literal["text"]] = "text"
    hint: str
    """Shown while nothing has been typed."""


class UnknownCommandInput(Unknown):
    """Input in a form that this version does not have."""

    type: str


AvailableCommandInput = TypeAliasType(
    "AvailableCommandInput", Annotated[TextCommandInput | UnknownCommandInput, Tagged("type", extensible=True)]
)
"""What a command takes, told apart by `type`."""


class Command(Model):
    """A command that is typed with a slash before its name."""

    type: Sent[Literal["command"]] = "command"
    name: str
    """The name, without the slash."""
    description: str
    """What the command does."""
    input: Lenient[AvailableCommandInput | None] = None
    """What it takes; None for nothing."""


class UnknownCommand(Unknown):
    """A kind of command that this version does not have."""

    type: str
    name: str
    """The name."""
    description: str
    """What the command does."""


AvailableCommand = TypeAliasType(
    "AvailableCommand", Annotated[Command | UnknownCommand, Tagged("type", extensible=True)]
)
"""A command, told apart by `type`."""


class _Setup(Sparse, Model):
    """What a session works with."""

    cwd: AbsolutePath
    """The working directory."""
    additional_directories: NullIsDefault[list[AbsolutePath]] = Field(default_factory=list[AbsolutePath])
    """More roots that the agent may work in. Only for agents with `session.additionalDirectories`."""
    mcp_servers: NullIsDefault[list[McpServer]] = Field(default_factory=list[McpServer])
    """The MCP servers to connect to."""


class _Ready(Sparse, Model):
    """What a session that was made or taken up offers."""

    config_options: LenientItems[list[SessionConfigOption]] = Field(default_factory=list[SessionConfigOption])
    """Its configuration options."""
    available_commands: LenientItems[list[AvailableCommand]] = Field(default_factory=list[AvailableCommand])
    """Its commands."""


class NewSessionRequest(_Setup):
    """Parameters of `session/new`."""


class NewSessionResponse(_Ready):
    """Result of `session/new`."""

    session_id: SessionId
    """The new session."""


class ReplayFromStart(Model):
    """Replay everything."""

    type: Sent[Literal["start"]] = "start"


class UnknownReplayFrom(Unknown):
    """A place that this version does not have. An agent that does not know it refuses the request."""

    type: str


ReplayFrom = TypeAliasType(
    "ReplayFrom", Annotated[ReplayFromStart | UnknownReplayFrom, Tagged("type", extensible=True)]
)
"""Where the replay of a session begins, told apart by `type`."""


class ResumeSessionRequest(_Setup):
    """Parameters of `session/resume`: take a session up again, replayed if `replay_from` is given."""

    session_id: SessionId
    """The session to take up."""
    replay_from: ReplayFrom | None = None
    """Where the replay begins; None for no replay."""


class ResumeSessionResponse(_Ready):
    """Result of `session/resume`: what was asked for has been replayed, and the session's state was sent."""


class ListSessionsRequest(Model):
    """Parameters of `session/list`."""

    cwd: AbsolutePath | None = None
    """Only sessions of this working directory."""
    cursor: SessionListCursor | None = None
    """Where to go on: `next_cursor` of the page before."""


class SessionInfo(Sparse, Model):
    """A session in a list."""

    session_id: SessionId
    """The session."""
    cwd: AbsolutePath
    """Its working directory."""
    additional_directories: NullIsDefault[list[AbsolutePath]] = Field(default_factory=list[AbsolutePath])
    """All its other roots."""
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[Timestamp | None] = None
    """When something last happened in it, RFC 3339."""


class ListSessionsResponse(Model):
    """Result of `session/list`: one page."""

    sessions: LenientItems[list[SessionInfo]]
    """The sessions of this page."""
    next_cursor: SessionListCursor | None = None
    """Where the next page begins; None on the last page."""

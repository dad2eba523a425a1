"""A session: new, resume, fork, list, close, delete, title, archive, status; the MCP servers and the system prompt that
it is opened with, its commands, and the settings that the user can change. Modes are options here.

ACP v2: session setup, session list, session delete, slash commands, session config options.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, Tag
from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    Items,
    Lenient,
    LenientItems,
    Model,
    NullIsDefault,
    Sent,
    Sparse,
    Unknown,
    UnknownTag,
    Wire,
    no_items,
)
from acp_server.schema.config_options import SessionConfigOptionCategory, SessionConfigSelectOption, by_first_item
from acp_server.schema.session import ArchiveSessionRequest as ArchiveSessionRequest
from acp_server.schema.session import ArchiveSessionResponse as ArchiveSessionResponse
from acp_server.schema.session import CloseSessionRequest as CloseSessionRequest
from acp_server.schema.session import CloseSessionResponse as CloseSessionResponse
from acp_server.schema.session import DeleteSessionRequest as DeleteSessionRequest
from acp_server.schema.session import DeleteSessionResponse as DeleteSessionResponse
from acp_server.schema.session import EnvVariable, HttpHeader, SessionArchiveFilter, SystemPromptMode, UnknownMcpServer
from acp_server.schema.session import SessionStatusRequest as SessionStatusRequest
from acp_server.schema.session import SetSessionTitleRequest as SetSessionTitleRequest
from acp_server.schema.session import SetSessionTitleResponse as SetSessionTitleResponse
from acp_server.schema.session import UnarchiveSessionRequest as UnarchiveSessionRequest
from acp_server.schema.session import UnarchiveSessionResponse as UnarchiveSessionResponse
from acp_server.schema.types import Bool, FirstProblem, Tagged, Uri
from acp_server.schema.v2.content import ContentBlock
from acp_server.schema.v2.types import (
    AbsolutePath,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    SessionListCursor,
    Timestamp,
)


class McpServerStdio(Sparse, Model):
    """An MCP server to start as a process and talk to over its standard streams. Only with `session.mcp.stdio`."""

    type: Sent[Literal["stdio"]] = "stdio"
    name: str
    """A name for the user."""
    command: AbsolutePath
    """The executable."""
    args: NullIsDefault[Items[str]] = no_items()
    """Its arguments."""
    env: NullIsDefault[Items[EnvVariable]] = no_items()
    """Variables added to its environment."""


class McpServerHttp(Sparse, Model):
    """An MCP server reached over streamable HTTP. Only with `session.mcp.http`."""

    type: Sent[Literal["http"]] = "http"
    name: str
    """A name for the user."""
    url: Uri
    """Where it is."""
    headers: NullIsDefault[Items[HttpHeader]] = no_items()
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

    type: UnknownTag


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

    type: UnknownTag
    name: str
    """The name."""
    description: str
    """What the command does."""


AvailableCommand = TypeAliasType(
    "AvailableCommand", Annotated[Command | UnknownCommand, Tagged("type", extensible=True)]
)
"""A command, told apart by `type`."""


class SessionConfigSelectGroup(Model):
    """Values shown under a heading."""

    group_id: SessionConfigGroupId
    """Names the group."""
    name: str
    """The heading."""
    # An empty list is not refused: it is what is left when every item was wrong.
    options: LenientItems[Annotated[Items[SessionConfigSelectOption], Field(json_schema_extra={"minItems": 1})]]
    """The values, in order."""


SessionConfigSelectOptions = TypeAliasType(
    "SessionConfigSelectOptions",
    Annotated[
        Annotated[list[SessionConfigSelectOption], Field(min_length=1), Tag("SessionConfigSelectOption")]
        | Annotated[list[SessionConfigSelectGroup], Field(min_length=1), Tag("SessionConfigSelectGroup")],
        by_first_item("groupId"),
        FirstProblem(),
    ],
)
"""The values to choose from: all under headings, or none."""


class _ConfigOption(Model):
    """What every configuration option has."""

    config_id: SessionConfigId
    """Names the option."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what it changes."""
    category: Lenient[SessionConfigOptionCategory | None] = None
    """What it is about."""


class SessionConfigSelect(_ConfigOption):
    """An option with one value out of a list."""

    type: Sent[Literal["select"]] = "select"
    current_value: SessionConfigValueId
    """The value it has."""
    options: SessionConfigSelectOptions
    """The values to choose from."""


class SessionConfigBoolean(_ConfigOption):
    """An option that is on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    current_value: Bool
    """Whether it is on."""


class UnknownSessionConfigOption(Unknown):
    """A kind of option that this version does not have; it keeps its value."""

    type: UnknownTag
    config_id: SessionConfigId
    """Names the option."""
    name: str
    """A name for the user."""


SessionConfigOption = TypeAliasType(
    "SessionConfigOption",
    Annotated[SessionConfigSelect | SessionConfigBoolean | UnknownSessionConfigOption, Tagged("type", extensible=True)],
)
"""A configuration option and its present value, told apart by `type`."""


class _SetOption(Model):
    """What every change of an option has."""

    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option to change."""


class SetSessionConfigValue(_SetOption):
    """Give an option one of its values."""

    type: Sent[Literal["id"]] = "id"
    value: SessionConfigValueId
    """The value to give it."""


class SetSessionConfigBoolean(_SetOption):
    """Switch an option on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    value: Bool
    """Whether it is on."""


class UnknownSessionConfigValue(Unknown):
    """A kind of value that this version does not have."""

    type: UnknownTag
    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option to change."""
    value: Any
    """The value to give it, any JSON."""


SetSessionConfigOptionRequest = TypeAliasType(
    "SetSessionConfigOptionRequest",
    Annotated[
        SetSessionConfigValue | SetSessionConfigBoolean | UnknownSessionConfigValue, Tagged("type", extensible=True)
    ],
)
"""Parameters of `session/set_config_option`, told apart by `type`."""


class SetSessionConfigOptionResponse(Model):
    """Result of `session/set_config_option`."""

    config_options: Annotated[Items[SessionConfigOption], Wire(skip_items=True)]
    """All options with their present values; a change of one may have changed others."""


class SystemPrompt(Model):
    """The client's instructions for a session. Only for agents with `session.systemPrompt`."""

    mode: SystemPromptMode
    """Beside the agent's own instructions, or in their place."""
    content: Items[ContentBlock]
    """The instructions, text blocks, at least one. An agent refuses other kinds of block."""


class _Setup(Sparse, Model):
    """What a session works with."""

    cwd: AbsolutePath
    """The working directory."""
    additional_directories: NullIsDefault[Items[AbsolutePath]] = no_items()
    """More roots that the agent may work in. Only for agents with `session.additionalDirectories`."""
    mcp_servers: NullIsDefault[Items[McpServer]] = no_items()
    """The MCP servers to connect to."""
    system_prompt: SystemPrompt | None = None
    """The client's instructions; None for the agent's own alone, or those of before. Only for agents with
    `session.systemPrompt`."""


class _Ready(Sparse, Model):
    """What a session that was made or taken up offers."""

    config_options: LenientItems[Items[SessionConfigOption]] = no_items()
    """Its configuration options."""
    available_commands: LenientItems[Items[AvailableCommand]] = no_items()
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

    type: UnknownTag


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


class ForkSessionRequest(_Setup):
    """Parameters of `session/fork`: a new session that begins with what `session_id` has said. Only for agents with
    `session.fork`."""

    session_id: SessionId
    """The session to begin with."""


class ForkSessionResponse(_Ready):
    """Result of `session/fork`. Nothing is replayed."""

    session_id: SessionId
    """The new session."""


class ListSessionsRequest(Model):
    """Parameters of `session/list`."""

    cwd: AbsolutePath | None = None
    """Only sessions of this working directory."""
    cursor: SessionListCursor | None = None
    """Where to go on: `next_cursor` of the page before."""
    archived: SessionArchiveFilter | None = None
    """Archived sessions, others, or both; None for `exclude`. Only for agents with `session.archive`."""


class SessionInfo(Sparse, Model):
    """A session in a list."""

    session_id: SessionId
    """The session."""
    cwd: AbsolutePath
    """Its working directory."""
    additional_directories: NullIsDefault[Items[AbsolutePath]] = no_items()
    """All its other roots."""
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[Timestamp | None] = None
    """When something last happened in it, RFC 3339."""
    archived: Lenient[Bool | None] = None
    """Whether it is archived. Said by each agent with `session.archive`."""


class ListSessionsResponse(Model):
    """Result of `session/list`: one page."""

    sessions: LenientItems[Items[SessionInfo]]
    """The sessions of this page."""
    next_cursor: SessionListCursor | None = None
    """Where the next page begins; None on the last page."""

"""The methods of sessions: new, resume, fork, list, close, delete, title, archive, status. Also a session's MCP
servers, system prompt and commands, and the settings that the user can change. In version 2, modes are config options.

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
    """An MCP server that is started as a process and connected by its standard streams. Only for agents with
    `session.mcp.stdio`."""

    type: Sent[Literal["stdio"]] = "stdio"
    name: str
    """The name to show the user."""
    command: AbsolutePath
    """The executable."""
    args: NullIsDefault[Items[str]] = no_items()
    """Its arguments."""
    env: NullIsDefault[Items[EnvVariable]] = no_items()
    """Variables added to its environment."""


class McpServerHttp(Sparse, Model):
    """An MCP server over streamable HTTP. Only for agents with `session.mcp.http`."""

    type: Sent[Literal["http"]] = "http"
    name: str
    """The name to show the user."""
    url: Uri
    """Its URI."""
    headers: NullIsDefault[Items[HttpHeader]] = no_items()
    """Headers to send with every request."""


McpServer = TypeAliasType(
    "McpServer", Annotated[McpServerHttp | McpServerStdio | UnknownMcpServer, Tagged("type", extensible=True)]
)
"""An MCP server, distinguished by `type`."""


class TextCommandInput(Model):
    """The command takes any text after its name."""

    type: Sent[Literal["text"]] = "text"
    hint: str
    """A text that is shown until the user types."""


class UnknownCommandInput(Unknown):
    """Input in a form that this version does not have."""

    type: UnknownTag


AvailableCommandInput = TypeAliasType(
    "AvailableCommandInput", Annotated[TextCommandInput | UnknownCommandInput, Tagged("type", extensible=True)]
)
"""The input of a command, distinguished by `type`."""


class Command(Model):
    """A slash command."""

    type: Sent[Literal["command"]] = "command"
    name: str
    """The name, without the slash."""
    description: str
    """The effect of the command."""
    input: Lenient[AvailableCommandInput | None] = None
    """The input of the command; None if it takes none."""


class UnknownCommand(Unknown):
    """A kind of command that this version does not have."""

    type: UnknownTag
    name: str
    """The name."""
    description: str
    """The effect of the command."""


AvailableCommand = TypeAliasType(
    "AvailableCommand", Annotated[Command | UnknownCommand, Tagged("type", extensible=True)]
)
"""A command, distinguished by `type`."""


class SessionConfigSelectGroup(Model):
    """Values shown under a heading."""

    group_id: SessionConfigGroupId
    """Identifies the group."""
    name: str
    """The heading."""
    # An empty list is accepted: all items may have been malformed and dropped.
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
"""The available values. Either all of them are under headings, or none."""


class _ConfigOption(Model):
    """The members of every config option."""

    config_id: SessionConfigId
    """Identifies the option."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of its effect."""
    category: Lenient[SessionConfigOptionCategory | None] = None
    """Its subject."""


class SessionConfigSelect(_ConfigOption):
    """A config option with one value out of a list."""

    type: Sent[Literal["select"]] = "select"
    current_value: SessionConfigValueId
    """The current value."""
    options: SessionConfigSelectOptions
    """The available values."""


class SessionConfigBoolean(_ConfigOption):
    """A config option that is on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    current_value: Bool
    """Whether it is on."""


class UnknownSessionConfigOption(Unknown):
    """A kind of config option that this version does not have. It keeps its value."""

    type: UnknownTag
    config_id: SessionConfigId
    """Identifies the option."""
    name: str
    """The name to show the user."""


SessionConfigOption = TypeAliasType(
    "SessionConfigOption",
    Annotated[SessionConfigSelect | SessionConfigBoolean | UnknownSessionConfigOption, Tagged("type", extensible=True)],
)
"""A config option and its current value, distinguished by `type`."""


class _SetOption(Model):
    """The members of every change of a config option."""

    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option to change."""


class SetSessionConfigValue(_SetOption):
    """Set an option to one of its values."""

    type: Sent[Literal["id"]] = "id"
    value: SessionConfigValueId
    """The new value."""


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
    """The new value, any JSON."""


SetSessionConfigOptionRequest = TypeAliasType(
    "SetSessionConfigOptionRequest",
    Annotated[
        SetSessionConfigValue | SetSessionConfigBoolean | UnknownSessionConfigValue, Tagged("type", extensible=True)
    ],
)
"""Parameters of `session/set_config_option`, distinguished by `type`."""


class _InitialOption(Model):
    """The members of every initial value."""

    config_id: SessionConfigId
    """The option."""


class InitialSessionConfigValue(_InitialOption):
    """Begin with one of the values of an option."""

    type: Sent[Literal["id"]] = "id"
    value: SessionConfigValueId
    """Its value."""


class InitialSessionConfigBoolean(_InitialOption):
    """Begin with an option on or off."""

    type: Sent[Literal["boolean"]] = "boolean"
    value: Bool
    """Whether it is on."""


class UnknownInitialSessionConfigOption(Unknown):
    """A kind of value that this version does not have. An agent that does not know it refuses the request."""

    type: UnknownTag
    config_id: SessionConfigId
    """The option."""


InitialSessionConfigOption = TypeAliasType(
    "InitialSessionConfigOption",
    Annotated[
        InitialSessionConfigValue | InitialSessionConfigBoolean | UnknownInitialSessionConfigOption,
        Tagged("type", extensible=True),
    ],
)
"""A config option's value at the start of a session, distinguished by `type`. Only for agents with
`session.options`."""


class SetSessionConfigOptionResponse(Model):
    """Result of `session/set_config_option`."""

    config_options: Annotated[Items[SessionConfigOption], Wire(skip_items=True)]
    """All options with their current values. Changing one option may have changed others."""


class SystemPrompt(Model):
    """The client's instructions for a session. Only for agents with `session.systemPrompt`."""

    mode: SystemPromptMode
    """Whether the prompt is appended to the agent's own instructions or replaces them."""
    content: Items[ContentBlock]
    """The instructions: at least one text block. An agent refuses other kinds of block."""


class _Setup(Sparse, Model):
    """The setup of a session."""

    cwd: AbsolutePath
    """The working directory."""
    additional_directories: NullIsDefault[Items[AbsolutePath]] = no_items()
    """More roots in which the agent may work. Only for agents with `session.additionalDirectories`."""
    mcp_servers: NullIsDefault[Items[McpServer]] = no_items()
    """The MCP servers to connect to."""
    system_prompt: SystemPrompt | None = None
    """The client's instructions. None means only the agent's own, or the instructions that were set before. Only for
    agents with `session.systemPrompt`."""
    config_options: NullIsDefault[Items[InitialSessionConfigOption]] = no_items()
    """Values of config options to begin with. Only for agents with `session.options`."""


class _Ready(Sparse, Model):
    """The settings of a session that was created, resumed or forked."""

    config_options: LenientItems[Items[SessionConfigOption]] = no_items()
    """Its config options."""
    available_commands: LenientItems[Items[AvailableCommand]] = no_items()
    """Its commands."""


class SessionOptionsRequest(Sparse, Model):
    """Parameters of `session/options`, which opens no session. Only for agents with `session.options`."""

    cwd: AbsolutePath
    """The working directory of the session to come."""
    additional_directories: NullIsDefault[Items[AbsolutePath]] = no_items()
    """All its other roots."""
    session_id: SessionId | None = None
    """A stored session, whose own values are requested; None for a new session."""


class SessionOptionsResponse(Model):
    """Result of `session/options`: the settings with which the session would begin."""

    config_options: LenientItems[Items[SessionConfigOption]]
    """Its config options."""
    available_commands: LenientItems[Items[AvailableCommand]]
    """Its commands, as far as they are known."""


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
    """A starting point that this version does not have. An agent that does not know it refuses the request."""

    type: UnknownTag


ReplayFrom = TypeAliasType(
    "ReplayFrom", Annotated[ReplayFromStart | UnknownReplayFrom, Tagged("type", extensible=True)]
)
"""Where the replay of a session begins, distinguished by `type`."""


class ResumeSessionRequest(_Setup):
    """Parameters of `session/resume`: open a stored session, with a replay if `replay_from` is set."""

    session_id: SessionId
    """The stored session."""
    replay_from: ReplayFrom | None = None
    """Where the replay begins; None for no replay."""


class ResumeSessionResponse(_Ready):
    """Result of `session/resume`. The requested replay and the session's state were sent before it."""


class ForkSessionRequest(_Setup):
    """Parameters of `session/fork`: a new session that begins with a copy of the conversation of `session_id`. Only for
    agents with `session.fork`."""

    session_id: SessionId
    """The session to copy."""


class ForkSessionResponse(_Ready):
    """Result of `session/fork`. Nothing is replayed."""

    session_id: SessionId
    """The new session."""


class ListSessionsRequest(Model):
    """Parameters of `session/list`."""

    cwd: AbsolutePath | None = None
    """Only sessions of this working directory."""
    cursor: SessionListCursor | None = None
    """Where to continue: `next_cursor` of the previous page."""
    archived: SessionArchiveFilter | None = None
    """Which sessions to list: archived ones, others, or both; None means `exclude`. Only for agents with
    `session.archive`."""


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
    """The time of its last activity, RFC 3339."""
    archived: Lenient[Bool | None] = None
    """Whether it is archived. Agents with `session.archive` always set it."""


class ListSessionsResponse(Model):
    """Result of `session/list`: one page."""

    sessions: LenientItems[Items[SessionInfo]]
    """The sessions of this page."""
    next_cursor: SessionListCursor | None = None
    """Where the next page begins; None on the last page."""

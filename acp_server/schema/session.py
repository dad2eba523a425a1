"""The methods of sessions: new, load, resume, fork, list, close, delete, title, archive, status. Also a session's MCP
servers and system prompt.

Protocol: session setup, list, delete. The unstable parts are in `acp_server.schema.features`.
"""

from typing import Annotated, Literal

from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    UNSET,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    NullIsDefault,
    Sent,
    Sparse,
    Unknown,
    UnknownTag,
    no_items,
)
from acp_server.schema.config_options import InitialSessionConfigOption, SessionConfigOption, SessionModeState
from acp_server.schema.content import ContentBlock
from acp_server.schema.types import Bool, FilePath, SessionId, Tagged
from acp_server.schema.words import OpenEnum


class EnvVariable(Model):
    """One environment variable."""

    name: str
    """Its name."""
    value: str
    """Its value."""


class HttpHeader(Model):
    """One HTTP header."""

    name: str
    """Its name."""
    value: str
    """Its value."""


class McpServerStdio(Model):
    """An MCP server that is started as a process and connected by its standard streams. Every agent supports it."""

    type: SkipJsonSchema[Literal["stdio"] | None] = None
    """Absent in the protocol: a server without a type is of this type. Some clients write it nevertheless."""
    name: str
    """The name to show the user."""
    command: str
    """Absolute path of the executable."""
    args: Sent[NullIsDefault[Items[str]]] = no_items()
    """Its arguments."""
    env: Sent[NullIsDefault[Items[EnvVariable]]] = no_items()
    """Variables added to its environment."""


class _Remote(Model):
    """The members of every MCP server over HTTP."""

    name: str
    """The name to show the user."""
    url: str
    """Its URI."""
    headers: Sent[NullIsDefault[Items[HttpHeader]]] = no_items()
    """Headers to send with every request."""


class McpServerHttp(_Remote):
    """An MCP server over streamable HTTP. Only for agents with `mcpCapabilities.http`."""

    type: Sent[Literal["http"]] = "http"


class McpServerSse(_Remote):
    """An MCP server over HTTP with server-sent events. Only for agents with `mcpCapabilities.sse`."""

    type: Sent[Literal["sse"]] = "sse"


class UnknownMcpServer(Unknown):
    """An MCP server with a transport that this version does not have."""

    type: UnknownTag


McpServer = TypeAliasType(
    "McpServer", Annotated[McpServerHttp | McpServerSse | McpServerStdio | UnknownMcpServer, Tagged("type")]
)
"""An MCP server, distinguished by `type`. A server without a type is started as a process."""


SystemPromptMode = TypeAliasType(
    "SystemPromptMode", Annotated[Literal["append", "override"] | str, OpenEnum(extensible=True)]
)
"""`append` adds to the agent's own instructions, `override` replaces the built-in ones. An agent refuses any other
mode. It also refuses `override` unless it announced that mode."""


class SystemPrompt(Model):
    """The client's instructions for a session. Only for agents with `systemPrompt`."""

    mode: SystemPromptMode
    """Whether the prompt is appended to the agent's own instructions or replaces them."""
    content: Items[ContentBlock]
    """The instructions: at least one text block. An agent refuses other kinds of block."""


class _Opened(Model):
    """The settings of a session that was created, loaded or resumed."""

    modes: Lenient[SessionModeState | None] = None
    """Its modes, if it has any."""
    config_options: LenientItems[MaybeItems[SessionConfigOption]] = UNSET
    """Its config options, if it has any."""


class NewSessionRequest(Sparse, Model):
    """Parameters of `session/new`."""

    cwd: FilePath
    """The working directory, an absolute path."""
    additional_directories: NullIsDefault[Items[FilePath]] = no_items()
    """More roots in which the agent may work, absolute paths. Only for agents with `additionalDirectories`."""
    mcp_servers: Sent[NullIsDefault[Items[McpServer]]] = no_items()
    """The MCP servers to connect to."""
    system_prompt: SystemPrompt | None = None
    """The client's instructions; None for only the agent's own instructions. Only for agents with `systemPrompt`."""
    config_options: NullIsDefault[Items[InitialSessionConfigOption]] = no_items()
    """Values of config options to begin with. Only for agents with `options`."""


class NewSessionResponse(_Opened):
    """Result of `session/new`."""

    session_id: SessionId
    """The new session."""


class _TakenUp(Sparse, Model):
    """The members of a request that loads, resumes or forks a session."""

    session_id: SessionId
    """The stored session."""
    cwd: FilePath
    """The working directory, an absolute path."""
    additional_directories: NullIsDefault[Items[FilePath]] = no_items()
    """All other roots, absolute paths."""
    system_prompt: SystemPrompt | None = None
    """The client's instructions, which may have changed since the session was stored. With None the agent decides. Only
    for agents with `systemPrompt`."""
    config_options: NullIsDefault[Items[InitialSessionConfigOption]] = no_items()
    """Values of config options to begin with, instead of the stored values. Only for agents with `options`."""


class LoadSessionRequest(_TakenUp):
    """Parameters of `session/load`: open a session and replay its history. Only for agents with `loadSession`."""

    mcp_servers: Sent[NullIsDefault[Items[McpServer]]] = no_items()
    """The MCP servers to connect to."""


class LoadSessionResponse(_Opened):
    """Result of `session/load`: the whole session has been replayed as updates."""


class ResumeSessionRequest(_TakenUp):
    """Parameters of `session/resume`: open a stored session without a replay. Only for agents with `resume`."""

    mcp_servers: NullIsDefault[Items[McpServer]] = no_items()
    """The MCP servers to connect to."""


class ResumeSessionResponse(_Opened):
    """Result of `session/resume`."""


class ForkSessionRequest(_TakenUp):
    """Parameters of `session/fork`: a new session that begins with a copy of the conversation of `session_id`. Only for
    agents with `fork`."""

    mcp_servers: NullIsDefault[Items[McpServer]] = no_items()
    """The MCP servers to connect to."""


class ForkSessionResponse(_Opened):
    """Result of `session/fork`. Nothing is replayed."""

    session_id: SessionId
    """The new session."""


SessionArchiveFilter = TypeAliasType(
    "SessionArchiveFilter", Annotated[Literal["exclude", "include", "only"] | str, OpenEnum(extensible=True)]
)
"""Whether archived sessions are listed. An agent refuses any other value."""


class ListSessionsRequest(Model):
    """Parameters of `session/list`. Only for agents with `list`."""

    cwd: FilePath | None = None
    """Only sessions of this working directory, an absolute path."""
    cursor: str | None = None
    """Where to continue: `next_cursor` of the previous page."""
    archived: SessionArchiveFilter | None = None
    """Which sessions to list: archived ones, others, or both; None means `exclude`. It must be the same for each page.
    Only for agents with `archive`."""


class SessionInfo(Sparse, Model):
    """A session in a list."""

    session_id: SessionId
    """The session."""
    cwd: str
    """Its working directory, an absolute path."""
    additional_directories: LenientItems[Items[str]] = no_items()
    """All its other roots, absolute paths."""
    title: Lenient[str | None] = None
    """A title for the user."""
    updated_at: Lenient[str | None] = None
    """The time of its last activity, ISO 8601."""
    archived: Lenient[Bool | None] = None
    """Whether it is archived. Agents with `archive` always set it."""


class ListSessionsResponse(Model):
    """Result of `session/list`: one page."""

    sessions: LenientItems[Items[SessionInfo]]
    """The sessions of this page."""
    next_cursor: Lenient[str | None] = None
    """Where the next page begins; None on the last page. Opaque to clients."""


class SessionOptionsRequest(Sparse, Model):
    """Parameters of `session/options`, which opens no session. Only for agents with `options`."""

    cwd: FilePath
    """The working directory of the session to come, an absolute path."""
    additional_directories: NullIsDefault[Items[FilePath]] = no_items()
    """All its other roots, absolute paths."""
    session_id: SessionId | None = None
    """A stored session, whose own values are requested; None for a new session."""


class SessionOptionsResponse(_Opened):
    """Result of `session/options`: the settings with which the session would begin."""


class CloseSessionRequest(Model):
    """Parameters of `session/close`: cancel the session's work and release its resources."""

    session_id: SessionId
    """The session."""


class CloseSessionResponse(Model):
    """Result of `session/close`."""


class DeleteSessionRequest(Model):
    """Parameters of `session/delete`: remove the session from the list. Only for agents with `delete`."""

    session_id: SessionId
    """The session."""


class DeleteSessionResponse(Model):
    """Result of `session/delete`."""


class SetSessionTitleRequest(Model):
    """Parameters of `session/set_title`: the user sets the title of a session, which may be open or not. Only for
    agents with `title`."""

    session_id: SessionId
    """The session."""
    title: str
    """Its new title."""


class SetSessionTitleResponse(Model):
    """Result of `session/set_title`: the title is stored."""

    title: str
    """The title as stored."""


class ArchiveSessionRequest(Model):
    """Parameters of `session/archive`: archive a session. An open session is closed first. Only for agents with
    `archive`."""

    session_id: SessionId
    """The session."""


class ArchiveSessionResponse(Model):
    """Result of `session/archive`. Archiving an archived session again changes nothing."""


class UnarchiveSessionRequest(Model):
    """Parameters of `session/unarchive`: list an archived session again, without opening it. Only for agents with
    `archive`."""

    session_id: SessionId
    """The session."""


class UnarchiveSessionResponse(Model):
    """Result of `session/unarchive`."""


SessionStatus = TypeAliasType("SessionStatus", Annotated[Literal["open", "saved"] | str, OpenEnum(extensible=True)])
"""`open`: a connection has the session open. `saved`: the session can be loaded or resumed. Any other value is read as
`saved`."""


class SessionStatusRequest(Model):
    """Parameters of `session/status`, which changes nothing. Only for agents with `status`."""

    session_id: SessionId
    """The session."""


class SessionStatusResponse(Model):
    """Result of `session/status`."""

    status: SessionStatus
    """Whether the session is open."""

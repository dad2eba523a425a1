"""`initialize`, `auth/login` and `auth/logout`: names, versions and capabilities of both sides.

A capability is supported if it is present, even if it is `{}`. Absent and null mean that it is not supported. If an
agent lists a login method, it answers `auth/login` and `auth/logout`. If the list is empty, a client must call neither
(ACP v2, initialization, authentication).
"""

from typing import Annotated, Literal

from pydantic import Field
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
    no_items,
)
from acp_server.schema.initialization import (
    ElicitationCapabilities,
    Implementation,
    SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionOptionsCapabilities,
    SessionStatusCapabilities,
    SessionSystemPromptCapabilities,
    SessionTitleCapabilities,
)
from acp_server.schema.initialization import ElicitationFormCapabilities as ElicitationFormCapabilities
from acp_server.schema.initialization import ElicitationUrlCapabilities as ElicitationUrlCapabilities
from acp_server.schema.initialization import SessionSystemPromptModeCapabilities as SessionSystemPromptModeCapabilities
from acp_server.schema.initialization import (
    SessionSystemPromptOverrideCapabilities as SessionSystemPromptOverrideCapabilities,
)
from acp_server.schema.session import EnvVariable
from acp_server.schema.types import Tagged
from acp_server.schema.v2.types import AuthMethodId, ProtocolVersion


class PromptImageCapabilities(Model):
    """Prompts may have `image` blocks."""


class PromptAudioCapabilities(Model):
    """Prompts may have `audio` blocks."""


class PromptEmbeddedContextCapabilities(Model):
    """Prompts may have `resource` blocks."""


class PromptCapabilities(Model):
    """The content that a prompt may have besides text and resource links."""

    image: Lenient[PromptImageCapabilities | None] = None
    """`image` blocks."""
    audio: Lenient[PromptAudioCapabilities | None] = None
    """`audio` blocks."""
    embedded_context: Lenient[PromptEmbeddedContextCapabilities | None] = None
    """`resource` blocks."""


class McpStdioCapabilities(Model):
    """The agent starts MCP servers as processes."""


class McpHttpCapabilities(Model):
    """The agent connects to MCP servers over streamable HTTP."""


class McpCapabilities(Model):
    """The transports to MCP servers that the agent supports."""

    stdio: Lenient[McpStdioCapabilities | None] = None
    """As a process."""
    http: Lenient[McpHttpCapabilities | None] = None
    """Over streamable HTTP."""


class SessionCapabilities(Model):
    """The agent has sessions: it answers new, list, resume, close, prompt and cancel. The members are further
    features."""

    prompt: Lenient[PromptCapabilities | None] = None
    """The content that prompts may have."""
    mcp: Lenient[McpCapabilities | None] = None
    """The supported transports to MCP servers."""
    delete: Lenient[SessionDeleteCapabilities | None] = None
    """`session/delete`."""
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    """Roots besides the working directory."""
    system_prompt: Lenient[SessionSystemPromptCapabilities | None] = None
    """The client's instructions for a session."""
    fork: Lenient[SessionForkCapabilities | None] = None
    """`session/fork`."""
    title: Lenient[SessionTitleCapabilities | None] = None
    """`session/set_title`."""
    archive: Lenient[SessionArchiveCapabilities | None] = None
    """`session/archive`, `session/unarchive` and lists of archived sessions."""
    status: Lenient[SessionStatusCapabilities | None] = None
    """`session/status`."""
    options: Lenient[SessionOptionsCapabilities | None] = None
    """`session/options`, and the values of config options that a session begins with."""


class AgentAuthCapabilities(Model):
    """The agent's authentication features besides the methods that it lists."""


class AgentCapabilities(Model):
    """All capabilities of an agent."""

    session: Lenient[SessionCapabilities | None] = None
    """The baseline of `session/*`, and its features."""
    auth: Lenient[AgentAuthCapabilities | None] = None
    """The agent's authentication features."""


class TerminalAuthCapabilities(Model):
    """The client can run the agent's command again in an interactive terminal."""


class ClientAuthCapabilities(Model):
    """The login methods that the client supports."""

    terminal: Lenient[TerminalAuthCapabilities | None] = None
    """Methods of type `terminal`."""


class ClientCapabilities(Model):
    """All capabilities of a client."""

    auth: Lenient[ClientAuthCapabilities | None] = None
    """Login methods."""
    elicitation: Lenient[ElicitationCapabilities | None] = None
    """Elicitation modes."""


class _Method(Model):
    """The members of every login method."""

    method_id: AuthMethodId
    """Identifies the method."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of the login."""


class AuthMethodAgent(_Method):
    """The agent authenticates by itself when the client calls `auth/login`."""

    type: Sent[Literal["agent"]] = "agent"


class AuthMethodTerminal(Sparse, _Method):
    """The client runs the agent's command again in an interactive terminal. Only for clients with `auth.terminal`."""

    type: Sent[Literal["terminal"]] = "terminal"
    args: NullIsDefault[Items[str]] = no_items()
    """Arguments that are appended to the agent's."""
    env: NullIsDefault[Items[EnvVariable]] = no_items()
    """Variables that are added to the agent's environment. They replace variables with the same name."""


class UnknownAuthMethod(Unknown):
    """A login method that this version does not have."""

    type: UnknownTag
    method_id: AuthMethodId
    """Identifies the method."""
    name: str
    """The name to show the user."""


AuthMethod = TypeAliasType(
    "AuthMethod",
    Annotated[AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod, Tagged("type", extensible=True)],
)
"""A login method, distinguished by `type`."""


class LoginAuthRequest(Model):
    """Parameters of `auth/login`: authenticate by this method."""

    method_id: AuthMethodId
    """One of the methods that the agent listed."""


class LoginAuthResponse(Model):
    """Result of `auth/login`: it succeeded."""


class LogoutAuthRequest(Model):
    """Parameters of `auth/logout`: forget the user's login."""


class LogoutAuthResponse(Model):
    """Result of `auth/logout`: it succeeded."""


class InitializeRequest(Sparse, Model):
    """Parameters of `initialize`, the client's first message."""

    protocol_version: ProtocolVersion
    """The newest version that the client supports."""
    info: Implementation
    """The client's name and version."""
    capabilities: Lenient[ClientCapabilities] = Field(default_factory=ClientCapabilities)
    """The client's capabilities."""


class InitializeResponse(Sparse, Model):
    """Result of `initialize`."""

    protocol_version: ProtocolVersion
    """The agent's newest version that is not newer than the client's."""
    info: Implementation
    """The agent's name and version."""
    capabilities: Lenient[AgentCapabilities] = Field(default_factory=AgentCapabilities)
    """The agent's capabilities."""
    auth_methods: LenientItems[Items[AuthMethod]] = no_items()
    """The available login methods."""

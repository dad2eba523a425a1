"""`initialize`, `auth/login` and `auth/logout`: who both sides are, which version they speak, and what they can do.

A capability says "supported" by being there, `{}` included; absent and null say "not supported". An agent that lists a
way to authenticate answers `auth/login` and `auth/logout`; a client may call neither while the list is empty (ACP v2,
initialization, authentication).
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
    """Prompts may hold `image` blocks."""


class PromptAudioCapabilities(Model):
    """Prompts may hold `audio` blocks."""


class PromptEmbeddedContextCapabilities(Model):
    """Prompts may hold `resource` blocks."""


class PromptCapabilities(Model):
    """What a prompt may hold beyond text and resource links."""

    image: Lenient[PromptImageCapabilities | None] = None
    """`image` blocks."""
    audio: Lenient[PromptAudioCapabilities | None] = None
    """`audio` blocks."""
    embedded_context: Lenient[PromptEmbeddedContextCapabilities | None] = None
    """`resource` blocks."""


class McpStdioCapabilities(Model):
    """The agent starts MCP servers as processes."""


class McpHttpCapabilities(Model):
    """The agent reaches MCP servers over streamable HTTP."""


class McpCapabilities(Model):
    """How the agent can reach MCP servers."""

    stdio: Lenient[McpStdioCapabilities | None] = None
    """As a process."""
    http: Lenient[McpHttpCapabilities | None] = None
    """Over streamable HTTP."""


class SessionCapabilities(Model):
    """The agent has sessions: new, list, resume, close, prompt and cancel. What it can do beyond that."""

    prompt: Lenient[PromptCapabilities | None] = None
    """What prompts may hold."""
    mcp: Lenient[McpCapabilities | None] = None
    """How MCP servers may be reached."""
    delete: Lenient[SessionDeleteCapabilities | None] = None
    """`session/delete`."""
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    """More roots than the working directory."""
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


class AgentAuthCapabilities(Model):
    """What the agent can do about authentication, beyond the methods that it lists."""


class AgentCapabilities(Model):
    """Everything an agent announces."""

    session: Lenient[SessionCapabilities | None] = None
    """All of the baseline of `session/*`, and more."""
    auth: Lenient[AgentAuthCapabilities | None] = None
    """What can be done about authentication."""


class TerminalAuthCapabilities(Model):
    """The client can run the agent's command again in an interactive terminal."""


class ClientAuthCapabilities(Model):
    """Which ways to authenticate the client can carry out."""

    terminal: Lenient[TerminalAuthCapabilities | None] = None
    """Methods of type `terminal`."""


class ClientCapabilities(Model):
    """Everything a client announces."""

    auth: Lenient[ClientAuthCapabilities | None] = None
    """Ways to authenticate."""
    elicitation: Lenient[ElicitationCapabilities | None] = None
    """Asking the user for input."""


class _Method(Model):
    """What every way to authenticate has."""

    method_id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what will happen."""


class AuthMethodAgent(_Method):
    """The agent authenticates by itself when the client calls `auth/login`."""

    type: Sent[Literal["agent"]] = "agent"


class AuthMethodTerminal(Sparse, _Method):
    """The client runs the agent's command once more, in an interactive terminal. Only with `auth.terminal`."""

    type: Sent[Literal["terminal"]] = "terminal"
    args: NullIsDefault[Items[str]] = no_items()
    """Arguments to add to the agent's own."""
    env: NullIsDefault[Items[EnvVariable]] = no_items()
    """Variables to add to the agent's environment; they replace those of the same name."""


class UnknownAuthMethod(Unknown):
    """A way to authenticate that this version does not have."""

    type: UnknownTag
    method_id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""


AuthMethod = TypeAliasType(
    "AuthMethod",
    Annotated[AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod, Tagged("type", extensible=True)],
)
"""A way to authenticate, told apart by `type`."""


class LoginAuthRequest(Model):
    """Parameters of `auth/login`: authenticate now, in this way."""

    method_id: AuthMethodId
    """One of the methods that the agent listed."""


class LoginAuthResponse(Model):
    """Result of `auth/login`: it worked."""


class LogoutAuthRequest(Model):
    """Parameters of `auth/logout`: forget who the user is."""


class LogoutAuthResponse(Model):
    """Result of `auth/logout`: it worked."""


class InitializeRequest(Sparse, Model):
    """Parameters of `initialize`, the client's first message."""

    protocol_version: ProtocolVersion
    """The newest version that the client speaks."""
    info: Implementation
    """Which program the client is."""
    capabilities: Lenient[ClientCapabilities] = Field(default_factory=ClientCapabilities)
    """What the client can do."""


class InitializeResponse(Sparse, Model):
    """Result of `initialize`."""

    protocol_version: ProtocolVersion
    """The newest version of the agent that is not above the client's."""
    info: Implementation
    """Which program the agent is."""
    capabilities: Lenient[AgentCapabilities] = Field(default_factory=AgentCapabilities)
    """What the agent can do."""
    auth_methods: LenientItems[Items[AuthMethod]] = no_items()
    """How a user can authenticate."""

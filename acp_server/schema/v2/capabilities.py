"""What each side can do beyond the baseline, as both announce it in `initialize` (ACP v2, initialization).

A capability says "supported" by being there, `{}` included; absent and null say "not supported".
"""

from acp_server.schema.base import Lenient, Model
from acp_server.schema.initialization import (
    ElicitationCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionDeleteCapabilities,
)
from acp_server.schema.initialization import ElicitationFormCapabilities as ElicitationFormCapabilities
from acp_server.schema.initialization import ElicitationUrlCapabilities as ElicitationUrlCapabilities


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

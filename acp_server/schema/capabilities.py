"""What each side can do beyond the baseline, as both announce it in `initialize` (protocol: initialization).

A capability that is an object says "supported" by being there, `{}` included; absent and null say "not
supported".
"""

from pydantic import Field

from acp_server.schema.base import Lenient, Model, Record, Sparse
from acp_server.schema.types import Bool

__all__ = [
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthCapabilities",
    "BooleanConfigOptionCapabilities",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CompactionCapabilities",
    "ElicitationCapabilities",
    "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities",
    "FileSystemCapabilities",
    "LogoutCapabilities",
    "McpCapabilities",
    "NoticeCapabilities",
    "PromptCapabilities",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionConfigOptionsCapabilities",
    "SessionDeleteCapabilities",
    "SessionListCapabilities",
    "SessionResumeCapabilities",
]


class PromptCapabilities(Sparse, Model):
    """What a prompt may hold beyond text and resource links."""

    image: Lenient[Bool] = False
    """`image` blocks."""
    audio: Lenient[Bool] = False
    """`audio` blocks."""
    embedded_context: Lenient[Bool] = False
    """`resource` blocks."""


class McpCapabilities(Sparse, Model):
    """How the agent can reach MCP servers beyond stdio."""

    http: Lenient[Bool] = False
    """Streamable HTTP."""
    sse: Lenient[Bool] = False
    """HTTP with server-sent events."""


class SessionListCapabilities(Model):
    """The agent answers `session/list`."""


class SessionDeleteCapabilities(Model):
    """The agent answers `session/delete`."""


class SessionAdditionalDirectoriesCapabilities(Model):
    """The agent accepts `additionalDirectories` when a session is made, loaded or resumed."""


class SessionResumeCapabilities(Model):
    """The agent answers `session/resume`."""


class SessionCloseCapabilities(Model):
    """The agent answers `session/close`."""


class SessionCapabilities(Model):
    """What the agent can do with sessions beyond making, prompting and cancelling them.

    `session/load` is announced apart, by `loadSession`.
    """

    list: Lenient[SessionListCapabilities | None] = None
    """`session/list`."""
    delete: Lenient[SessionDeleteCapabilities | None] = None
    """`session/delete`."""
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    """More roots than the working directory."""
    resume: Lenient[SessionResumeCapabilities | None] = None
    """`session/resume`."""
    close: Lenient[SessionCloseCapabilities | None] = None
    """`session/close`."""


class LogoutCapabilities(Model):
    """The agent answers `logout`."""


class AgentAuthCapabilities(Model):
    """What the agent can do about authentication."""

    logout: Lenient[LogoutCapabilities | None] = None
    """`logout`."""


class AgentCapabilities(Sparse, Model):
    """Everything an agent announces."""

    load_session: Lenient[Bool] = False
    """`session/load`."""
    prompt_capabilities: Lenient[PromptCapabilities] = Field(default_factory=PromptCapabilities)
    """What prompts may hold."""
    mcp_capabilities: Lenient[McpCapabilities] = Field(default_factory=McpCapabilities)
    """How MCP servers may be reached."""
    session_capabilities: Lenient[SessionCapabilities] = Field(default_factory=SessionCapabilities)
    """What can be done with sessions."""
    auth: Lenient[AgentAuthCapabilities] = Field(default_factory=AgentAuthCapabilities)
    """What can be done about authentication."""


class FileSystemCapabilities(Sparse, Model):
    """Which files operations the client performs for the agent."""

    read_text_file: Lenient[Bool] = False
    """`fs/read_text_file`."""
    write_text_file: Lenient[Bool] = False
    """`fs/write_text_file`."""


class CompactionCapabilities(Record):
    """The client shows compactions."""


class BooleanConfigOptionCapabilities(Model):
    """The client shows configuration options that are on or off."""


class SessionConfigOptionsCapabilities(Model):
    """Which kinds of configuration option the client shows beyond a choice from a list."""

    boolean: Lenient[BooleanConfigOptionCapabilities | None] = None
    """Options that are on or off."""


class NoticeCapabilities(Record):
    """The client shows notices."""


class ClientSessionCapabilities(Model):
    """Which session updates and options the client understands beyond the baseline."""

    compaction: Lenient[CompactionCapabilities | None] = None
    """`compaction_update` and `compaction_summary_chunk`."""
    config_options: Lenient[SessionConfigOptionsCapabilities | None] = None
    """More kinds of configuration option."""
    notices: Lenient[NoticeCapabilities | None] = None
    """`notice`."""


class AuthCapabilities(Sparse, Model):
    """Which ways to authenticate the client can carry out."""

    terminal: Lenient[Bool] = False
    """Methods of type `terminal`: it can run the agent's command again in an interactive terminal."""


class ElicitationFormCapabilities(Model):
    """The client shows forms."""


class ElicitationUrlCapabilities(Model):
    """The client sends the user to a URL."""


class ElicitationCapabilities(Model):
    """How the client can ask the user for input."""

    form: Lenient[ElicitationFormCapabilities | None] = None
    """Through a form."""
    url: Lenient[ElicitationUrlCapabilities | None] = None
    """At a URL."""


class ClientCapabilities(Sparse, Model):
    """Everything a client announces."""

    fs: Lenient[FileSystemCapabilities] = Field(default_factory=FileSystemCapabilities)
    """File operations."""
    terminal: Lenient[Bool] = False
    """All of `terminal/*`."""
    session: Lenient[ClientSessionCapabilities | None] = None
    """Session updates and options."""
    auth: Lenient[AuthCapabilities] = Field(default_factory=AuthCapabilities)
    """Ways to authenticate."""
    elicitation: Lenient[ElicitationCapabilities | None] = None
    """Asking the user for input."""

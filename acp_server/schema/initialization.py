"""`initialize`: both sides exchange their names, versions and capabilities. Also `authenticate` and `logout`.

Protocol: initialization, authentication.
"""

from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    Items,
    JsonObject,
    Lenient,
    LenientItems,
    Model,
    NullIsDefault,
    Record,
    Sent,
    Sparse,
    Unknown,
    UnknownTag,
    no_items,
)
from acp_server.schema.types import AuthMethodId, Bool, ProtocolVersion, Tagged


class PromptCapabilities(Sparse, Model):
    """The content that a prompt may have besides text and resource links."""

    image: Lenient[Bool] = False
    """`image` blocks."""
    audio: Lenient[Bool] = False
    """`audio` blocks."""
    embedded_context: Lenient[Bool] = False
    """`resource` blocks."""


class McpCapabilities(Sparse, Model):
    """The transports to MCP servers that the agent supports besides stdio."""

    http: Lenient[Bool] = False
    """Streamable HTTP."""
    sse: Lenient[Bool] = False
    """HTTP with server-sent events."""


class SessionListCapabilities(Model):
    """The agent answers `session/list`."""


class SessionDeleteCapabilities(Model):
    """The agent answers `session/delete`."""


class SessionAdditionalDirectoriesCapabilities(Model):
    """The agent accepts `additionalDirectories` when a session is created, loaded or resumed."""


class SessionResumeCapabilities(Model):
    """The agent answers `session/resume`."""


class SessionCloseCapabilities(Model):
    """The agent answers `session/close`."""


class SessionSystemPromptOverrideCapabilities(Model):
    """The agent accepts a system prompt that replaces its own."""


class SessionSystemPromptModeCapabilities(Model):
    """The modes of a system prompt that the agent supports besides `append`."""

    override: Lenient[SessionSystemPromptOverrideCapabilities | None] = None
    """A system prompt that replaces the agent's own."""


class SessionSystemPromptCapabilities(Model):
    """The agent accepts `systemPrompt` when a session is created, loaded or resumed, in the mode `append`."""

    mode: Lenient[SessionSystemPromptModeCapabilities | None] = None
    """Further modes."""


class SessionForkCapabilities(Model):
    """The agent answers `session/fork`."""


class SessionTitleCapabilities(Model):
    """The agent answers `session/set_title`."""


class SessionArchiveCapabilities(Model):
    """The agent answers `session/archive` and `session/unarchive`. In its lists, each session says whether it is
    archived."""


class SessionOptionsCapabilities(Model):
    """The agent answers `session/options`, and takes `configOptions` when a session is created, loaded, resumed or
    forked."""


class SessionStatusCapabilities(Model):
    """The agent answers `session/status`."""


class SessionCapabilities(Model):
    """The agent's session features besides creating, prompting and cancelling sessions.

    `session/load` is announced separately, by `loadSession`.
    """

    list: Lenient[SessionListCapabilities | None] = None
    """`session/list`."""
    delete: Lenient[SessionDeleteCapabilities | None] = None
    """`session/delete`."""
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    """Roots besides the working directory."""
    resume: Lenient[SessionResumeCapabilities | None] = None
    """`session/resume`."""
    close: Lenient[SessionCloseCapabilities | None] = None
    """`session/close`."""
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


class LogoutCapabilities(Model):
    """The agent answers `logout`."""


class AgentAuthCapabilities(Model):
    """The agent's authentication features."""

    logout: Lenient[LogoutCapabilities | None] = None
    """`logout`."""


class AgentCapabilities(Sparse, Model):
    """All capabilities of an agent."""

    load_session: Lenient[Bool] = False
    """`session/load`."""
    prompt_capabilities: Lenient[PromptCapabilities] = Field(default_factory=PromptCapabilities)
    """The content that prompts may have."""
    mcp_capabilities: Lenient[McpCapabilities] = Field(default_factory=McpCapabilities)
    """The supported transports to MCP servers."""
    session_capabilities: Lenient[SessionCapabilities] = Field(default_factory=SessionCapabilities)
    """The agent's session features."""
    auth: Lenient[AgentAuthCapabilities] = Field(default_factory=AgentAuthCapabilities)
    """The agent's authentication features."""


class FileSystemCapabilities(Sparse, Model):
    """The file operations that the client performs for the agent."""

    read_text_file: Lenient[Bool] = False
    """`fs/read_text_file`."""
    write_text_file: Lenient[Bool] = False
    """`fs/write_text_file`."""


class CompactionCapabilities(Record):
    """The client shows compactions."""


class BooleanConfigOptionCapabilities(Model):
    """The client shows config options that are on or off."""


class SessionConfigOptionsCapabilities(Model):
    """The kinds of config option that the client shows besides a choice from a list."""

    boolean: Lenient[BooleanConfigOptionCapabilities | None] = None
    """Options that are on or off."""


class NoticeCapabilities(Record):
    """The client shows notices."""


class ClientSessionCapabilities(Model):
    """The session updates and config options that the client supports besides the baseline."""

    compaction: Lenient[CompactionCapabilities | None] = None
    """`compaction_update` and `compaction_summary_chunk`."""
    config_options: Lenient[SessionConfigOptionsCapabilities | None] = None
    """More kinds of config option."""
    notices: Lenient[NoticeCapabilities | None] = None
    """`notice`."""


class AuthCapabilities(Sparse, Model):
    """The login methods that the client supports."""

    terminal: Lenient[Bool] = False
    """Methods of type `terminal`: the client can run the agent's command again in an interactive terminal."""


class ElicitationFormCapabilities(Model):
    """The client shows forms."""


class ElicitationUrlCapabilities(Model):
    """The client sends the user to a URL."""


class ElicitationCapabilities(Model):
    """The elicitation modes that the client supports."""

    form: Lenient[ElicitationFormCapabilities | None] = None
    """By a form."""
    url: Lenient[ElicitationUrlCapabilities | None] = None
    """At a URL."""


class SubagentCapabilities(Model):
    """The client shows child sessions, and respects the capabilities of each."""


class ClientCapabilities(Sparse, Model):
    """All capabilities of a client."""

    fs: Lenient[FileSystemCapabilities] = Field(default_factory=FileSystemCapabilities)
    """File operations."""
    terminal: Lenient[Bool] = False
    """All of `terminal/*`."""
    session: Lenient[ClientSessionCapabilities | None] = None
    """Session updates and options."""
    auth: Lenient[AuthCapabilities] = Field(default_factory=AuthCapabilities)
    """Login methods."""
    elicitation: Lenient[ElicitationCapabilities | None] = None
    """Elicitation modes."""
    subagents: Lenient[SubagentCapabilities | None] = None
    """Child sessions."""


class AuthMethodAgent(Model):
    """The agent authenticates by itself when the client calls `authenticate`."""

    type: SkipJsonSchema[Literal["agent"] | None] = None
    """Absent in the protocol: a method without a type is of this type. Some agents write it nevertheless."""
    id: AuthMethodId
    """Identifies the method."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of the login."""


class AuthMethodTerminal(Sparse, Model):
    """The client runs the agent's command again in an interactive terminal. Exit status 0 means success.

    An agent announces this method only to clients with `auth.terminal`. It is never passed to `authenticate`.
    """

    type: Sent[Literal["terminal"]] = "terminal"
    id: AuthMethodId
    """Identifies the method."""
    name: str
    """The name to show the user."""
    description: Lenient[str | None] = None
    """A short description of the login."""
    args: NullIsDefault[Items[str]] = no_items()
    """Arguments that are appended to the agent's."""
    env: NullIsDefault[dict[str, str]] = Field(default_factory=dict[str, str])
    """Variables that are added to the agent's environment. They replace variables with the same name."""


class UnknownAuthMethod(Unknown):
    """A login method that this version does not have."""

    type: UnknownTag


AuthMethod = TypeAliasType(
    "AuthMethod", Annotated[AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod, Tagged("type")]
)
"""A login method, distinguished by `type`. A method without a type means that the agent authenticates by itself."""


class AuthenticateRequest(Model):
    """Parameters of `authenticate`: authenticate by this method."""

    method_id: AuthMethodId
    """One of the methods that the agent announced."""


class AuthenticateResponse(Model):
    """Result of `authenticate`: it succeeded."""


class LogoutRequest(Model):
    """Parameters of `logout`: forget the user's login."""


class LogoutResponse(Model):
    """Result of `logout`: it succeeded."""


class Implementation(Model):
    """A program that implements the protocol."""

    name: str
    """The program's name in code."""
    title: Lenient[str | None] = None
    """The program's name for the user. If there is none, `name` is shown."""
    version: str
    """Its version, in any form."""


class InitializeRequest(Sparse, Model):
    """Parameters of `initialize`, the client's first message.

    Two mistakes of existing clients are accepted: a version written as digits in a string, and `capabilities` instead
    of `clientCapabilities`.
    """

    protocol_version: ProtocolVersion
    """The newest version that the client supports."""
    client_capabilities: Lenient[ClientCapabilities] = Field(default_factory=ClientCapabilities)
    """The client's capabilities."""
    client_info: Lenient[Implementation | None] = None
    """The client's name and version."""

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read received parameters. The class lists the mistakes that are accepted."""
        data = _with_number(data)
        if isinstance(data, dict) and "capabilities" in data and "clientCapabilities" not in data:
            items = cast("JsonObject", data).items()
            data = {"clientCapabilities" if key == "capabilities" else key: value for key, value in items}
        return super().from_wire(data)


class InitializeResponse(Sparse, Model):
    """Result of `initialize`."""

    protocol_version: ProtocolVersion
    """The negotiated version: the client's version if the agent supports it, else the agent's newest version."""
    agent_capabilities: Lenient[AgentCapabilities] = Field(default_factory=AgentCapabilities)
    """The agent's capabilities."""
    auth_methods: LenientItems[Items[AuthMethod]] = no_items()
    """The available login methods."""
    agent_info: Lenient[Implementation | None] = None
    """The agent's name and version."""

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a received result. A version written as digits in a string is also accepted."""
        return super().from_wire(_with_number(data))


def _with_number(data: Any) -> Any:
    if isinstance(data, dict):
        data = cast("JsonObject", data)
        version = data.get("protocolVersion")
        if isinstance(version, str) and version.isascii() and version.isdigit() and len(version) <= 5:
            return {**data, "protocolVersion": int(version)}
    return data

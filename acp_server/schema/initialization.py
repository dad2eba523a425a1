"""`initialize`: both sides say who they are, which version they speak, what they can do; `authenticate` and `logout`.

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


class SessionSystemPromptOverrideCapabilities(Model):
    """The agent takes a system prompt in the place of its own."""


class SessionSystemPromptModeCapabilities(Model):
    """Which modes of a system prompt the agent takes besides `append`."""

    override: Lenient[SessionSystemPromptOverrideCapabilities | None] = None
    """In the place of the agent's own."""


class SessionSystemPromptCapabilities(Model):
    """The agent accepts `systemPrompt` when a session is made or taken up, in the mode `append`."""

    mode: Lenient[SessionSystemPromptModeCapabilities | None] = None
    """Further modes."""


class SessionForkCapabilities(Model):
    """The agent answers `session/fork`."""


class SessionTitleCapabilities(Model):
    """The agent answers `session/set_title`."""


class SessionArchiveCapabilities(Model):
    """The agent answers `session/archive` and `session/unarchive`, and says of each session whether it is archived."""


class SessionStatusCapabilities(Model):
    """The agent answers `session/status`."""


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


class SubagentCapabilities(Model):
    """The client shows child sessions, and keeps to what it may do to each."""


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
    subagents: Lenient[SubagentCapabilities | None] = None
    """Child sessions."""


class AuthMethodAgent(Model):
    """The agent authenticates by itself when the client calls `authenticate`."""

    type: SkipJsonSchema[Literal["agent"] | None] = None
    """Absent in the protocol, where a method without a type is this one; some agents write it."""
    id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what will happen."""


class AuthMethodTerminal(Sparse, Model):
    """The client runs the agent's command once more, in an interactive terminal; exit status 0 means success.

    Announced only to clients with `auth.terminal`, and never passed to `authenticate`.
    """

    type: Sent[Literal["terminal"]] = "terminal"
    id: AuthMethodId
    """Names the method."""
    name: str
    """A name for the user."""
    description: Lenient[str | None] = None
    """A few words on what will happen."""
    args: NullIsDefault[Items[str]] = no_items()
    """Arguments to add to the agent's own."""
    env: NullIsDefault[dict[str, str]] = Field(default_factory=dict[str, str])
    """Variables to add to the agent's environment; they replace those of the same name."""


class UnknownAuthMethod(Unknown):
    """A way to authenticate that this version does not have."""

    type: UnknownTag


AuthMethod = TypeAliasType(
    "AuthMethod", Annotated[AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod, Tagged("type")]
)
"""A way to authenticate, told apart by `type`; without one the agent does it by itself."""


class AuthenticateRequest(Model):
    """Parameters of `authenticate`: authenticate now, in this way."""

    method_id: AuthMethodId
    """One of the methods that the agent announced."""


class AuthenticateResponse(Model):
    """Result of `authenticate`: it worked."""


class LogoutRequest(Model):
    """Parameters of `logout`: forget who the user is."""


class LogoutResponse(Model):
    """Result of `logout`: it worked."""


class Implementation(Model):
    """A program that speaks the protocol."""

    name: str
    """Its name in code."""
    title: Lenient[str | None] = None
    """Its name for the user; without one, `name` is shown."""
    version: str
    """Its version, in its own form."""


class InitializeRequest(Sparse, Model):
    """Parameters of `initialize`, the client's first message.

    Two things that clients in use get wrong are understood: a version written as digits in a string, and
    `capabilities` for `clientCapabilities`.
    """

    protocol_version: ProtocolVersion
    """The newest version that the client speaks."""
    client_capabilities: Lenient[ClientCapabilities] = Field(default_factory=ClientCapabilities)
    """What the client can do."""
    client_info: Lenient[Implementation | None] = None
    """Which program the client is."""

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read received parameters; see the class for what is understood beyond the protocol."""
        data = _with_number(data)
        if isinstance(data, dict) and "capabilities" in data and "clientCapabilities" not in data:
            items = cast("JsonObject", data).items()
            data = {"clientCapabilities" if key == "capabilities" else key: value for key, value in items}
        return super().from_wire(data)


class InitializeResponse(Sparse, Model):
    """Result of `initialize`."""

    protocol_version: ProtocolVersion
    """The version to speak: the client's, if the agent speaks it too, else the newest of the agent."""
    agent_capabilities: Lenient[AgentCapabilities] = Field(default_factory=AgentCapabilities)
    """What the agent can do."""
    auth_methods: LenientItems[Items[AuthMethod]] = no_items()
    """How a user can authenticate."""
    agent_info: Lenient[Implementation | None] = None
    """Which program the agent is."""

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a received result; a version written as digits in a string is understood."""
        return super().from_wire(_with_number(data))


def _with_number(data: Any) -> Any:
    if isinstance(data, dict):
        data = cast("JsonObject", data)
        version = data.get("protocolVersion")
        if isinstance(version, str) and version.isascii() and version.isdigit() and len(version) <= 5:
            return {**data, "protocolVersion": int(version)}
    return data

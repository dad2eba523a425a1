"""`initialize`: both sides say who they are, which version they speak, what they can do; `authenticate` and `logout`.

Protocol: initialization, authentication.
"""

from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from acp_server.schema.base import JsonObject, Lenient, LenientItems, Model, NullIsDefault, Sent, Sparse, Unknown
from acp_server.schema.capabilities import AgentCapabilities, ClientCapabilities
from acp_server.schema.types import AuthMethodId, ProtocolVersion
from acp_server.schema.unions import Tagged

__all__ = [
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "LogoutRequest",
    "LogoutResponse",
    "UnknownAuthMethod",
]


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
    args: NullIsDefault[list[str]] = Field(default_factory=list[str])
    """Arguments to add to the agent's own."""
    env: NullIsDefault[dict[str, str]] = Field(default_factory=dict[str, str])
    """Variables to add to the agent's environment; they replace those of the same name."""


class UnknownAuthMethod(Unknown):
    """A way to authenticate that this version does not have."""

    type: str


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
    auth_methods: LenientItems[list[AuthMethod]] = Field(default_factory=list[AuthMethod])
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

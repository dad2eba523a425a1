"""`initialize`: both sides say who they are, which version they speak and what they can do.

Protocol: initialization.
"""

from typing import Any, Self, cast

from pydantic import Field

from acp_server.schema.authentication import AuthMethod
from acp_server.schema.base import JsonObject, Model, Sparse
from acp_server.schema.capabilities import AgentCapabilities, ClientCapabilities
from acp_server.schema.markers import Lenient, LenientItems
from acp_server.schema.types import ProtocolVersion

__all__ = [
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
]


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

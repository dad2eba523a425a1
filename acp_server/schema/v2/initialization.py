"""`initialize`: both sides say who they are and what they can do, and settle the version (ACP v2, initialization)."""

from pydantic import Field

from acp_server.schema.base import Lenient, LenientItems, Model, Sparse
from acp_server.schema.initialization import Implementation
from acp_server.schema.v2.authentication import AuthMethod
from acp_server.schema.v2.capabilities import AgentCapabilities, ClientCapabilities
from acp_server.schema.v2.types import ProtocolVersion


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
    auth_methods: LenientItems[list[AuthMethod]] = Field(default_factory=list[AuthMethod])
    """How a user can authenticate."""

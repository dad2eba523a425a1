"""`initialize`: agreeing on a version and telling what the agent can do (ACP, Initialization).

Capabilities are derived from what the agent's author registered, so that nothing is announced that is not there.
"""

from __future__ import annotations

from acp_server.peer.context import Call
from acp_server.schema.authentication import AuthMethod
from acp_server.schema.base import Model
from acp_server.schema.capabilities import (
    AgentAuthCapabilities,
    AgentCapabilities,
    LogoutCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
)
from acp_server.schema.initialization import InitializeRequest, InitializeResponse
from acp_server.schema.types import PROTOCOL_VERSION
from acp_server.session.client import ClientProfile
from acp_server.session.hooks import Hooks
from acp_server.session.params import read


class Negotiation:
    """What the two sides of one connection know about each other."""

    def __init__(self, hooks: Hooks, profile: ClientProfile) -> None:
        self._hooks = hooks
        self._profile = profile

    def admit(self, call: Call) -> None:
        """Take note of what the client announces, before anything behind its request is looked at."""
        request = read(InitializeRequest, call)
        self._profile.capabilities = request.client_capabilities
        self._profile.info = request.client_info

    async def initialize(self, _call: Call) -> Model:
        """`initialize`. We speak one version, so it is the answer to any other (ACP, Version Negotiation)."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=self.capabilities(),
            auth_methods=self._auth_methods(),
            agent_info=self._hooks.info,
        )

    def capabilities(self) -> AgentCapabilities:
        """What this agent can do."""
        hooks = self._hooks
        capabilities = AgentCapabilities()
        if hooks.prompt is not None:
            capabilities.load_session = True
            capabilities.session_capabilities = SessionCapabilities(
                list=SessionListCapabilities(),
                delete=SessionDeleteCapabilities(),
                additional_directories=SessionAdditionalDirectoriesCapabilities(),
                resume=SessionResumeCapabilities(),
                close=SessionCloseCapabilities(),
            )
        if hooks.prompt_capabilities is not None:
            capabilities.prompt_capabilities = hooks.prompt_capabilities
        if hooks.mcp_capabilities is not None:
            capabilities.mcp_capabilities = hooks.mcp_capabilities
        if hooks.logout is not None:
            capabilities.auth = AgentAuthCapabilities(logout=LogoutCapabilities())
        return capabilities

    def _auth_methods(self) -> list[AuthMethod]:
        # Terminal methods are only for clients that can run them (ACP, Authentication).
        terminal = self._profile.capabilities.auth.terminal
        return [method for method in self._hooks.auth_methods if terminal or method.type != "terminal"]

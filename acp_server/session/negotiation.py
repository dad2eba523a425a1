"""`initialize`: agreeing on a version and telling what the agent can do (ACP, Initialization).

Capabilities are derived from what the agent's author registered, so that nothing is announced that is not there. It
works on plain values and loads the types of the schema only where it must: this is what an editor waits for at its
start.
"""

from __future__ import annotations

from typing import Any, Final

from acp_server.peer.context import Call
from acp_server.session.hooks import Hooks
from acp_server.session.profile import ClientProfile

PROTOCOL_VERSION: Final = 1


class Negotiation:
    """What the two sides of one connection know about each other."""

    def __init__(self, hooks: Hooks, profile: ClientProfile) -> None:
        self._hooks = hooks
        self._profile = profile

    def admit(self, call: Call) -> None:
        """Take note of what the client announces, before anything behind its request is looked at. Raises
        InvalidParams."""
        version = call.params.get("protocolVersion")
        if type(version) is not int or not 0 <= version <= 0xFFFF:
            # All else is forgiven by the schema; this it may have to refuse.
            from acp_server.schema.initialization import InitializeRequest
            from acp_server.schema.params import read

            read(InitializeRequest, call.params)
        self._profile.learn(call.params)

    async def initialize(self, _call: Call) -> dict[str, Any]:
        """`initialize`. We speak one version, so it is the answer to any other (ACP, Version Negotiation)."""
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": self.capabilities(),
            "authMethods": self._auth_methods(),
            "agentInfo": self._hooks.info,
        }

    def capabilities(self) -> dict[str, Any]:
        """What this agent can do: `AgentCapabilities` on the wire."""
        hooks = self._hooks
        capabilities: dict[str, Any] = {}
        if hooks.prompt is not None:
            capabilities["loadSession"] = True
            supported = ("list", "delete", "additionalDirectories", "resume", "close")
            capabilities["sessionCapabilities"] = {name: {} for name in supported}
        if hooks.accepts:
            names = {"image": "image", "audio": "audio", "embedded_context": "embeddedContext"}
            capabilities["promptCapabilities"] = {names[kind]: True for kind in hooks.accepts}
        if hooks.mcp:
            capabilities["mcpCapabilities"] = dict.fromkeys(hooks.mcp, True)
        if hooks.logout is not None:
            capabilities["auth"] = {"logout": {}}
        if hooks.extensions:
            capabilities["_meta"] = hooks.extensions
        return capabilities

    def _auth_methods(self) -> list[dict[str, Any]]:
        methods = self._hooks.auth_methods
        # Terminal methods are only for clients that can run them (ACP, Authentication).
        if any(method.type == "terminal" for method in methods) and not self._profile.capabilities.auth.terminal:
            methods = [method for method in methods if method.type != "terminal"]
        return [method.to_wire() for method in methods]

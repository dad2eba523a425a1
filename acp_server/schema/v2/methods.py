"""The methods of version 2 as data: who answers, what goes in and out, which capability opens it.

As in `acp_server.schema.methods`, the table holds names and loads nothing. `auth/login` and `auth/logout` are there
when the agent lists a way to authenticate; no capability says so.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from acp_server.schema import v2
from acp_server.schema.methods import Method as MethodV1

SESSION = "agentCapabilities.session"


class Method(MethodV1):
    """One method of version 2. `acp_server.schema.v2` has a type for each name in `params` and `result`.

    `agentCapabilities` and `clientCapabilities` are both called `capabilities` on the wire of version 2.
    """

    __slots__ = ()

    @property
    def params_type(self) -> Any:
        """The class of its parameters, or a union of classes."""
        return getattr(v2, self.params)

    @property
    def result_type(self) -> Any:
        """The class of its result, or a union of classes. None for a notification."""
        return None if self.result is None else getattr(v2, self.result)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("initialize", "agent", "InitializeRequest", "InitializeResponse"),
            Method("auth/login", "agent", "LoginAuthRequest", "LoginAuthResponse"),
            Method("auth/logout", "agent", "LogoutAuthRequest", "LogoutAuthResponse"),
            Method("session/new", "agent", "NewSessionRequest", "NewSessionResponse", SESSION),
            Method("session/resume", "agent", "ResumeSessionRequest", "ResumeSessionResponse", SESSION),
            Method("session/list", "agent", "ListSessionsRequest", "ListSessionsResponse", SESSION),
            Method("session/close", "agent", "CloseSessionRequest", "CloseSessionResponse", SESSION),
            Method("session/delete", "agent", "DeleteSessionRequest", "DeleteSessionResponse", f"{SESSION}.delete"),
            Method(
                "session/set_config_option",
                "agent",
                "SetSessionConfigOptionRequest",
                "SetSessionConfigOptionResponse",
                SESSION,
            ),
            Method("session/prompt", "agent", "PromptRequest", "PromptResponse", SESSION),
            Method("session/cancel", "agent", "CancelSessionNotification", None, SESSION),
            Method("tool_call/cancel", "agent", "CancelToolCallRequest", "CancelToolCallResponse", SESSION),
            Method("terminal/cancel", "agent", "CancelTerminalRequest", "CancelTerminalResponse", SESSION),
            Method("session/update", "client", "UpdateSessionNotification"),
            Method("session/request_permission", "client", "RequestPermissionRequest", "RequestPermissionResponse"),
            Method(
                "elicitation/create",
                "client",
                "CreateElicitationRequest",
                "CreateElicitationResponse",
                "clientCapabilities.elicitation",
            ),
            Method(
                "elicitation/complete",
                "client",
                "CompleteElicitationNotification",
                None,
                "clientCapabilities.elicitation.url",
            ),
            Method("$/cancel_request", "both", "CancelRequestNotification"),
        )
    }
)
"""Every method of the stable set of version 2, by its name on the wire."""

MEMBER_CAPABILITIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "AuthMethod": {"terminal": "clientCapabilities.auth.terminal"},
        "ContentBlock": {
            "audio": f"{SESSION}.prompt.audio",
            "image": f"{SESSION}.prompt.image",
            "resource": f"{SESSION}.prompt.embeddedContext",
        },
        "CreateElicitationRequest": {
            "form": "clientCapabilities.elicitation.form",
            "url": "clientCapabilities.elicitation.url",
        },
        "McpServer": {"http": f"{SESSION}.mcp.http", "stdio": f"{SESSION}.mcp.stdio"},
    }
)
"""For unions some of whose members need a capability of the receiver: the capability by the member's tag.

Of `ContentBlock` this holds for prompts, which go to the agent; what an agent sends is not restricted.
"""

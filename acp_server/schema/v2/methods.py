"""The methods of version 2 as data: receiver, types of parameters and result, required capability.

As in `acp_server.schema.methods`, the table contains only names and imports nothing. `auth/login` and `auth/logout`
need no capability; they are available if the agent lists a login method.
"""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from acp_server.schema import v2
from acp_server.schema.methods import Method as MethodV1

SESSION = "agentCapabilities.session"


class Method(MethodV1):
    """One method of version 2. `acp_server.schema.v2` has a type for each name in `params` and `result`.

    On the wire of version 2, `agentCapabilities` and `clientCapabilities` are both called `capabilities`.
    """

    __slots__ = ()

    @property
    def package(self) -> ModuleType:
        """See `MethodV1`."""
        return v2


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method.request("initialize", "agent", "Initialize"),
            Method.request("auth/login", "agent", "LoginAuth"),
            Method.request("auth/logout", "agent", "LogoutAuth"),
            Method.request("session/new", "agent", "NewSession", SESSION),
            Method.request("session/resume", "agent", "ResumeSession", SESSION),
            Method.request("session/list", "agent", "ListSessions", SESSION),
            Method.request("session/close", "agent", "CloseSession", SESSION),
            Method.request("session/delete", "agent", "DeleteSession", f"{SESSION}.delete"),
            Method.request("session/fork", "agent", "ForkSession", f"{SESSION}.fork"),
            Method.request("session/set_title", "agent", "SetSessionTitle", f"{SESSION}.title"),
            Method.request("session/archive", "agent", "ArchiveSession", f"{SESSION}.archive"),
            Method.request("session/unarchive", "agent", "UnarchiveSession", f"{SESSION}.archive"),
            Method.request("session/status", "agent", "SessionStatus", f"{SESSION}.status"),
            Method.request("session/options", "agent", "SessionOptions", f"{SESSION}.options"),
            Method.request("session/set_config_option", "agent", "SetSessionConfigOption", SESSION),
            Method.request("session/prompt", "agent", "Prompt", SESSION),
            Method("session/cancel", "agent", "CancelSessionNotification", None, SESSION),
            Method.request("tool_call/cancel", "agent", "CancelToolCall", SESSION),
            Method.request("terminal/cancel", "agent", "CancelTerminal", SESSION),
            Method("session/update", "client", "UpdateSessionNotification"),
            Method.request("session/request_permission", "client", "RequestPermission"),
            Method.request("elicitation/create", "client", "CreateElicitation", "clientCapabilities.elicitation"),
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
"""Every method of version 2, by its name on the wire. `acp_server.schema.features` lists the unstable methods."""

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
"""The capability that a member of a union needs, by the union and the member's tag.

For `ContentBlock` this applies only to prompts, which go to the agent. An agent may send any content.
"""

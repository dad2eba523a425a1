"""The methods of the protocol as data: receiver, types of parameters and result, required capability.

The table contains only names, so that it costs nothing. A type is imported when it is used. The docstrings of a
method's types describe what the method does.
"""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

from acp_server import schema

if TYPE_CHECKING:
    from acp_server.schema.base import Record
    from acp_server.schema.initialization import AgentCapabilities, ClientCapabilities

Side = Literal["agent", "client", "both"]


class Method(NamedTuple):
    """One method. `acp_server.schema` has a type for each name in `params` and `result`."""

    name: str
    """The name on the wire."""
    receiver: Side
    """The side that handles the method."""
    params: str
    """The name of the type of the method's parameters."""
    result: str | None = None
    """The name of the type of the method's result; None for a notification."""
    capability: str | None = None
    """The capability that the receiver must announce before the other side may send the method; None if none is needed.

    It is a path of wire names in the parameters or the result of `initialize`, for example
    `agentCapabilities.loadSession`.
    """

    @property
    def package(self) -> ModuleType:
        """The package that contains the method's types."""
        return cast("ModuleType", schema)

    @classmethod
    def request(cls, name: str, receiver: Side, does: str, capability: str | None = None) -> Self:
        """Return a request whose types are named after `does`."""
        return cls(name, receiver, f"{does}Request", f"{does}Response", capability)

    @property
    def is_request(self) -> bool:
        """Whether the method has a response."""
        return self.result is not None

    @property
    def params_type(self) -> Any:
        """The class of the method's parameters, or a union of classes."""
        return getattr(self.package, self.params)

    @property
    def result_type(self) -> Any:
        """The class of the method's result, or a union of classes. None for a notification."""
        return None if self.result is None else getattr(self.package, self.result)

    def read_params(self, data: Any) -> "Record":
        """Read received parameters; None counts as no parameters. Raises `pydantic.ValidationError`."""
        return schema.from_wire(self.params_type, data)

    def read_result(self, data: Any) -> "Record":
        """Read a received result. None counts as an empty result. Raises `pydantic.ValidationError`."""
        return schema.from_wire(self.result_type, data)


_ARCHIVE = "agentCapabilities.sessionCapabilities.archive"
_OPTIONS = "agentCapabilities.sessionCapabilities.options"

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method.request("initialize", "agent", "Initialize"),
            Method.request("authenticate", "agent", "Authenticate"),
            Method.request("logout", "agent", "Logout", "agentCapabilities.auth.logout"),
            Method.request("session/new", "agent", "NewSession"),
            Method.request("session/load", "agent", "LoadSession", "agentCapabilities.loadSession"),
            Method.request("session/resume", "agent", "ResumeSession", "agentCapabilities.sessionCapabilities.resume"),
            Method.request("session/list", "agent", "ListSessions", "agentCapabilities.sessionCapabilities.list"),
            Method.request("session/close", "agent", "CloseSession", "agentCapabilities.sessionCapabilities.close"),
            Method.request("session/delete", "agent", "DeleteSession", "agentCapabilities.sessionCapabilities.delete"),
            Method.request("session/fork", "agent", "ForkSession", "agentCapabilities.sessionCapabilities.fork"),
            Method.request(
                "session/set_title", "agent", "SetSessionTitle", "agentCapabilities.sessionCapabilities.title"
            ),
            Method.request("session/archive", "agent", "ArchiveSession", _ARCHIVE),
            Method.request("session/unarchive", "agent", "UnarchiveSession", _ARCHIVE),
            Method.request("session/status", "agent", "SessionStatus", "agentCapabilities.sessionCapabilities.status"),
            Method.request("session/options", "agent", "SessionOptions", _OPTIONS),
            Method.request("session/set_mode", "agent", "SetSessionMode"),
            Method.request("session/set_config_option", "agent", "SetSessionConfigOption"),
            Method.request("session/prompt", "agent", "Prompt"),
            Method("session/cancel", "agent", "CancelNotification"),
            Method("session/update", "client", "SessionNotification"),
            Method.request("session/request_permission", "client", "RequestPermission"),
            Method.request("fs/read_text_file", "client", "ReadTextFile", "clientCapabilities.fs.readTextFile"),
            Method.request("fs/write_text_file", "client", "WriteTextFile", "clientCapabilities.fs.writeTextFile"),
            Method.request("terminal/create", "client", "CreateTerminal", "clientCapabilities.terminal"),
            Method.request("terminal/output", "client", "TerminalOutput", "clientCapabilities.terminal"),
            Method.request("terminal/wait_for_exit", "client", "WaitForTerminalExit", "clientCapabilities.terminal"),
            Method.request("terminal/kill", "client", "KillTerminal", "clientCapabilities.terminal"),
            Method.request("terminal/release", "client", "ReleaseTerminal", "clientCapabilities.terminal"),
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
"""Every method of the protocol, by its name on the wire. `acp_server.schema.features` lists the unstable methods."""

MEMBER_CAPABILITIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "AuthMethod": {"terminal": "clientCapabilities.auth.terminal"},
        "ContentBlock": {
            "audio": "agentCapabilities.promptCapabilities.audio",
            "image": "agentCapabilities.promptCapabilities.image",
            "resource": "agentCapabilities.promptCapabilities.embeddedContext",
        },
        "CreateElicitationRequest": {
            "form": "clientCapabilities.elicitation.form",
            "url": "clientCapabilities.elicitation.url",
        },
        "McpServer": {"http": "agentCapabilities.mcpCapabilities.http", "sse": "agentCapabilities.mcpCapabilities.sse"},
        "SessionConfigOption": {"boolean": "clientCapabilities.session.configOptions.boolean"},
        "SessionUpdate": {
            "compaction_summary_chunk": "clientCapabilities.session.compaction",
            "compaction_update": "clientCapabilities.session.compaction",
            "notice": "clientCapabilities.session.notices",
            **dict.fromkeys(
                ("subagent_update", "session_message", "session_message_chunk"), "clientCapabilities.subagents"
            ),
        },
    }
)
"""The capability that a member of a union needs, by the union and the member's tag.

For `ContentBlock` this applies only to prompts, which go to the agent. An agent may send any content.
"""


def is_announced(
    capability: str | None, *, agent: "AgentCapabilities | None", client: "ClientCapabilities | None"
) -> bool:
    """Whether one of the two sides has announced a capability, which is written as in `Method.capability`.

    None needs no announcement. A side that is not known yet has announced nothing.
    """
    if capability is None:
        return True
    from acp_server.schema.base import attributes  # imported here, so that the table imports nothing

    side, *path = capability.split(".")
    value: Any = agent if side == "agentCapabilities" else client
    for key in path:
        if value is None:
            return False
        value = getattr(value, attributes(type(value))[key])
    return value is not None and value is not False

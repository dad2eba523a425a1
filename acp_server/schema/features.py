"""The features of the protocol that are unstable, or were: their state, methods, types and members.

An agent serves an unstable feature if it names it in `Agent(unstable={...})`. When a feature becomes stable in the
protocol, its state is changed here. The table has only names and imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

Unstable: TypeAlias = Literal["fork", "title", "archive", "status", "options", "end_turn_usage", "subagents"]
"""The features that an agent may name in `Agent(unstable=...)`."""


class Release(NamedTuple):
    """A release of the published schema."""

    name: str
    date: str
    """ISO 8601."""


PUBLISHED: Final = Release("npm 2.4.0", "2026-11-02")
"""The newest published schema that the types here were compared with. If a feature has another release, its types were
written from the protocol's pages."""


class Feature(NamedTuple):
    """One feature of the protocol. Its names may come from either version, and a version need not have all of them."""

    state: Literal["stable", "unstable"]
    """Unstable: the protocol may change or remove it."""
    release: str
    """The release of the published schema in which the feature has this state, as far as known."""
    does: str
    """The feature's purpose, in one line."""
    methods: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """The types that only this feature needs."""
    members: tuple[str, ...] = ()
    """The members that the feature adds to other types, as `Type.member`, with their names on the wire."""


_CAPABILITY = "SessionCapabilities"

FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "system_prompt": Feature(
            "stable",
            "1.30.0",
            "the client's instructions for a session, which are appended to the agent's own or replace them",
            types=(
                "SystemPrompt",
                "SystemPromptMode",
                "SessionSystemPromptCapabilities",
                "SessionSystemPromptModeCapabilities",
                "SessionSystemPromptOverrideCapabilities",
            ),
            members=(
                f"{_CAPABILITY}.systemPrompt",
                "NewSessionRequest.systemPrompt",
                "LoadSessionRequest.systemPrompt",
                "ResumeSessionRequest.systemPrompt",
            ),
        ),
        "idempotency_key": Feature(
            "stable",
            "schema 1.19.0",
            "prompts of version 2 that may be sent again: the message is inserted at most once",
            members=("PromptRequest.idempotencyKey",),
        ),
        "fork": Feature(
            "unstable",
            "npm 2.4.0",
            "a session that begins with a copy of another one's conversation",
            methods=("session/fork",),
            types=("ForkSessionRequest", "ForkSessionResponse", "SessionForkCapabilities"),
            members=(f"{_CAPABILITY}.fork",),
        ),
        "title": Feature(
            "unstable",
            "npm 2.4.0",
            "the title that the user gives a session",
            methods=("session/set_title",),
            types=("SetSessionTitleRequest", "SetSessionTitleResponse", "SessionTitleCapabilities"),
            members=(f"{_CAPABILITY}.title",),
        ),
        "archive": Feature(
            "unstable",
            "npm 2.4.0",
            "sessions that are archived and not listed, and can be unarchived",
            methods=("session/archive", "session/unarchive"),
            types=(
                "ArchiveSessionRequest",
                "ArchiveSessionResponse",
                "UnarchiveSessionRequest",
                "UnarchiveSessionResponse",
                "SessionArchiveCapabilities",
                "SessionArchiveFilter",
            ),
            members=(f"{_CAPABILITY}.archive", "ListSessionsRequest.archived", "SessionInfo.archived"),
        ),
        "status": Feature(
            "unstable",
            "npm 2.4.0",
            "whether a session is open or only stored",
            methods=("session/status",),
            types=("SessionStatusRequest", "SessionStatusResponse", "SessionStatusCapabilities", "SessionStatus"),
            members=(f"{_CAPABILITY}.status",),
        ),
        # No published schema has it yet; it is written from the protocol's pages.
        "options": Feature(
            "unstable",
            "schema 1.17.0",
            "the settings of a session before it is opened, and the values of config options that it begins with",
            methods=("session/options",),
            types=(
                *("InitialSessionConfigOption", "SessionOptionsCapabilities", "SessionOptionsRequest"),
                *("SessionOptionsResponse", "InitialSessionConfigValue", "InitialSessionConfigBoolean"),
            ),
            members=(
                f"{_CAPABILITY}.options",
                *(f"{verb}SessionRequest.configOptions" for verb in ("New", "Load", "Resume", "Fork")),
            ),
        ),
        "end_turn_usage": Feature(
            "unstable",
            "npm 2.4.0",
            "the tokens that a turn used, in the response to its prompt",
            types=("Usage",),
            members=("PromptResponse.usage", "StateSnapshot.usage", "StateUpdate.usage"),
        ),
        # The protocol has it as stable since the schema 1.34.0, which no package has yet.
        "subagents": Feature(
            "unstable",
            "npm 2.4.0",
            "child sessions that are shown below their parent",
            types=(
                *("SubagentCapabilities", "SubagentSessionCapabilities", "SubagentUpdate", "SessionMessage"),
                *("SessionMessageChunk", "SessionCancelCapabilities", "SubagentState", "SubagentActivity"),
                *("SubagentStopReason", "BackgroundSubagent"),
            ),
            members=(
                *("ClientCapabilities.subagents", "SessionUpdate.subagent_update", "SessionUpdate.session_message"),
                *("SessionUpdate.session_message_chunk", "SessionState.unknown", "BackgroundWork.subagent"),
            ),
        ),
    }
)
"""All features of this table that the library has, by the name for `Agent(unstable=...)`."""

_PROXY = ("Proxy", "InitializeProxy", "ProxySuccessor")

ABSENT: Mapping[str, Feature] = MappingProxyType(
    {
        "auth_status": Feature(
            "unstable",
            "npm 2.4.0",
            "who is logged in, only to show it; errors of requests tell a client what it may do",
            methods=("auth/status", "auth/status_update"),
            types=(
                *("AuthAccount", "AuthState", "AuthStatusCapabilities", "AuthStatusRequest", "AuthStatusResponse"),
                "AuthStatusUpdateNotification",
            ),
            members=("AgentAuthCapabilities.status",),
        ),
        "providers": Feature(
            "unstable",
            "npm 2.4.0",
            "custom model endpoints: the configuration of one agent, which can add its own methods for it",
            methods=("providers/list", "providers/set", "providers/disable"),
            types=(
                *("ProviderId", "ProviderInfo", "ProviderCurrentConfig", "ProvidersCapabilities", "LlmProtocol"),
                *(f"{verb}{kind}" for verb in ("SetProvider", "DisableProvider") for kind in ("Request", "Response")),
                *("ListProvidersRequest", "ListProvidersResponse"),
            ),
            members=("AgentCapabilities.providers",),
        ),
        "plans": Feature(
            "unstable",
            "npm 2.4.0",
            "several plans of one session, plans that are files or Markdown; `turn.plan` shows one list of steps",
            types=(
                *("PlanCapabilities", "PlanFile", "PlanId", "PlanItems", "PlanMarkdown", "PlanRemoved", "PlanUpdate"),
                "PlanUpdateContent",
            ),
            members=(
                *("ClientCapabilities.plan", "SessionUpdate.plan_update", "SessionUpdate.plan_removed"),
                *("PlanUpdateContent.file", "PlanUpdateContent.markdown"),
            ),
        ),
        "mcp_over_acp": Feature(
            "unstable",
            "npm 2.4.0",
            "MCP servers that the client runs itself and that are reached through its connection",
            methods=("mcp/message",),
            types=(
                *("McpError", "McpRequestId", "McpServerAcp", "McpServerAcpId", "McpAcpCapabilities"),
                *("MessageMcpNotification", "MessageMcpRequest", "MessageMcpResponse"),
            ),
            members=("McpCapabilities.acp", "McpServer.acp"),
        ),
        "proxies": Feature(
            "unstable",
            "npm 2.4.0",
            "a chain of programs between client and agent",
            methods=("proxy/initialize", "proxy/successor"),
            types=tuple(f"{name}{kind}" for name in _PROXY for kind in ("Request", "Response", "Notification")),
        ),
    }
)
"""The features of published schemas that this library does not have. `Feature.does` also says what replaces them."""


@cache
def unstable_members() -> frozenset[str]:
    """Return the members of all unstable features, as `Type.member`."""
    return frozenset(member for each in FEATURES.values() if each.state == "unstable" for member in each.members)


def is_stable(name: str) -> bool:
    """Whether a feature is stable. Raises KeyError for a name that is not in `FEATURES`."""
    return FEATURES[name].state == "stable"

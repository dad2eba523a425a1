"""One agent as its author has declared it: handlers, methods, settings. `acp_server.agent` fills it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from acp_server.errors import UsageError
from acp_server.peer.call import Notice, Route

if TYPE_CHECKING:
    from acp_server.peer.call import Call
    from acp_server.schema.config_options import SessionMode
    from acp_server.session.hosts import McpHost, ToolHost
    from acp_server.session.session import Session
    from acp_server.session.settings import Option
    from acp_server.session.turn import Turn
    from acp_server.store.history import Message
    from acp_server.store.memory import SessionStore

PromptHandler: TypeAlias = "Callable[[Turn], Awaitable[None]]"
SessionHandler: TypeAlias = "Callable[[Session], Awaitable[None]]"
SteeringHandler: TypeAlias = "Callable[[Turn, Message], Awaitable[None]]"
AuthHandler: TypeAlias = "Callable[[Call], Awaitable[None]]"


@dataclass(slots=True)
class AgentDefinition:
    """One agent, as its author declared it."""

    info: dict[str, str]
    """`Implementation` on the wire: `name`, `version` and perhaps `title`."""
    tools: Callable[[Session], ToolHost]
    """Makes the tools of a session."""
    mcp_host: Callable[[Session], McpHost] | None = None
    """Makes what connects to the MCP servers of a session."""
    prompt: PromptHandler | None = None
    steer: SteeringHandler | None = None
    """Takes what the user says while a turn runs."""
    second_prompts: Literal["hold", "refuse", "steer"] = "hold"
    """What becomes of a prompt that arrives while a turn runs, on version 2."""
    open_session: list[SessionHandler] = field(default_factory=list["SessionHandler"])
    """Called for each session that is made, loaded or resumed, before the client gets the answer."""
    set_mode: Callable[[Session, str], Awaitable[None]] | None = None
    set_config_option: Callable[[Session, str, str | bool], Awaitable[None]] | None = None
    modes: list[SessionMode] = field(default_factory=list["SessionMode"])
    config_options: list[Option] = field(default_factory=list["Option"])
    auth_methods: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    authenticate: dict[str, AuthHandler] = field(default_factory=dict[str, "AuthHandler"])
    auth_required: bool = False
    """Whether sessions are refused until a client has authenticated."""
    logout: Callable[[Call], Awaitable[None]] | None = None
    accepts: tuple[Literal["image", "audio", "embedded_context"], ...] = ()
    """What prompts may have beyond text and links."""
    mcp: tuple[Literal["http", "sse"], ...] = ()
    """Which MCP transports beyond stdio the agent connects to."""
    versions: tuple[int, ...] = (1, 2)
    """Which versions of the protocol it speaks."""
    kept_in: SessionStore | None = None
    """See `store`."""
    methods: dict[str, Route] = field(default_factory=dict[str, Route])
    auto_approve: bool = False
    """Whether sessions have the option that lets tools which allow it run without asking."""
    extensions: dict[str, Any] = field(default_factory=dict[str, "Any"])
    """Told in `_meta` of the agent's capabilities (ACP, Extensibility)."""
    notifications: list[tuple[str, Notice]] = field(default_factory=list[tuple[str, Notice]])

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be announced."""
        unknown = {*self.accepts} - {"image", "audio", "embedded_context"} | {*self.mcp} - {"http", "sse"}
        if unknown:
            raise UsageError(f"an agent cannot announce {', '.join(sorted(unknown))}")
        if not self.versions or {*self.versions} - {1, 2}:
            raise UsageError("an agent speaks version 1 or 2 of the protocol, or both")
        if self.second_prompts not in ("hold", "refuse", "steer"):
            raise UsageError("a second prompt can be held or refused, or steer the turn that runs")

    @property
    def offers(self) -> dict[str, Any]:
        """What the answer to `initialize` tells besides the protocol's own."""
        return {} if self.steer is None else {"_meta": {"steering": {"supported": True}}}

    @property
    def store(self) -> SessionStore:
        """Where sessions are kept, in memory by default."""
        if self.kept_in is None:
            # Not at the top: no answer to `initialize` waits for a store.
            from acp_server.store.memory import MemoryStore

            self.kept_in = MemoryStore()
        return self.kept_in

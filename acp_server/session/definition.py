"""The definition of one agent as its author declared it: handlers, methods and settings.

`acp_server.agent` fills in the definition. Services of upper packages are protocols here, because `session` does not
import those packages. A `ToolHost` runs tool calls (`acp_server.tools`), an `McpHost` connects to MCP servers
(`acp_server.mcp`), and a turn runs in a `TurnHost`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Protocol, TypeAlias

from acp_server.errors import MethodNotFound, UsageError
from acp_server.peer.call import Notice, Route
from acp_server.schema.features import FEATURES, is_stable

if TYPE_CHECKING:
    from types import AsyncGeneratorType

    from acp_server.peer.answer import Answer
    from acp_server.peer.call import Call
    from acp_server.peer.observer import Observers, Span
    from acp_server.peer.peer import Peer
    from acp_server.schema.base import Model
    from acp_server.schema.config_options import SessionMode
    from acp_server.schema.tool_call import ToolCallContent
    from acp_server.schema.updates import AvailableCommand
    from acp_server.session.negotiation import Initialization
    from acp_server.session.session import Session
    from acp_server.session.settings import Option
    from acp_server.session.turn import Turn
    from acp_server.store.history import Message
    from acp_server.store.records import ToolResult
    from acp_server.store.session_store import SessionStore
    from acp_server.tasks.tree import Node
    from acp_server.wire.messages import Request

logger: logging.Logger = logging.getLogger("acp_server.session")

PromptHandler: TypeAlias = "Callable[[Turn], Awaitable[Any] | AsyncGeneratorType[Any]]"
"""A generator's values are shown (`Turn.show`). For a coroutine function, the return value is shown unless it is
None."""
SessionHandler: TypeAlias = "Callable[[Session], Awaitable[None]]"
SteeringHandler: TypeAlias = "Callable[[Turn, Message], Awaitable[None]]"
AuthHandler: TypeAlias = "Callable[[Call], Awaitable[None]]"
ReplayHandler: TypeAlias = "Callable[[Session], AsyncGenerator[Model | dict[str, Any]]]"
"""Yields the session updates of a replay."""
Origin: TypeAlias = Literal["new", "load", "resume", "fork"]
"""How a session was opened on its connection."""


SESSIONS: Final = ("load", "resume", "list", "close", "delete", "additional_directories")
"""The session methods and features that clients may use, besides `session/new`."""


ENDING: Final = ("load", "resume", "close", "delete", "archive")
"""The methods of `session/` that end a session or open it again."""

URGENT: Final = ("close", "delete", "archive")
"""The methods of `ENDING` that are handled before queued requests."""

CATALOGUE: Final = ("list", "set_title", "unarchive", "status")
"""The methods of `session/` that neither open nor end a session."""

_OF_FEATURES: Final = {
    "fork": ("fork",),
    "title": ("set_title",),
    "archive": ("archive", "unarchive"),
    "status": ("status",),
    "options": ("options",),
}


async def _no_prompt_handler(call: Call) -> NoReturn:
    logger.error("the agent has no handler for %s; add one by @agent.prompt", call.method)
    raise MethodNotFound(data={"method": call.method})


NO_PROMPT_HANDLER: Final[Mapping[str, Route]] = {
    name: Route(_no_prompt_handler, direct=True) for name in ("session/new", "session/prompt")
}
"""The routes of an agent without a prompt handler, which log the mistake."""


@dataclass(slots=True)
class AgentDefinition:
    """The definition of one agent as its author declared it."""

    info: dict[str, str]
    """`Implementation` on the wire: `name`, `version` and perhaps `title`."""
    tools: Callable[[Session], ToolHost]
    """Makes the `ToolHost` of a session."""
    mcp_host: Callable[[Session], McpHost] | None = None
    """Makes the `McpHost` of a session."""
    prompt: PromptHandler | None = None
    admit: Callable[[Turn], Awaitable[None]] | None = None
    """A function that is called with each turn before its prompt becomes part of the session. It refuses the prompt by
    raising."""
    steer: SteeringHandler | None = None
    """A function that is called with a user's message for the running turn (steering)."""
    second_prompts: Literal["hold", "refuse", "steer"] | None = None
    """How to handle a prompt that arrives while a turn runs. With None, version 1 refuses it and version 2 holds it."""
    commands: Callable[[], Sequence[AvailableCommand]] | None = None
    """Makes the slash commands of a session. The session's handlers may replace them."""
    open_session: list[SessionHandler] = field(default_factory=list["SessionHandler"])
    """Functions that are called with each session that is created, loaded, resumed or forked, before the response is
    sent."""
    initialize: Callable[[Initialization], Awaitable[None]] | None = None
    """A function that is called with the capabilities of a client. It may change the response."""
    session_id: Callable[[Call], Awaitable[str | None]] | None = None
    """Returns the id of a new session, or None for an id from the runtime."""
    replay: ReplayHandler | None = None
    """Replays a loaded session in place of the stored turns."""
    history: bool = True
    """Whether turns are stored."""
    set_mode: Callable[[Session, str], Awaitable[None]] | None = None
    set_config_option: Callable[[Session, str, str | bool], Awaitable[None]] | None = None
    takes_unlisted: bool = False
    """Whether `set_config_option` is also called for options and values that the session does not offer."""
    modes: list[SessionMode] = field(default_factory=list["SessionMode"])
    modes_as_option: bool = True
    """Whether version 1 clients also get the mode as a config option."""
    config_options: list[Option] = field(default_factory=list["Option"])
    auth_methods: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    authenticate: dict[str, AuthHandler] = field(default_factory=dict[str, "AuthHandler"])
    auth_required: bool = False
    """Whether sessions are refused until a client has authenticated."""
    logout: Callable[[Call], Awaitable[None]] | None = None
    accepts: tuple[Literal["image", "audio", "embedded_context"], ...] = ()
    """The kinds of content that prompts may have, besides text and links."""
    sessions: tuple[str, ...] = SESSIONS
    """The session methods and features that clients may use: some of `SESSIONS`."""
    mcp: tuple[Literal["http", "sse"], ...] = ()
    """The MCP transports that the agent connects to, besides stdio."""
    said_unused_servers: bool = False
    """Whether the warning about unused MCP servers was logged."""
    said_uncalled: bool = False
    """Whether the warning of `uncalled` was logged."""
    versions: tuple[int, ...] = (1,)
    """The protocol versions of the agent."""
    unstable: frozenset[str] = frozenset()
    """The enabled unstable features, by their names in `acp_server.schema.features`."""
    system_prompt: Literal["append", "override"] | None = None
    """How the client's instructions are used. `append` adds them to the agent's own; with `override` they may also
    replace the agent's own; with None they are ignored."""
    is_open: Callable[[str], bool] = lambda _: False
    """Whether a session is open on any connection of the agent."""
    observers: Observers | None = None
    """The observers of its connections; None without any."""
    kept_in: SessionStore | None = None
    """See `store`."""
    methods: dict[str, Route] = field(default_factory=dict[str, Route])
    auto_approve: bool = False
    """Whether sessions have the option `auto_approve`, which skips the approval of tools that allow skipping it."""
    extensions: dict[str, Any] = field(default_factory=dict[str, "Any"])
    """Members of `_meta` in the agent's capabilities (ACP, Extensibility)."""
    notifications: list[tuple[str, Notice]] = field(default_factory=list[tuple[str, Notice]])

    def __post_init__(self) -> None:
        """Raise UsageError for values that cannot be announced."""
        unknown = {*self.accepts} - {"image", "audio", "embedded_context"} | {*self.mcp} - {"http", "sse"}
        if unknown:
            raise UsageError(f"an agent cannot announce the unknown capabilities {', '.join(sorted(unknown))}")
        unknown = {*self.sessions} - {*SESSIONS}
        if unknown:
            raise UsageError(
                f"the features of sessions are {', '.join(SESSIONS)}; unknown: {', '.join(sorted(unknown))}"
            )
        unknown = {*self.unstable} - {*FEATURES}
        if unknown:
            given = ", ".join(map(repr, sorted(unknown)))
            names = ", ".join(name for name in FEATURES if not is_stable(name))
            raise UsageError(f"the unstable features are {names}; unknown: {given}")
        if self.system_prompt not in (None, "append", "override"):
            raise UsageError("system_prompt must be 'append', 'override' or None")
        if self.second_prompts not in (None, "hold", "refuse", "steer"):
            raise UsageError("second_prompts must be 'hold', 'refuse', 'steer' or None")

    def uncalled(self, modes: Sequence[SessionMode], options: Sequence[Option]) -> str | None:
        """Return a sentence that says how the author must change the agent so that its handlers of choices can be
        called; None if they can be called. `modes` and `options`: the modes and options that a client can choose
        from."""
        if self.set_mode is not None and not modes:
            return "@agent.set_mode is never called while the agent has no modes; offer modes by agent.modes(...)"
        if self.set_config_option is not None and not (options or self.takes_unlisted or self.auto_approve):
            return (
                "@agent.set_config_option is never called while the agent has no options; "
                "offer options by agent.config_options(...)"
            )
        return None

    def has(self, feature: str) -> bool:
        """Whether the agent offers a feature of `acp_server.schema.features`."""
        return is_stable(feature) or feature in self.unstable

    @property
    def session_methods(self) -> list[str]:
        """The methods of the enabled features, without `session/`."""
        return [name for feature, names in _OF_FEATURES.items() if self.has(feature) for name in names]

    @property
    def session_features(self) -> dict[str, Any]:
        """The announced features of sessions that depend on the definition, in the wire form of both versions."""
        announced: dict[str, Any] = {}
        if self.system_prompt is not None:
            announced["systemPrompt"] = {"mode": {"override": {}}} if self.system_prompt == "override" else {}
        return announced | {name: {} for name in _OF_FEATURES if self.has(name)}

    @property
    def offers(self) -> dict[str, Any]:
        """Members of the response to `initialize` that the protocol does not define."""
        return {} if self.steer is None else {"_meta": {"steering": {"supported": True}}}

    @property
    def store(self) -> SessionStore:
        """The store of sessions, in memory by default."""
        if self.kept_in is None:
            # Not at the top: the import would delay the response to `initialize`.
            from acp_server.store.memory import MemoryStore

            self.kept_in = MemoryStore()
        return self.kept_in


class CallView(Protocol):
    """Sends the updates of one tool call, see `acp_server.tools.view`."""

    def begin(self, title: str, kind: str, name: str, arguments: Any) -> None:
        """Send the update `tool_call`, with the status `pending`."""
        ...

    def started(self) -> None:
        """Show the call as `in_progress`."""
        ...

    def say(self, text: str) -> None:
        """Append output. If the output is long, only its end is shown."""
        ...

    def attach(self, *content: ToolCallContent) -> None:
        """Add content before the output."""
        ...

    def end(
        self, status: Literal["completed", "failed"], *, last: str | None = None, meta: dict[str, Any] | None = None
    ) -> None:
        """Send the final status. `last`: text to append to the output. `meta`: the `_meta` of that update."""
        ...


class ToolHost(Protocol):
    """Holds the tools of one session, and runs the tool calls of its turns. Implemented in
    `acp_server.tools.session_tools`."""

    def add(self, tool: Any, /, *, input_schema: dict[str, Any] | None = None, **options: Any) -> Any:
        """Add a tool to this session: a `Tool`, or a function with the options of a `Tool`. Returns the `Tool`.

        `input_schema`: a JSON Schema of the arguments, which are one object. If it is given, the function has a
        parameter named `arguments`, which gets all checked arguments in a dict, and may have a parameter for the
        running call. `name` and `description` are then required. Raises UsageError, for example for a name that is
        taken.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a tool that was added to this session. Its running calls continue. Raises KeyError for an unknown
        name."""
        ...

    def __contains__(self, name: object) -> bool:
        """Whether the agent or the session has a tool with this name."""
        ...

    def describe(self) -> list[dict[str, Any]]:
        """Return the descriptions for a model of all tools that can run in this session, the agent's tools first; see
        `Tool.describe`."""
        ...

    def tool_call_id(self, id: str | None) -> str:
        """Return the `toolCallId` for a new call. `id`: the id that the caller gave, if any."""
        ...

    def view(self, turn: Any, id: str) -> CallView:
        """Return a view for a tool call with this `toolCallId` that is run elsewhere. `turn`: the turn, or an object
        with the turn's members `session` and `tell`."""
        ...

    async def run(self, turn: Turn, tool: Any, arguments: Mapping[str, Any], id: str | None) -> ToolResult:
        """See `Turn.run_tool`."""
        ...

    def cancel(self, turn: Turn, id: str) -> bool:
        """See `Turn.cancel_tool`."""
        ...

    def is_running(self, turn: Turn, id: str) -> bool:
        """Whether a call with this `toolCallId` is running here."""
        ...

    def cancel_from_client(self, turn: Turn, id: str) -> bool:
        """Cancel a call by its `toolCallId`, for the client. Returns False if no such call is running or cleaning
        up."""
        ...


NeedsApproval: TypeAlias = "bool | Callable[[str, Any], bool]"
"""Whether tools of MCP servers need approval. If it is a function, it gets the server's name and the tool (an
`mcp.types.Tool`) and returns the answer."""


class McpServerState(Protocol):
    """One MCP server of a session, for authors."""

    @property
    def name(self) -> str:
        """The name that the client gave to the server."""
        ...

    @property
    def state(self) -> Literal["connecting", "connected", "failed"]:
        """The state of the connection. `failed` is final in this session."""
        ...

    @property
    def problem(self) -> str | None:
        """The reason of the failure, as a text for the user; None without a failure."""
        ...

    @property
    def instructions(self) -> str:
        """The instructions for a model that the server sent."""
        ...

    @property
    def tools(self) -> list[str]:
        """The names of the server's tools in `Session.tools`."""
        ...


class McpHost(Protocol):
    """The MCP servers of one session (`Session.mcp_servers`). Iterating yields the servers after `connect`."""

    async def connect(
        self, *, approval: NeedsApproval | None = None, trusted: Collection[str] = (), timeout: float = 30.0
    ) -> None:
        """Connect to all servers, in the background, until the session ends. Their tools become tools of the session
        (`Session.tools`), named after the server and the tool. If a server changes its list of tools, the session's
        tools change too.

        `approval`: which tools need approval; by default all. `trusted`: the names of servers that are trusted when
        they declare a tool as read-only. Such a tool needs no approval. If the user decides for all further calls, the
        decision is stored for that tool of that server with its present description. `timeout`: the seconds within
        which a server must answer. Raises UsageError without the extra `mcp`, and if it was called before.
        """
        ...

    async def ready(self, turn: Turn | None = None, *, patience: float = 10.0) -> None:
        """Connect, unless `connect` was called, and wait at most `patience` seconds until each server is connected or
        has failed. With a `turn`, the failed servers are shown in the turn if the client does not support notices."""
        ...

    def __iter__(self) -> Iterator[McpServerState]:
        """See the class."""
        ...

    @property
    def instructions(self) -> str:
        """Instructions for a model: the instructions of the servers, and which servers have failed. Empty if there are
        no instructions and no failures."""
        ...


class TurnHost(Protocol):
    """Runs a turn and sends the end of the turn to the client. It is the request of the turn's prompt, or work that
    outlives that request."""

    @property
    def connection(self) -> Peer:
        """The connection of the client."""
        ...

    @property
    def request(self) -> Request:
        """The request of the turn's prompt."""
        ...

    @property
    def node(self) -> Node:
        """The node that the turn runs in."""
        ...

    @property
    def answer(self) -> Answer:
        """The author's additions to the message that ends the turn."""
        ...

    @property
    def span(self) -> Span | None:
        """The request of its prompt for observers; None without observers."""
        ...

    def overdue(self) -> None:
        """Send the end of the turn to the client now, without waiting any longer."""
        ...

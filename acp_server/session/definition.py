"""One agent as its author has declared it: handlers, methods, settings; and what others do for it.

`acp_server.agent` fills it in. What others do stands here as protocols, since the protocol's side does not import
them. A `ToolHost` carries out tool calls (`acp_server.tools`), an `McpHost` connects to MCP servers
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
"""What it yields is shown, see `Turn.show`, or what it returns, if that is not None."""
SessionHandler: TypeAlias = "Callable[[Session], Awaitable[None]]"
SteeringHandler: TypeAlias = "Callable[[Turn, Message], Awaitable[None]]"
AuthHandler: TypeAlias = "Callable[[Call], Awaitable[None]]"
ReplayHandler: TypeAlias = "Callable[[Session], AsyncGenerator[Model | dict[str, Any]]]"
"""Yields session updates that show a session again."""
Origin: TypeAlias = Literal["new", "load", "resume", "fork"]
"""How a session came to be open on its connection."""


SESSIONS: Final = ("load", "resume", "list", "close", "delete", "additional_directories")
"""What clients can do with sessions beyond opening new ones."""


ENDING: Final = ("load", "resume", "close", "delete", "archive")
"""The methods of `session/` that end a session or open it anew."""

URGENT: Final = ("close", "delete", "archive")
"""Those of them that overtake whatever waits for room."""

CATALOGUE: Final = ("list", "set_title", "unarchive", "status")
"""The methods of `session/` that open and end nothing."""

_OF_FEATURES: Final = {
    "fork": ("fork",),
    "title": ("set_title",),
    "archive": ("archive", "unarchive"),
    "status": ("status",),
    "options": ("options",),
}


async def _no_prompt_handler(call: Call) -> NoReturn:
    logger.error("%s: no prompt handler, add @agent.prompt", call.method)
    raise MethodNotFound(data={"method": call.method})


NO_PROMPT_HANDLER: Final[Mapping[str, Route]] = {
    name: Route(_no_prompt_handler, direct=True) for name in ("session/new", "session/prompt")
}
"""What an agent has whose author has forgotten its prompt handler: the log says so."""


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
    admit: Callable[[Turn], Awaitable[None]] | None = None
    """Looks at a prompt before it is part of its session."""
    steer: SteeringHandler | None = None
    """Takes what the user says while a turn runs."""
    second_prompts: Literal["hold", "refuse", "steer"] | None = None
    """What becomes of a prompt that arrives while a turn runs; None: version 1 refuses it, version 2 holds it."""
    commands: Callable[[], Sequence[AvailableCommand]] | None = None
    """The slash commands of each session, unless its handlers offer others."""
    open_session: list[SessionHandler] = field(default_factory=list["SessionHandler"])
    """Called for each session that is made, loaded or resumed, before the client gets the answer."""
    initialize: Callable[[Initialization], Awaitable[None]] | None = None
    """Looks at what a client announces, and changes what it is told."""
    session_id: Callable[[Call], Awaitable[str | None]] | None = None
    """Gives the id of a new session, or None for one of the runtime's."""
    replay: ReplayHandler | None = None
    """Shows a session again that is loaded, instead of what the runtime has kept."""
    history: bool = True
    """Whether what is said in turns is kept."""
    set_mode: Callable[[Session, str], Awaitable[None]] | None = None
    set_config_option: Callable[[Session, str, str | bool], Awaitable[None]] | None = None
    takes_unlisted: bool = False
    """Whether that is also called for options and values that a session does not offer."""
    modes: list[SessionMode] = field(default_factory=list["SessionMode"])
    modes_as_option: bool = True
    """Whether an option stands for the mode, too, on version 1."""
    config_options: list[Option] = field(default_factory=list["Option"])
    auth_methods: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    authenticate: dict[str, AuthHandler] = field(default_factory=dict[str, "AuthHandler"])
    auth_required: bool = False
    """Whether sessions are refused until a client has authenticated."""
    logout: Callable[[Call], Awaitable[None]] | None = None
    accepts: tuple[Literal["image", "audio", "embedded_context"], ...] = ()
    """What prompts may have beyond text and links."""
    sessions: tuple[str, ...] = SESSIONS
    """What clients can do with sessions, of `SESSIONS`."""
    mcp: tuple[Literal["http", "sse"], ...] = ()
    """Which MCP transports beyond stdio the agent connects to."""
    said_unused_servers: bool = False
    """Whether the log has said that the agent does not connect to the servers that clients name."""
    said_uncalled: bool = False
    """Whether the log has said what `uncalled` says of a session."""
    versions: tuple[int, ...] = (1,)
    """Which versions of the protocol it speaks."""
    unstable: frozenset[str] = frozenset()
    """Which unstable features it has, of `acp_server.schema.features`."""
    system_prompt: Literal["append", "override"] | None = None
    """Whether it takes instructions of the client: beside its own, or also in their place."""
    is_open: Callable[[str], bool] = lambda _: False
    """Whether a session is open on any connection of the agent."""
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
        unknown = {*self.sessions} - {*SESSIONS}
        if unknown:
            raise UsageError(f"sessions can have {', '.join(SESSIONS)}, and not {', '.join(sorted(unknown))}")
        unknown = {*self.unstable} - {*FEATURES}
        if unknown:
            given = ", ".join(map(repr, sorted(unknown)))
            names = ", ".join(name for name in FEATURES if not is_stable(name))
            raise UsageError(f"the unstable features are {names}, and not {given}")
        if self.system_prompt not in (None, "append", "override"):
            raise UsageError("a system prompt is taken as 'append' or 'override', or not at all")
        if self.second_prompts not in (None, "hold", "refuse", "steer"):
            raise UsageError("a second prompt can be held or refused, or steer the turn that runs")

    def uncalled(self, modes: Sequence[SessionMode], options: Sequence[Option]) -> str | None:
        """What its author has to say to have a handler called, for a client chooses what it is offered alone: these.
        None if each is called."""
        if self.set_mode is not None and not modes:
            return "@agent.set_mode is never called without modes: offer some with agent.modes(...)"
        if self.set_config_option is not None and not (options or self.takes_unlisted or self.auto_approve):
            return "@agent.set_config_option is never called without options: offer some with agent.config_options(...)"
        return None

    def has(self, feature: str) -> bool:
        """Whether clients are offered a feature of `acp_server.schema.features`."""
        return is_stable(feature) or feature in self.unstable

    @property
    def session_methods(self) -> list[str]:
        """The last parts of the names of methods that the features of `session_features` bring."""
        return [name for feature, names in _OF_FEATURES.items() if self.has(feature) for name in names]

    @property
    def session_features(self) -> dict[str, Any]:
        """What is announced of sessions, on the wire of either version, besides what each agent may announce."""
        announced: dict[str, Any] = {}
        if self.system_prompt is not None:
            announced["systemPrompt"] = {"mode": {"override": {}}} if self.system_prompt == "override" else {}
        return announced | {name: {} for name in _OF_FEATURES if self.has(name)}

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


class CallView(Protocol):
    """What the client is shown of one tool call, see `acp_server.tools.view`."""

    def begin(self, title: str, kind: str, name: str, arguments: Any) -> None:
        """The call is there."""
        ...

    def started(self) -> None:
        """It runs."""
        ...

    def say(self, text: str) -> None:
        """More output, of which the end is shown."""
        ...

    def attach(self, *content: ToolCallContent) -> None:
        """Content that stands before the output."""
        ...

    def end(
        self, status: Literal["completed", "failed"], *, last: str | None = None, meta: dict[str, Any] | None = None
    ) -> None:
        """It has ended. `last`: what is said at the end. `meta`: the `_meta` of that update."""
        ...


class ToolHost(Protocol):
    """The tools of one session, which carries out the tool calls of its turns: `acp_server.tools.session_tools`."""

    def add(self, tool: Any, /, *, input_schema: dict[str, Any] | None = None, **options: Any) -> Any:
        """Offer one more tool in this session: a `Tool`, or a function and the options of a `Tool`.

        `input_schema`: what the tool takes, as a JSON Schema of one object. Then the function is a handler of one
        parameter, named `arguments`, that gets all of them in a dict, checked; and of the running call, if it takes
        that. `name` and `description` have to be said. Returns the `Tool`. Raises UsageError, also for a name that
        there is already.
        """
        ...

    def remove(self, name: str) -> None:
        """Take back a tool that was added to this session. Calls that run go on. Raises KeyError if there is none."""
        ...

    def __contains__(self, name: object) -> bool:
        """Whether there is a tool of that name, the agent's or the session's."""
        ...

    def describe(self) -> list[dict[str, Any]]:
        """What a model is told of those that can run in this session, the agent's own first; see `Tool.describe`."""
        ...

    def tool_call_id(self, id: str | None) -> str:
        """The `toolCallId` of a new call that its caller calls `id`."""
        ...

    def view(self, turn: Any, id: str) -> CallView:
        """What shows a tool call with this `toolCallId`, which is carried out elsewhere. `turn`: that, or what stands
        for it, with its session and its `tell`."""
        ...

    async def run(self, turn: Turn, tool: Any, arguments: Mapping[str, Any], id: str | None) -> ToolResult:
        """See `Turn.run_tool`."""
        ...

    def cancel(self, turn: Turn, id: str) -> bool:
        """See `Turn.cancel_tool`."""
        ...

    def is_running(self, turn: Turn, id: str) -> bool:
        """Whether a call with this `toolCallId` is carried out here, and has not ended."""
        ...

    def cancel_from_client(self, turn: Turn, id: str) -> bool:
        """Cancel a call that the client names by its `toolCallId`. False if no such call is running or ending."""
        ...


NeedsApproval: TypeAlias = "bool | Callable[[str, Any], bool]"
"""Whether the user is asked before a tool of an MCP server runs; or a function of the server's name and the tool, an
`mcp.types.Tool`, that says so."""


class McpServerState(Protocol):
    """One MCP server of a session, as far as its author need know."""

    @property
    def name(self) -> str:
        """What the client calls it."""
        ...

    @property
    def state(self) -> Literal["connecting", "connected", "failed"]:
        """How far it is. A server that has failed stays so in this session."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it has failed, in words for the user."""
        ...

    @property
    def instructions(self) -> str:
        """What it says that a model should know of it."""
        ...

    @property
    def tools(self) -> list[str]:
        """The names that its tools have in `Session.tools`."""
        ...


class McpHost(Protocol):
    """The MCP servers of one session (`Session.mcp_servers`). Iterating gives those that were connected to."""

    async def connect(
        self, *, approval: NeedsApproval | None = None, trusted: Collection[str] = (), timeout: float = 30.0
    ) -> None:
        """Connect to all of them, in the background, until the session ends. Their tools become tools of the session
        (`Session.tools`), named by their server and themselves; they come and go as the server lists them.

        `approval`: which of them ask the user before they run, else all. `trusted`: the names of servers that are
        believed when a tool says that it only reads; such a tool does not ask. What the user decides for good is
        remembered for that tool of that server, as it is described. `timeout`: seconds in which a server has to answer.
        Raises UsageError, if the extra `mcp` is not installed, or it was called before.
        """
        ...

    async def ready(self, turn: Turn | None = None, *, patience: float = 10.0) -> None:
        """Connect, if that was not done, and wait until each is connected or has failed, at most `patience` seconds.
        In a `turn` the user is shown there which have failed, if the client has no notices."""
        ...

    def __iter__(self) -> Iterator[McpServerState]:
        """See the class."""
        ...

    @property
    def instructions(self) -> str:
        """What a model should know of them: what they say of themselves, and which of them have failed. Empty if there
        is nothing to say."""
        ...


class TurnHost(Protocol):
    """What a turn runs in, and what tells the client its end: the request of its prompt, or the work that has outlived
    that."""

    @property
    def connection(self) -> Peer:
        """The client's connection."""
        ...

    @property
    def request(self) -> Request:
        """The request of its prompt."""
        ...

    @property
    def node(self) -> Node:
        """What the turn runs in."""
        ...

    @property
    def answer(self) -> Answer:
        """What the turn's author adds to what tells the client its end."""
        ...

    def overdue(self) -> None:
        """The client is told the end now, without waiting any longer."""
        ...

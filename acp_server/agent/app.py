"""`Agent`: what an agent author writes against.

The decorators fill in `AgentDefinition`. Nothing runs before `run`, `serve` or `connect`. Methods exist only for
what is registered, and the announced capabilities are derived from that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from acp_server.agent import handlers, values
from acp_server.errors import UsageError
from acp_server.peer.call import Call, Notice, Route
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.peer.peer import Peer
from acp_server.peer.stream import Stream
from acp_server.session import v2
from acp_server.session import versions as session_versions
from acp_server.session.definition import SESSIONS, AgentDefinition
from acp_server.session.routes import AgentSide
from acp_server.session.state import not_found
from acp_server.session.turn import Turn
from acp_server.tools.tool import K, OfArguments, P, Q, Tool, Toolbox, ToolKind, made_tool

if TYPE_CHECKING:
    from pathlib import Path

    from acp_server.agent.commands import Commands
    from acp_server.schema.config_options import SessionMode
    from acp_server.schema.features import Unstable
    from acp_server.schema.session import McpServer
    from acp_server.session.definition import PromptHandler
    from acp_server.session.session import Session
    from acp_server.session.settings import Option
    from acp_server.store.session_store import SessionStore
    from acp_server.tools.approval import Always
    from acp_server.tools.permission import Approvals

F = TypeVar("F", bound=Callable[..., Any])
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Awaitable[Any] | AsyncGenerator[Any]])

session_versions.register(v2.DIALECT)


class Agent:
    """An agent for any ACP client.

    `name`, `title`, `version`: told to clients. `accepts`: content beyond text and links that prompts may have:
    `image`, `audio`, `embedded_context`. `mcp`: True connects each session to the MCP servers that the client names for
    it, over stdio, HTTP and SSE, and offers their tools in it (`Session.mcp`, extra `mcp`). A turn begins when they are
    there, or 10 s after the session. Or which transports beyond stdio your own code connects to: `http`, `sse`.
    `mcp_trusted`: with `mcp=True`, the names of the servers that are believed when a tool says that it only reads.
    `store`: where sessions are kept; in memory by default. `approvals`: where the user's lasting decisions about
    tools are kept; by default they hold until the session is closed. `sessions`: what clients can do with sessions
    beyond new ones, all by default; what is not there is not announced, and refused. On version 2 only `delete` and
    `additional_directories` can be left out. `versions`: of the protocol, of which each client
    gets the highest that both know. `second_prompts`: what becomes of a prompt that arrives while a turn runs: `hold`
    it until the turn is over, `refuse` it, or `steer` the turn with it, on version 2 alone. By default version 1
    refuses it, and version 2 holds it. `history`: False for an agent that has a log of its own; nothing of its turns is
    kept, and `replay` shows a session that is loaded. `system_prompt`: whether it takes instructions of the client, see
    `Session.instructions`: to `append` them to its own, or also to `override` these. `unstable`: features of the
    protocol that may still change, see `schema.FEATURES`. Raises UsageError for anything else in these, and for
    `mcp=True` without the extra. `tools` is what it can do for a model.
    """

    tools: Toolbox
    """What it can do for a model. `tools.describe()` is what models are told."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        accepts: Iterable[Literal["image", "audio", "embedded_context"]] = (),
        mcp: bool | Iterable[Literal["http", "sse"]] = (),
        mcp_trusted: Iterable[str] = (),
        store: SessionStore | None = None,
        approvals: Approvals | None = None,
        sessions: Iterable[Literal["load", "resume", "list", "close", "delete", "additional_directories"]] = SESSIONS,
        versions: Iterable[Literal[1, 2]] = (1, 2),
        second_prompts: Literal["hold", "refuse", "steer"] | None = None,
        history: bool = True,
        system_prompt: Literal["append", "override"] | None = None,
        unstable: Iterable[Unstable] = (),
    ) -> None:
        values.check_texts(name, version, title)
        self.name = name
        self._connects: Final = mcp is True
        info = {"name": name, "version": version} | ({} if title is None else {"title": title})
        self.tools = Toolbox()
        self.tools.approvals = values.having("approvals", approvals, "get", "put")
        self._definition = AgentDefinition(
            info,
            self.tools.of,
            handlers.mcp_host,
            accepts=values.several("accepts", accepts, str),
            mcp=("http", "sse") if mcp is True else values.several("mcp", mcp or (), str),
            sessions=values.several("sessions", sessions, str),
            versions=values.versions_of(versions),
            second_prompts=second_prompts,
            kept_in=values.store_of(store),
            history=values.switch("history", history),
            system_prompt=system_prompt,
            unstable=frozenset(values.several("unstable", unstable, str)),
            is_open=self._is_open,
        )
        self._sides: dict[Peer, AgentSide] = {}
        self._prompt: PromptHandler | None = None
        self._commands: Commands | None = None
        if self._connects:
            self.session(handlers.connecting(values.several("mcp_trusted", mcp_trusted, str)))

    def _is_open(self, session_id: str) -> bool:
        return any(side.has(session_id) for side in self._sides.values())

    @property
    def store(self) -> SessionStore:
        """Where sessions are kept. It is set before anything is served."""
        return self._definition.store

    @store.setter
    def store(self, store: SessionStore) -> None:
        self._definition.kept_in = values.store_of(store)

    # -- what the agent does

    @values.bare
    def initialize(self, function: F) -> F:
        """Register a function of one `Initialization`, called for each client before it is answered (ACP,
        Initialization). It sees what the client announced, and may change the capabilities, the ways to log in and the
        `_meta` that the client is told. What it raises is the answer."""
        if self._definition.initialize is not None:
            raise UsageError("there is a second @agent.initialize; an agent can have only one")
        self._definition.initialize = handlers.deciding(function, "initialize handler", "initialization")
        return function

    @values.bare
    def prompt(self, function: F) -> F:
        """Register what answers a user's message: an async generator or async function of one `Turn` (ACP, Prompt
        Turn).

        A generator's text is shown as it is yielded; so are content blocks and session updates. When the turn is
        cancelled, the function ends at its next await; whatever it then raises or returns, the client is told
        `cancelled`. Cleanup that has to wait goes into a `with grace():` block. What it raises without a cancel is
        answered -32603 and logged, a `ToolFailed` with its text; a `TimeoutError` -32800, an `RpcError` as it is.

        Turns of one session run one at a time: a prompt that arrives while another runs is refused or held, see
        `second_prompts` of `Agent`. Behind a cancelled turn, which cleans up, it waits within `Limits.grace`.
        """
        if self._prompt is not None:
            raise UsageError("there is a second @agent.prompt; an agent can have only one")
        self._prompt = handlers.prompt_handler(function)
        self._set_prompt()
        return function

    def _set_prompt(self) -> None:
        handler = self._prompt
        if self._commands is not None:
            handler = self._commands.before(handler)
        assert handler is not None
        self._definition.prompt = handlers.behind_servers(handler) if self._connects else handler

    @values.bare
    def admit(self, function: F) -> F:
        """Register a function of the `Turn`, called for each prompt before it is part of its session: for rate limits,
        budgets, rules for content. What it raises is the answer to the prompt, an `RpcError` as it is; nothing of such
        a prompt is kept or given to a model. Version 2 answers the request so, and begins no work."""
        if self._definition.admit is not None:
            raise UsageError("there is a second @agent.admit; an agent can have only one")
        self._definition.admit = handlers.deciding(function, "admission handler", "turn")
        return function

    @values.early
    def command(
        self, name: str, *, hint: str | None = None, description: str | None = None
    ) -> Callable[[CommandFunction], CommandFunction]:
        """Register a slash command (ACP, Slash Commands): an async function or async generator of the `Turn` and what
        the user types behind `/name`. It answers the prompts that begin with the command; `prompt` answers all others.

        A single text parameter gets all that is typed. Of several parameters, each gets a word, or a text in quotes,
        checked against its annotation; the last one, if it is text, gets the rest. What does not fit is said to the
        user, with the `hint`. `hint`: what to type, by default the parameters' names. `description`: by default the
        first line of the docstring. Clients are told of the commands when a session opens. Raises UsageError for a
        name that is there already, or not one word.
        """
        from acp_server.agent.commands import Command, Commands

        values.check_command(name)

        def register(function: CommandFunction) -> CommandFunction:
            if self._commands is None:
                self._commands = Commands()
                self._definition.commands = self._commands.listed
            self._commands.add(Command(name, function, hint, description))
            self._set_prompt()
            return function

        return register

    @values.bare
    def steer(self, function: F) -> F:
        """Register what takes a message of the user's into the turn that runs: a function of the `Turn` and the
        `Message`, which hands it to whatever works on the turn. When it has returned, the message is part of the
        conversation. If the turn has ended by then, it is not, and becomes a prompt of its own.

        Such messages come from clients that know the extension `_session/steering`. With `second_prompts="steer"`, a
        prompt of version 2 that arrives while a turn runs is one, too. What the function raises is the answer.
        """
        self._definition.steer = handlers.deciding(function, "steering handler", "turn", "message")
        return function

    @values.bare
    def session(self, function: F) -> F:
        """Register a function of one `Session` that prepares each new, loaded or resumed one before the client may use
        it. There may be several; they are called in order.

        An async generator opens things before its one `yield` and closes them behind it, whatever ends the session.
        Both happen in one task, which lives as long as the session. What it yields becomes `session.data`, unless it is
        None. A function that returns an async context manager does the same. Others hand what they open to
        `Session.enter` or `Session.on_close`. If a handler raises, or the client cancels the request meanwhile, the
        session does not come to be. What it tells the client of the session comes right behind the answer.
        """
        self._definition.open_session.append(handlers.session_handler(function))
        # It may add tools to its sessions, which is told to clients before there is one.
        handlers.offer_tool_cancel(self._definition, self.find_session)
        return function

    @values.bare
    def session_id(self, function: F) -> F:
        """Register what names new sessions: a function of the `Call` of `session/new`, or of your method that opens
        one. It returns an id, or None for one of the runtime's. An id that the connection or the store has already is
        refused: the request fails with an internal error, and the log says why. With `history=False` the store is not
        asked, since a log of your own may have been begun with the id. What it leaves in `call.data` is in
        `session.call.data` of the session handlers: an id often comes with the thing that it is the id of."""
        self._definition.session_id = handlers.as_async(function, "function for ids", "call")
        return function

    @values.bare
    def replay(self, function: F) -> F:
        """Register what shows a loaded session again, from a log of your own: an async generator of the `Session` that
        yields session updates, as `schema` types or in their wire form. The client gets them before the answer to
        `session/load`, and on version 2 before the answer to a `session/resume` that asks for them. What the runtime
        has kept is not shown then."""
        self._definition.replay = handlers.replay_handler(function)
        return function

    async def open_session(
        self,
        by: Call | Turn,
        cwd: str,
        *,
        additional_directories: Sequence[str] = (),
        mcp_servers: Sequence[McpServer] = (),
        fork_of: Session | None = None,
    ) -> Session:
        """Open a session from code, as `session/new` does: for a method such as `session/fork`, or for a subagent.

        `by`: the call of a method of yours, or a turn. The answer to the call tells the client of the session; what is
        said in the session waits for that answer. The client of a turn hears of the session at once. `fork_of`: a
        session whose ended turns, mode and options the new one begins with. Its `Session.origin` is `fork` then. Raises
        InvalidParams for a directory that is not absolute, InvalidRequest when too many are open, and what session
        handlers raise.
        """
        from acp_server.session.setup import PlainSetup

        peer = by.client.connection if isinstance(by, Turn) else by.connection
        setup = PlainSetup(cwd, list(additional_directories), list(mcp_servers))
        source = None if fork_of is None else fork_of.record
        return await self._side(peer).lifecycle.open(peer if isinstance(by, Turn) else by, setup, source)

    async def close_session(self, session: Session, *, delete: bool = False) -> None:
        """Close a session from code, as `session/close` does, or `session/delete`. Its turns are cancelled. The client
        is not told: your method's answer does that. A turn cannot close its own session: that would cancel it."""
        await self._side(session.client.connection).lifecycle.end(session.id, keep=not delete)

    @values.early
    def method(self, name: str, *, replace: bool = False) -> Callable[[F], F]:
        """Register a method of your own (ACP, Extensibility: names begin with `_`). Raises UsageError for the name of
        one of the protocol's, unless you `replace` that for every client, whose version says which form it expects.

        The function takes a `Call` and the method's parameters by name, checked against their annotations. What it
        returns is the answer; None answers `{}` for a method of the protocol whose result may be empty. It may offer
        `call.partial(...)` results for the case of a cancel; without one a cancelled request is answered -32800.

        A plain `def` runs in a worker thread, where a cancel cannot interrupt it: it sees `call.is_cancelled`, and what
        it returns is the answer. If it takes longer than `Limits.grace` the request is answered without it, and what it
        still returns is dropped. At most 40 such functions run at once in one event loop; more wait their turn.
        """
        values.check_method(name)
        if name == "initialize":
            raise UsageError("initialize cannot be replaced: @agent.initialize changes what it answers")
        if not replace:
            values.check_own_method(name)

        def register(function: F) -> F:
            self._add_method(name, Route(handlers.method_handler(function, name)))
            return function

        return register

    @values.early
    def notification(self, name: str) -> Callable[[F], F]:
        """Register a handler for a notification: a function of the connection and the parameters by name.

        Handlers run one after the other, in the order of arrival, and a plain `def` runs in the event loop: it must be
        quick. Notifications that the protocol acts on itself are acted on first, in any case. Nothing is ever answered;
        parameters that do not fit are logged, and so is what the handler raises.
        """
        values.check_method(name)

        def register(function: F) -> F:
            self._definition.notifications.append((name, Notice(handlers.notification_handler(function))))
            return function

        return register

    @overload
    def tool(self, function: F) -> Tool[F]: ...

    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        title: str | OfArguments[str, P] | None = None,
        description: str | None = None,
        kind: ToolKind = "other",
        approval: bool | OfArguments[Any, Q] = False,
        auto_approve: bool = False,
        asks_each_time: bool = False,
        approval_key: str | Always | OfArguments[str | Always | None, K] | None = None,
        approval_timeout: float | None = None,
        needs_editor: bool = False,
        grace: float | None = None,
    ) -> Callable[[F], Tool[F]]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Register a tool, something the agent can do for a model (ACP, Tool Calls). It is an async function, or a
        plain one, which runs in a thread. Either may be a generator, whose text is shown as it comes.

        The parameters are what the model passes, with their types checked; one annotated `ToolContext`, or
        named `call` without an annotation, gets the running call. The result is what the model is told: text, or
        anything that JSON can express; or content to be shown. Anything else fails the call, and is logged.
        `turn.call` runs it from the program, `turn.run_tool` as a model asks for it, `tools.describe()` is what a model
        is told of all of them. For the options see `Tool`. Raises UsageError for a function that cannot be a tool, and
        for a second one of the same name.
        """

        def register(function: F) -> Tool[F]:
            tool = made_tool(function, options)
            self.add_tool(tool)
            return tool

        return register if function is None else register(function)

    def add_tool(self, tool: Tool[Any]) -> None:
        """Register a tool that was made elsewhere. Raises UsageError if there is one of the same name."""
        self.tools.add(tool)
        tool.is_served = lambda: self.is_serving
        self._definition.auto_approve |= bool(tool.approval) and tool.auto_approve
        handlers.offer_tool_cancel(self._definition, self.find_session)

    @values.early
    def mount(self, methods: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        """Add a method table written for jsonrpcserver's async dispatcher: functions returning `Success` or `Error`.
        Raises UsageError for the names of the protocol's methods."""
        for name, function in methods.items():
            values.check_own_method(name)
            self._add_method(name, Route(foreign=function))

    # -- what the user can set

    @values.early
    def modes(self, *modes: SessionMode, as_option: bool = True) -> None:
        """Offer modes (ACP, Session Modes); the first is where a session starts. A session handler may offer others in
        its session (`Session.set_modes`).

        `as_option`: whether version 1 is also told of them as a config option. Clients that know config options show
        those and no modes, older ones show modes alone; the two are kept in step. Version 2 has that option alone.
        An option of your own with the category `mode` takes its place, and is yours to keep in step.
        """
        self._definition.modes.extend(values.modes_of(modes, self._definition.modes))
        self._definition.modes_as_option = values.switch("as_option", as_option)

    @values.bare
    def set_mode(self, function: F) -> F:
        """Register a function of a `Session` and a mode's id, called before the client's choice takes effect. If it
        raises, nothing changes. It need not be there: `Session.mode` tells the mode at any time."""
        self._definition.set_mode = handlers.deciding(function, "mode handler", "session", "id of the mode")
        return function

    @values.early
    def config_options(self, *options: Option) -> None:
        """Offer config options (ACP, Session Config Options) with their defaults: `schema.SessionConfigSelect` and
        `SessionConfigBoolean`. Boolean ones are shown only to clients that support them; for others they have their
        defaults."""
        self._definition.config_options.extend(values.options_of(options, self._definition.config_options))

    @overload
    def set_config_option(self, function: F) -> F: ...

    @overload
    def set_config_option(self, *, unlisted: bool) -> Callable[[F], F]: ...

    @values.early
    def set_config_option(self, function: Any = None, *, unlisted: bool = False) -> Any:
        """Register a function of a `Session`, an option's id and its new value, called before it takes effect. If it
        raises, nothing changes. It need not be there: `Session.config` tells the value at any time.

        `unlisted`: whether it is also called for an option, or a value, that the session does not offer; otherwise
        those are refused. It raises InvalidParams for what it does not know, or carries it out. If it has
        offered it meanwhile (`Session.set_options`), that is a choice as any other, else the runtime keeps nothing.
        """

        def register(function: F) -> F:
            takes = ("session", "id of the option", "value")
            self._definition.set_config_option = handlers.deciding(function, "option handler", *takes)
            self._definition.takes_unlisted = unlisted
            return function

        return register if function is None else register(function)

    # -- who may use it

    @values.early
    def authenticate(
        self, id: str, *, name: str, description: str | None = None, required: bool = False
    ) -> Callable[[F], F]:
        """Register a way to log in: a function of a `Call` that returns if the client may go on and raises if not, best
        an `AuthRequired` with a message (ACP, Authentication).

        `required`: until a client has logged in, `session/new`, `load`, `resume`, `list` and `delete` are refused with
        -32000. Sessions that are open after a `logout` stay usable. That holds for one connection: if credentials are
        kept longer than that, raise `AuthRequired` in a session handler while there are none, instead.
        """

        def register(function: F) -> F:
            self._definition.auth_methods.append(values.described({"id": id, "name": name}, description))
            self._definition.authenticate[id] = handlers.deciding(function, "login handler", "call")
            self._definition.auth_required = self._definition.auth_required or required
            return function

        return register

    @values.early
    def terminal_login(
        self,
        id: str,
        *,
        name: str,
        description: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Offer a login that the client runs in an interactive terminal, by starting this program once more with `args`
        and `env` added (ACP, Terminal authentication); exit status 0 means success. Told only to clients that can."""
        method: dict[str, Any] = {"type": "terminal", "id": id, "name": name}
        method |= ({"args": list(args)} if args else {}) | ({"env": dict(env)} if env else {})
        self._definition.auth_methods.append(values.described(method, description))

    @values.bare
    def logout(self, function: F) -> F:
        """Register what a client's `logout` does: a function of a `Call` (ACP, Authentication)."""
        self._definition.logout = handlers.deciding(function, "logout handler", "call")
        return function

    # -- serving it

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """A connection to one client, ready to `run`. An agent serves any number of them. Raises UsageError for a tool
        that has a parameter of an unknown type, and for a handler of modes or options where nothing offers any."""
        self.tools.check_types()
        values.check_choices(self._definition)
        side = AgentSide(self._definition)
        connection = side.connect(stream, values.limits_of(limits))
        self._sides[connection] = side

        async def forget() -> None:
            self._sides.pop(connection, None)

        connection.on_close(forget)
        return connection

    @property
    def is_serving(self) -> bool:
        """Whether there is a connection to a client."""
        return bool(self._sides)

    def interrupt(self, connection: Connection) -> bool:
        """Cancel all turns of a connection, as the user's interrupt at a terminal asks for. False if none ran."""
        side = self._sides.get(connection)
        return side is not None and side.interrupt()

    def run(
        self,
        *,
        backend: Literal["asyncio", "trio"] | None = None,
        loop: Literal["uvloop"] | None = None,
        limits: Limits | None = None,
        record: Path | None = None,
        wrap: Callable[[Stream], Stream] | None = None,
    ) -> None:
        """Serve one client over standard input and output until it is gone, then exit the process.

        `backend`: asyncio if none is named. `loop`: `"uvloop"` replaces asyncio's own event loop. `record`: a file for
        both directions of the conversation, one JSON object a line. `wrap`: makes another stream of that of the
        connection, to observe what passes. Raises SystemExit; UsageError if this process serves by them already. In a
        file that `acp-server serve` loads, it is that which serves.
        """
        from acp_server.agent.serve import run

        raise SystemExit(run(self, backend=backend, loop=loop, limits=limits, record=record, wrap=wrap))

    def find_session(self, connection: Peer, session_id: str) -> Session:
        """An open session of a connection, for methods of your own that have to do with one:
        `agent.find_session(call.connection, sessionId)`. Raises ResourceNotFound, which is a good answer."""
        side = self._sides.get(connection)
        if side is None:
            raise not_found(session_id)
        return side.find(session_id)

    def _side(self, connection: Peer) -> AgentSide:
        side = self._sides.get(connection)
        if side is None:
            raise UsageError("this connection is not one of the agent's")
        return side

    def _add_method(self, name: str, route: Route) -> None:
        if name in self._definition.methods:
            raise UsageError(f"the method {name} is registered twice")
        self._definition.methods[name] = route

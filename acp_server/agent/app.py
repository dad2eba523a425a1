"""`Agent`: the class that agent authors use.

The decorators fill in `AgentDefinition`. Nothing runs before `run`, `serve` or `connect`. A method exists only if its
handler is registered, and the announced capabilities are derived from that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, overload

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
    from acp_server.peer.call import LiveCall
    from acp_server.peer.observer import Observer
    from acp_server.schema.config_options import SessionMode
    from acp_server.schema.features import Unstable
    from acp_server.schema.session import McpServer
    from acp_server.session.definition import PromptHandler
    from acp_server.session.session import Session
    from acp_server.session.settings import Option
    from acp_server.store.session_store import SessionStore
    from acp_server.tools.approval import Always, Approvals

F = TypeVar("F", bound=Callable[..., Any])
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Awaitable[Any] | AsyncGenerator[Any]])

session_versions.register(v2.DIALECT)


class Agent:
    """An agent for any ACP client. Raises UsageError for invalid arguments, and for `mcp=True` without the extra `mcp`.

    - `name`, `title`, `version`: sent to clients.
    - `accepts`: the kinds of content that prompts may have besides text and links: `image`, `audio`,
      `embedded_context`.
    - `mcp`: if True, the runtime connects each session to the MCP servers that its client names, over stdio, HTTP and
      SSE, and offers their tools (`Session.mcp`, extra `mcp`). A turn waits for the servers until 10 s after the
      session was opened. If your own code connects to the servers, pass the transports besides stdio that it supports:
      `http`, `sse`.
    - `mcp_trusted`: with `mcp=True`, the names of servers whose read-only hints are trusted.
    - `store`: where sessions are stored; by default in memory.
    - `approvals`: where the user's lasting decisions about tools are stored; by default they end with the session.
    - `sessions`: the session methods that clients may call besides `session/new`; by default all. A method that is not
      listed is not announced, and calls of it are refused. On version 2 only `delete` and `additional_directories` can
      be omitted.
    - `versions`: the supported protocol versions. Agent and client use the highest version that both support.
    - `second_prompts`: how to handle a prompt that arrives while a turn runs. `hold` keeps it until the turn ends,
      `refuse` answers it with an error, and `steer` (version 2 only) passes it to the running turn. By default version
      1 refuses such a prompt and version 2 holds it.
    - `history`: False if the agent has its own log. The runtime then stores no turns, and the `replay` handler sends
      the updates of a loaded session.
    - `system_prompt`: whether the agent accepts instructions from the client, see `Session.instructions`. `append` adds
      them to the agent's own; `override` also lets them replace the agent's own.
    - `unstable`: features of the protocol that may still change, see `schema.FEATURES`.
    - `observers`: see requests, turns, tool calls and bytes, for metrics and tracing; see `Observer`.

    `tools` holds the tools for a model.
    """

    tools: Toolbox
    """The tools for a model. `tools.describe()` gives their descriptions."""

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
        observers: Iterable[Observer] = (),
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
            observers=values.observers_of(observers),
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
        """Where sessions are stored. Set it before a client is served."""
        return self._definition.store

    @store.setter
    def store(self, store: SessionStore) -> None:
        self._definition.kept_in = values.store_of(store)

    # -- what the agent does

    @values.bare
    def initialize(self, function: F) -> F:
        """Register a function that gets one `Initialization`. It is called for each client before the response to
        `initialize` (ACP, Initialization). The function can read the client's capabilities, and may change the agent's
        capabilities, login methods and `_meta`. If the function raises, the exception becomes the response."""
        if self._definition.initialize is not None:
            raise UsageError("there is a second @agent.initialize; an agent can have only one")
        self._definition.initialize = handlers.deciding(function, "initialize handler", "initialization")
        return function

    @values.bare
    def prompt(self, function: F) -> F:
        """Register the handler of prompts: an async generator or async function that gets one `Turn` (ACP, Prompt
        Turn).

        A generator yields text, content blocks and session updates, which are sent at once. If the turn is cancelled,
        the function ends at its next await, and the stop reason is `cancelled`, whatever the function then raises or
        returns. Put cleanup that awaits into a `with grace():` block.

        Without a cancel, an exception is logged and answered with -32603. The message of a `ToolFailed` is sent with
        that error. A `TimeoutError` is answered with -32800, and an `RpcError` is sent as it is.

        The turns of one session run one at a time. A prompt that arrives during a turn is refused or held, see
        `second_prompts` of `Agent`. A prompt after a cancelled turn waits for that turn's cleanup, at most
        `Limits.grace`.
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
        """Register a function that gets the `Turn` of each prompt before the prompt becomes part of its session. Use it
        for rate limits, budgets and rules for content. If the function raises, the exception becomes the response to
        the prompt; an `RpcError` is sent as it is. The prompt is then not stored and not given to a model. On version
        2, no turn begins either."""
        if self._definition.admit is not None:
            raise UsageError("there is a second @agent.admit; an agent can have only one")
        self._definition.admit = handlers.deciding(function, "admission handler", "turn")
        return function

    @values.early
    def command(
        self, name: str, *, hint: str | None = None, description: str | None = None
    ) -> Callable[[CommandFunction], CommandFunction]:
        """Register a slash command (ACP, Slash Commands): an async function or async generator that gets the `Turn` and
        the words after `/name`. It answers prompts that begin with the command; the `prompt` handler answers all other
        prompts.

        A single text parameter gets all text after the command. With several parameters, the text is split into words
        and quoted strings, one for each parameter, which are validated against the annotations. If the last parameter
        is text, it gets the rest of the text unsplit. If validation fails, the user sees the error together with the
        `hint`.

        `hint`: the text to type, by default the names of the parameters. `description`: by default the first line of
        the docstring. Clients get the commands when a session opens. Raises UsageError if the name is registered
        already, or is not one word.
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
        """Register the handler of steering: a function that gets the `Turn` and the `Message`, and passes the message
        to the code that works on the turn. When the function returns, the message is part of the conversation. If the
        turn has ended by then, the message becomes a prompt.

        Clients send such messages with the extension `_session/steering`. With `second_prompts="steer"`, a version 2
        prompt that arrives during a turn is passed to this handler too. If the function raises, the exception becomes
        the response.
        """
        self._definition.steer = handlers.deciding(function, "steering handler", "turn", "message")
        return function

    @values.bare
    def session(self, function: F) -> F:
        """Register a function that gets one `Session` and prepares each new, loaded or resumed session before its
        client may use it. An agent may have several such functions; they are called in the order of registration.

        An async generator opens resources before its one `yield` and closes them after it, however the session ends.
        Both run in one task, which lives as long as the session. The yielded value becomes `session.data`, unless it is
        None. A function that returns an async context manager is handled in the same way. Any other function passes its
        resources to `Session.enter` or `Session.on_close`.

        If a handler raises, or the client cancels the request, the session is not opened. Updates that the handler
        sends are delivered right after the response.
        """
        self._definition.open_session.append(handlers.session_handler(function))
        # It may add tools to its sessions, and clients read the capabilities before there is a session.
        handlers.offer_tool_cancel(self._definition, self.find_session)
        return function

    @values.bare
    def session_id(self, function: F) -> F:
        """Register a function that chooses the ids of new sessions. The function gets the `Call` of `session/new`, or
        of your method that opens a session. It returns an id, or None for a generated id.

        If the connection or the store has a session with that id already, the request fails with an internal error, and
        the reason is logged. With `history=False` the store is not checked, since your own log may already contain the
        id. The function may put an object into `call.data`, such as the object that the id belongs to; session handlers
        find it in `session.call.data`.
        """
        self._definition.session_id = handlers.as_async(function, "function for ids", "call")
        return function

    @values.bare
    def replay(self, function: F) -> F:
        """Register the function that replays a loaded session from your own log: an async generator that gets the
        `Session` and yields session updates, as `schema` types or in their wire form. The client gets these updates
        before the response to `session/load`; on version 2, before the response to a `session/resume` that requests a
        replay. The runtime's own history is then not replayed."""
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
        """Open a session from code, in the same way as `session/new`. Use it in a method such as `session/fork`, or for
        a subagent.

        `by`: the call of your method, or a turn. With a call, your response tells the client the session's id, and
        updates of the session wait for that response. With a turn, the client is notified of the session at once.
        `fork_of`: the new session begins with this session's ended turns, mode and options, and its `Session.origin` is
        `fork`.

        Raises InvalidParams if a directory is not absolute, InvalidRequest if too many sessions are open, and the
        exceptions of session handlers.
        """
        from acp_server.session.setup import PlainSetup

        peer = by.client.connection if isinstance(by, Turn) else by.connection
        setup = PlainSetup(cwd, list(additional_directories), list(mcp_servers))
        source = None if fork_of is None else fork_of.record
        opener = peer if isinstance(by, Turn) else cast("LiveCall", by)
        return await self._side(peer).lifecycle.open(opener, setup, source)

    async def close_session(self, session: Session, *, delete: bool = False) -> None:
        """Close a session from code, in the same way as `session/close` or `session/delete`. The session's turns are
        cancelled. No message is sent to the client: use the response of your method. A turn cannot close its own
        session, since that would cancel the turn."""
        await self._side(session.client.connection).lifecycle.end(session.id, keep=not delete)

    @values.early
    def method(self, name: str, *, replace: bool = False) -> Callable[[F], F]:
        """Register your own method (ACP, Extensibility: names begin with `_`). Raises UsageError for `initialize`, and
        for any other stable method of the protocol unless `replace` is true. Your method then replaces it for every
        client, and its result must have the form of the client's protocol version.

        The function takes a `Call` and the method's parameters by name, which are validated against their annotations.
        The return value becomes the result. None becomes `{}` if the protocol method's result may be empty. The
        function may offer a partial result with `call.partial(...)`, which is sent if the client or its user cancels
        the request. A cancelled request without a partial result is answered with -32800.

        A plain `def` runs in a worker thread, where a cancel cannot interrupt it. Such a function should check
        `call.is_cancelled`; its return value still becomes the result. If it has not returned after `Limits.grace`, the
        request is answered without it and its return value is dropped. At most 40 such functions run at once in one
        event loop; further calls wait.
        """
        values.check_method(name)
        if name == "initialize":
            raise UsageError("initialize cannot be replaced: @agent.initialize changes its response")
        if not replace:
            values.check_own_method(name)

        def register(function: F) -> F:
            self._add_method(name, Route(handlers.method_handler(function, name)))
            return function

        return register

    @values.early
    def notification(self, name: str) -> Callable[[F], F]:
        """Register a handler for a notification: a function that gets the connection, and the parameters by name.

        Handlers run one after the other, in the order of arrival. A plain `def` runs in the event loop, so it must be
        quick. If the runtime handles the notification too, it does so before your handler. A notification has no
        response, so invalid parameters and exceptions of the handler are logged.
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
        """Register a tool for a model (ACP, Tool Calls): an async function, or a plain one, which runs in a thread.
        Either may be a generator; the text that it yields is shown at once.

        The parameters are the model's arguments; their types are validated. A parameter annotated `ToolContext`, or
        named `call` without an annotation, gets the running call. The return value goes to the model: text, anything
        that JSON can express, or content to show. Any other value fails the call and is logged.

        Your program runs the tool with `turn.call`. A model's request for the tool goes to `turn.run_tool`.
        `tools.describe()` describes all tools for a model. For the options see `Tool`. Raises UsageError for a function
        that cannot be a tool, and for a second tool with the same name.
        """

        def register(function: F) -> Tool[F]:
            tool = made_tool(function, options)
            self.add_tool(tool)
            return tool

        return register if function is None else register(function)

    def add_tool(self, tool: Tool[Any]) -> None:
        """Register a tool that was made elsewhere. Raises UsageError if there is a tool with that name."""
        self.tools.add(tool)
        tool.is_served = lambda: self.is_serving
        self._definition.auto_approve |= bool(tool.approval) and tool.auto_approve
        handlers.offer_tool_cancel(self._definition, self.find_session)

    @values.early
    def mount(self, methods: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        """Add a method table written for jsonrpcserver's async dispatcher: functions returning `Success` or `Error`.
        Raises UsageError for a name of a protocol method."""
        for name, function in methods.items():
            values.check_own_method(name)
            self._add_method(name, Route(foreign=function))

    # -- what the user can set

    @values.early
    def modes(self, *modes: SessionMode, as_option: bool = True) -> None:
        """Offer modes (ACP, Session Modes); a session starts in the first one. A session handler may offer other modes
        in its session (`Session.set_modes`).

        `as_option`: whether version 1 also gets them as a config option. Clients that support config options show the
        option and no modes; older clients show only modes. The runtime keeps the two in sync. Version 2 has only the
        option. If you offer your own option with the category `mode`, it replaces this one, and your code must keep it
        in sync with the modes.
        """
        self._definition.modes.extend(values.modes_of(modes, self._definition.modes))
        self._definition.modes_as_option = values.switch("as_option", as_option)

    @values.bare
    def set_mode(self, function: F) -> F:
        """Register a function that gets a `Session` and a mode's id, and is called before the client's choice of that
        mode takes effect. If the function raises, nothing changes. An agent needs no such function: `Session.mode`
        always has the current mode."""
        self._definition.set_mode = handlers.deciding(function, "mode handler", "session", "id of the mode")
        return function

    @values.early
    def config_options(self, *options: Option) -> None:
        """Offer config options (ACP, Session Config Options) with their defaults: `schema.SessionConfigSelect` and
        `SessionConfigBoolean`. Boolean options are shown only to clients that support them; in sessions of other
        clients they keep their defaults."""
        self._definition.config_options.extend(values.options_of(options, self._definition.config_options))

    @overload
    def set_config_option(self, function: F) -> F: ...

    @overload
    def set_config_option(self, *, unlisted: bool) -> Callable[[F], F]: ...

    @values.early
    def set_config_option(self, function: Any = None, *, unlisted: bool = False) -> Any:
        """Register a function that gets a `Session`, an option's id and its new value, and is called before the value
        takes effect. If the function raises, nothing changes. An agent needs no such function: `Session.config` always
        has the current values.

        `unlisted`: whether the function is also called for an option or a value that the session does not offer. By
        default such a request is refused. The function must raise InvalidParams for an option that it does not know
        either. If it offers the option (`Session.set_options`) before it returns, the choice is stored like any other.
        Otherwise the runtime stores nothing.
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
        """Register a login method (ACP, Authentication): a function that gets a `Call`. It returns if the login
        succeeded. Otherwise it raises, preferably an `AuthRequired` with a message.

        `required`: whether, until the client has logged in, `session/new`, `load`, `resume`, `list` and `delete` are
        refused with -32000. Sessions that are open after a `logout` stay usable. A login is valid for one connection.
        If your credentials are valid for longer, do not use `required`: raise `AuthRequired` in a session handler while
        the credentials are missing.
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
        """Offer a login that the client runs in an interactive terminal, by starting this program again with `args` and
        `env` added (ACP, Terminal authentication). Exit status 0 means success. It is offered only to clients that
        support it."""
        method: dict[str, Any] = {"type": "terminal", "id": id, "name": name}
        method |= ({"args": list(args)} if args else {}) | ({"env": dict(env)} if env else {})
        self._definition.auth_methods.append(values.described(method, description))

    @values.bare
    def logout(self, function: F) -> F:
        """Register the handler of a client's `logout`: a function that gets a `Call` (ACP, Authentication)."""
        self._definition.logout = handlers.deciding(function, "logout handler", "call")
        return function

    # -- serving it

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """Return a connection to one client, ready to `run`. An agent serves any number of connections. Raises
        UsageError if a tool has a parameter of an unknown type, or if there is a handler of modes or options and the
        agent offers none."""
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
        """Cancel all turns of a connection, as if the user had pressed Ctrl-C at a terminal. Returns False if no turn
        ran."""
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
        """Serve one client over standard input and output until it disconnects, then exit the process.

        `backend`: asyncio by default. `loop`: `"uvloop"` replaces asyncio's event loop. `record`: a file that receives
        both directions of the conversation, one JSON object per line. `wrap`: a function that wraps the connection's
        stream, to observe its bytes.

        Raises SystemExit, or UsageError if this process already serves an agent on standard input and output. If
        `acp-server serve` loads the file, that command serves the agent instead.
        """
        from acp_server.agent.serve import run

        raise SystemExit(run(self, backend=backend, loop=loop, limits=limits, record=record, wrap=wrap))

    def find_session(self, connection: Peer, session_id: str) -> Session:
        """Return an open session of a connection. In a method, use `agent.find_session(call.connection, sessionId)`.
        Raises ResourceNotFound, which is a suitable response."""
        side = self._sides.get(connection)
        if side is None:
            raise not_found(session_id)
        return side.find(session_id)

    def _side(self, connection: Peer) -> AgentSide:
        side = self._sides.get(connection)
        if side is None:
            raise UsageError("this connection does not belong to the agent")
        return side

    def _add_method(self, name: str, route: Route) -> None:
        if name in self._definition.methods:
            raise UsageError(f"the method {name} is registered twice")
        self._definition.methods[name] = route

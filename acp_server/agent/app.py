"""`Agent`: the class that agent authors use.

The decorators fill in `AgentDefinition`. Nothing runs before `run`, `serve` or `connect`. A method exists only if its
handler is registered, and the announced capabilities are derived from that.
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
    from acp_server.tools.approval import Always, Approvals

F = TypeVar("F", bound=Callable[..., Any])
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Awaitable[Any] | AsyncGenerator[Any]])

session_versions.register(v2.DIALECT)


class Agent:
    """An agent for any ACP client. Raises UsageError for invalid arguments, and for `mcp=True` without the extra `mcp`.

    - `name`, `title`, `version`: sent to clients.
    - `accepts`: content of prompts beyond text and links: `image`, `audio`, `embedded_context`.
    - `mcp`: True connects each session to the MCP servers that its client names, over stdio, HTTP and SSE, and offers
      their tools (`Session.mcp`, extra `mcp`). A turn waits for them until 10 s after the session was opened. Or the
      transports beyond stdio that your own code connects to: `http`, `sse`.
    - `mcp_trusted`: with `mcp=True`, the names of servers whose read-only hints are trusted.
    - `store`: where sessions are stored; by default in memory.
    - `approvals`: where the user's lasting decisions about tools are stored; by default they end with the session.
    - `sessions`: what clients may do with sessions besides opening new ones; by default everything. A method that is
      not listed is not announced, and is refused. On version 2 only `delete` and `additional_directories` can be
      omitted.
    - `versions`: protocol versions. A client gets the highest that both support.
    - `second_prompts`: how a prompt is handled that arrives while a turn runs: `hold` it until the turn ends, `refuse`
      it, or, on version 2 only, `steer` the turn with it. By default version 1 refuses it, and version 2 holds it.
    - `history`: False for an agent that has its own log. The runtime keeps nothing of its turns, and the `replay`
      handler shows a loaded session.
    - `system_prompt`: whether it takes instructions from the client, see `Session.instructions`: `append` them to its
      own, or also `override` its own.
    - `unstable`: features of the protocol that may still change, see `schema.FEATURES`.

    `tools` has the tools for a model.
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
        """Where sessions are stored. Set it before a client is served."""
        return self._definition.store

    @store.setter
    def store(self, store: SessionStore) -> None:
        self._definition.kept_in = values.store_of(store)

    # -- what the agent does

    @values.bare
    def initialize(self, function: F) -> F:
        """Register a function of one `Initialization`, called for each client before the response to `initialize` (ACP,
        Initialization). It reads the client's capabilities, and may change the agent's capabilities, login methods and
        `_meta`. An exception becomes the response."""
        if self._definition.initialize is not None:
            raise UsageError("there is a second @agent.initialize; an agent can have only one")
        self._definition.initialize = handlers.deciding(function, "initialize handler", "initialization")
        return function

    @values.bare
    def prompt(self, function: F) -> F:
        """Register the handler of prompts: an async generator or async function of one `Turn` (ACP, Prompt Turn).

        Text, content blocks and session updates that a generator yields are sent at once. A cancelled turn ends the
        function at its next await, and its result is `cancelled`, whatever the function then raises or returns. Cleanup
        that awaits goes into a `with grace():` block. Without a cancel, an exception is logged and answered with
        -32603, a `ToolFailed` with its text; a `TimeoutError` with -32800, and an `RpcError` as it is.

        Turns of one session run one at a time: a prompt that arrives during a turn is refused or held, see
        `second_prompts` of `Agent`. A prompt after a cancelled turn waits for the cleanup, within `Limits.grace`.
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
        """Register a function of the `Turn`, called for each prompt before it becomes part of its session: for rate
        limits, budgets, rules for content. An exception becomes the response to the prompt, an `RpcError` as it is. The
        prompt is then not kept and not given to a model. On version 2 it is the response to the request, and no turn
        begins."""
        if self._definition.admit is not None:
            raise UsageError("there is a second @agent.admit; an agent can have only one")
        self._definition.admit = handlers.deciding(function, "admission handler", "turn")
        return function

    @values.early
    def command(
        self, name: str, *, hint: str | None = None, description: str | None = None
    ) -> Callable[[CommandFunction], CommandFunction]:
        """Register a slash command (ACP, Slash Commands): an async function or async generator of the `Turn` and the
        words after `/name`. It answers the prompts that begin with the command; the `prompt` handler answers all
        others.

        A single text parameter gets the whole rest of the prompt. Of several parameters, each gets a word or a quoted
        text, validated against its annotation; the last one, if it is text, gets the rest. The user is shown a
        validation error together with the `hint`.

        `hint`: what to type, by default the names of the parameters. `description`: by default the first line of the
        docstring. Clients get the commands when a session opens. Raises UsageError for a name that is registered
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
        """Register the handler of steering: a function of the `Turn` and the `Message`, which passes the message to the
        code that works on the turn. When it returns, the message is part of the conversation, unless the turn has
        ended; then the message becomes a prompt.

        Such messages come from clients with the extension `_session/steering`. With `second_prompts="steer"`, a prompt
        of version 2 that arrives during a turn is one too. An exception of the function becomes the response.
        """
        self._definition.steer = handlers.deciding(function, "steering handler", "turn", "message")
        return function

    @values.bare
    def session(self, function: F) -> F:
        """Register a function of one `Session` that prepares each new, loaded or resumed session before its client may
        use it. There may be several; they are called in order.

        An async generator opens resources before its one `yield` and closes them after it, whatever ends the session.
        Both run in one task, which lives as long as the session. The yielded value becomes `session.data`, unless it is
        None. A function that returns an async context manager does the same. Other functions pass resources to
        `Session.enter` or `Session.on_close`.

        If a handler raises, or the client cancels the request, the session is not opened. Updates that the handler
        sends follow right after the response.
        """
        self._definition.open_session.append(handlers.session_handler(function))
        # It may add tools to its sessions, and clients read the capabilities before there is a session.
        handlers.offer_tool_cancel(self._definition, self.find_session)
        return function

    @values.bare
    def session_id(self, function: F) -> F:
        """Register a function that gives new sessions their ids. It gets the `Call` of `session/new`, or of your method
        that opens a session, and returns an id, or None for a generated one.

        If the connection or the store has the id already, the request fails with an internal error, and the reason is
        logged. With `history=False` the store is not checked, since your own log may have begun with the id. Session
        handlers find in `session.call.data` what the function puts in `call.data`, such as the object that the id
        belongs to.
        """
        self._definition.session_id = handlers.as_async(function, "function for ids", "call")
        return function

    @values.bare
    def replay(self, function: F) -> F:
        """Register the replay of a loaded session from your own log: an async generator of the `Session` that yields
        session updates, as `schema` types or in their wire form. The client gets them before the response to
        `session/load`; on version 2, before the response to a `session/resume` that requests a replay. The runtime's
        own history is not shown then."""
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

        `by`: the call of your method, or a turn. The response to the call gives the client the session's id, and
        updates in the session wait for it. The client of a turn is notified of the session at once. `fork_of`: the new
        session begins with this session's ended turns, mode and options, and its `Session.origin` is `fork`.

        Raises InvalidParams for a directory that is not absolute, InvalidRequest if too many sessions are open, and
        exceptions of session handlers.
        """
        from acp_server.session.setup import PlainSetup

        peer = by.client.connection if isinstance(by, Turn) else by.connection
        setup = PlainSetup(cwd, list(additional_directories), list(mcp_servers))
        source = None if fork_of is None else fork_of.record
        return await self._side(peer).lifecycle.open(peer if isinstance(by, Turn) else by, setup, source)

    async def close_session(self, session: Session, *, delete: bool = False) -> None:
        """Close a session from code, as `session/close` or `session/delete` do. Its turns are cancelled. No message is
        sent: the response of your method tells the client. A turn cannot close its own session, since that would cancel
        it."""
        await self._side(session.client.connection).lifecycle.end(session.id, keep=not delete)

    @values.early
    def method(self, name: str, *, replace: bool = False) -> Callable[[F], F]:
        """Register your own method (ACP, Extensibility: names begin with `_`). Raises UsageError for a method of the
        protocol, unless you `replace` it for every client; the client's version determines the form of the result.

        The function takes a `Call` and the method's parameters by name, validated against their annotations. Its return
        value becomes the result; None becomes `{}` for a protocol method whose result may be empty. It may offer
        `call.partial(...)` results for a cancel. Without a partial result a cancelled request is answered with -32800.

        A plain `def` runs in a worker thread, where a cancel cannot interrupt it: it checks `call.is_cancelled`, and
        its return value becomes the result. After `Limits.grace` the request is answered without it, and its return
        value is dropped. At most 40 such functions run at once in one event loop; others wait.
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
        """Register a handler for a notification: a function of the connection and the parameters by name.

        Handlers run one after the other, in the order of arrival. A plain `def` runs in the event loop, so it must be
        quick. A notification that the protocol itself handles is handled first. There is no response; invalid
        parameters and exceptions of the handler are logged.
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
        Either may be a generator, whose text is shown as it is yielded.

        The parameters are the model's arguments, with their types validated. A parameter annotated `ToolContext`, or
        named `call` without an annotation, gets the running call. The return value goes to the model: text, anything
        that JSON can express, or content to show. Any other value fails the call and is logged.

        `turn.call` runs the tool from the program, `turn.run_tool` as a model requests it, and `tools.describe()`
        describes all tools for a model. For the options see `Tool`. Raises UsageError for a function that cannot be a
        tool, and for a second tool with the same name.
        """

        def register(function: F) -> Tool[F]:
            tool = made_tool(function, options)
            self.add_tool(tool)
            return tool

        return register if function is None else register(function)

    def add_tool(self, tool: Tool[Any]) -> None:
        """Register a tool that was made elsewhere. Raises UsageError if there is one with the same name."""
        self.tools.add(tool)
        tool.is_served = lambda: self.is_serving
        self._definition.auto_approve |= bool(tool.approval) and tool.auto_approve
        handlers.offer_tool_cancel(self._definition, self.find_session)

    @values.early
    def mount(self, methods: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        """Add a method table written for jsonrpcserver's async dispatcher: functions returning `Success` or `Error`.
        Raises UsageError for names of protocol methods."""
        for name, function in methods.items():
            values.check_own_method(name)
            self._add_method(name, Route(foreign=function))

    # -- what the user can set

    @values.early
    def modes(self, *modes: SessionMode, as_option: bool = True) -> None:
        """Offer modes (ACP, Session Modes); a session starts in the first one. A session handler may offer others in
        its session (`Session.set_modes`).

        `as_option`: whether version 1 also gets them as a config option. Clients that support config options show the
        option and no modes, older clients show modes alone; the two are kept in sync. Version 2 has only the option. If
        you offer an option with the category `mode`, it replaces it, and your code keeps it in sync.
        """
        self._definition.modes.extend(values.modes_of(modes, self._definition.modes))
        self._definition.modes_as_option = values.switch("as_option", as_option)

    @values.bare
    def set_mode(self, function: F) -> F:
        """Register a function of a `Session` and a mode's id, called before the client's choice takes effect. If it
        raises, nothing changes. It is optional: `Session.mode` always has the current mode."""
        self._definition.set_mode = handlers.deciding(function, "mode handler", "session", "id of the mode")
        return function

    @values.early
    def config_options(self, *options: Option) -> None:
        """Offer config options (ACP, Session Config Options) with their defaults: `schema.SessionConfigSelect` and
        `SessionConfigBoolean`. Boolean options are shown only to clients that support them; for other clients they have
        their defaults."""
        self._definition.config_options.extend(values.options_of(options, self._definition.config_options))

    @overload
    def set_config_option(self, function: F) -> F: ...

    @overload
    def set_config_option(self, *, unlisted: bool) -> Callable[[F], F]: ...

    @values.early
    def set_config_option(self, function: Any = None, *, unlisted: bool = False) -> Any:
        """Register a function of a `Session`, an option's id and its new value, called before the value takes effect.
        If it raises, nothing changes. It is optional: `Session.config` always has the current value.

        `unlisted`: whether it is also called for an option or a value that the session does not offer; otherwise they
        are refused. For an unknown one it raises InvalidParams. If it offers the option (`Session.set_options`) before
        it returns, the choice is kept like any other; else the runtime keeps nothing.
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
        """Register a login method: a function of a `Call` that returns if the login succeeded and raises otherwise,
        preferably an `AuthRequired` with a message (ACP, Authentication).

        `required`: until the client has logged in, `session/new`, `load`, `resume`, `list` and `delete` are refused
        with -32000. Sessions that are open after a `logout` stay usable. A login is valid for one connection. If your
        credentials are valid for longer, raise `AuthRequired` in a session handler while they are missing, instead.
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
        `env` added (ACP, Terminal authentication). Exit status 0 means success. Only clients that support it get it."""
        method: dict[str, Any] = {"type": "terminal", "id": id, "name": name}
        method |= ({"args": list(args)} if args else {}) | ({"env": dict(env)} if env else {})
        self._definition.auth_methods.append(values.described(method, description))

    @values.bare
    def logout(self, function: F) -> F:
        """Register the handler of a client's `logout`: a function of a `Call` (ACP, Authentication)."""
        self._definition.logout = handlers.deciding(function, "logout handler", "call")
        return function

    # -- serving it

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """A connection to one client, ready to `run`. An agent serves any number of connections. Raises UsageError for
        a tool with a parameter of an unknown type, and for a handler of modes or options where none are offered."""
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
        """Cancel all turns of a connection, as the user's interrupt at a terminal does. False if no turn ran."""
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

        `backend`: asyncio by default. `loop`: `"uvloop"` replaces asyncio's event loop. `record`: a file for both
        directions of the conversation, one JSON object a line. `wrap`: wraps the connection's stream, to observe what
        passes.

        Raises SystemExit, or UsageError if this process serves an agent on them already. In a file that `acp-server
        serve` loads, the command serves the agent instead.
        """
        from acp_server.agent.serve import run

        raise SystemExit(run(self, backend=backend, loop=loop, limits=limits, record=record, wrap=wrap))

    def find_session(self, connection: Peer, session_id: str) -> Session:
        """An open session of a connection. A method finds its session by `agent.find_session(call.connection,
        sessionId)`. Raises ResourceNotFound, which is a suitable response."""
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

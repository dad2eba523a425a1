"""`Agent`: what an agent author writes against.

Decorators fill in hooks; nothing runs before `run`, `serve` or `connect`. Methods exist only for what is registered,
and the announced capabilities are derived from that.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from acp_server.agent.handlers import method_handler, name_of, notification_handler, prompt_hook
from acp_server.errors import UsageError
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.route import Notice, Route
from acp_server.peer.stream import Stream
from acp_server.schema.capabilities import McpCapabilities, PromptCapabilities
from acp_server.schema.initialization import Implementation
from acp_server.session.hooks import Hooks
from acp_server.session.service import Service
from acp_server.session.store import SessionStore

if TYPE_CHECKING:
    from acp_server.schema.config_options import SessionConfigOption, SessionMode

F = TypeVar("F", bound=Callable[..., Any])


class Agent:
    """An agent for any ACP client.

    `name`, `title`, `version`: told to clients. `accepts`: content beyond text and links that prompts may have:
    `image`, `audio`, `embedded_context`. `mcp`: MCP transports beyond stdio that the agent connects to: `http`, `sse`.
    `store`: where sessions are kept; in memory by default.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        accepts: Iterable[Literal["image", "audio", "embedded_context"]] = (),
        mcp: Iterable[Literal["http", "sse"]] = (),
        store: SessionStore | None = None,
    ) -> None:
        self.name = name
        self._hooks = Hooks(info=Implementation(name=name, version=version, title=title))
        if accepts := list(accepts):
            self._hooks.prompt_capabilities = PromptCapabilities(**dict.fromkeys(accepts, True))
        if mcp := list(mcp):
            self._hooks.mcp_capabilities = McpCapabilities(**dict.fromkeys(mcp, True))
        if store is not None:
            self._hooks.store = store
        self._services: dict[Connection, Service] = {}

    # -- what the agent does

    def prompt(self, function: F) -> F:
        """Register what answers a user's message: an async generator or async function of one `Turn` (ACP, Prompt
        Turn).

        A generator's text is shown as it is yielded; so are content blocks and session updates. When the turn is
        cancelled, the function is cut at its next await; whatever it then raises or returns, the client is told
        `cancelled`.
        """
        if self._hooks.prompt is not None:
            raise UsageError("an agent has one prompt handler")
        self._hooks.prompt = prompt_hook(function)
        return function

    def session(self, function: F) -> F:
        """Register a function of one `Session` that prepares each new, loaded or resumed one before the client may use
        it."""
        self._hooks.open_session.append(_async(function))
        return function

    def method(self, name: str) -> Callable[[F], F]:
        """Register a method of your own (ACP, Extensibility: names begin with `_`), or replace one of the protocol's.

        The function takes a `Call` and the method's parameters by name, checked against their annotations. It may offer
        `call.partial(...)` results for the case of a cancel. A plain `def` runs in a worker thread.
        """

        def register(function: F) -> F:
            self._add_method(name, Route(method_handler(function)))
            return function

        return register

    def notification(self, name: str) -> Callable[[F], F]:
        """Register a handler for a notification: a function of the connection and the parameters by name.

        Handlers run one after the other, in the order of arrival. Notifications that the protocol acts on itself are
        acted on first, in any case.
        """

        def register(function: F) -> F:
            self._hooks.notifications.append((name, Notice(notification_handler(function))))
            return function

        return register

    def mount(self, methods: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        """Add a method table written for jsonrpcserver's async dispatcher: functions returning `Success` or `Error`."""
        for name, function in methods.items():
            self._add_method(name, Route(foreign=function))

    # -- what the user can set

    def modes(self, *modes: SessionMode) -> None:
        """Offer modes (ACP, Session Modes); the first is where a session starts."""
        self._hooks.modes.extend(modes)

    def set_mode(self, function: F) -> F:
        """Register a function of a `Session` and a mode's id, called before the client's choice takes effect."""
        self._hooks.set_mode = _async(function)
        return function

    def config_options(self, *options: SessionConfigOption) -> None:
        """Offer config options (ACP, Session Config Options) with their defaults. Boolean ones are shown only to
        clients that support them."""
        self._hooks.config_options.extend(options)

    def set_config_option(self, function: F) -> F:
        """Register a function of a `Session`, an option's id and its new value, called before it takes effect."""
        self._hooks.set_config_option = _async(function)
        return function

    # -- who may use it

    def authenticate(
        self, id: str, *, name: str, description: str | None = None, required: bool = False
    ) -> Callable[[F], F]:
        """Register a way to log in: a function of a `Call` that returns if the client may go on and raises if not (ACP,
        Authentication). `required`: no session before that."""
        from acp_server.schema.authentication import AuthMethodAgent

        def register(function: F) -> F:
            self._hooks.auth_methods.append(AuthMethodAgent(id=id, name=name, description=description))
            self._hooks.authenticate[id] = _async(function)
            self._hooks.auth_required = self._hooks.auth_required or required
            return function

        return register

    def logout(self, function: F) -> F:
        """Register what a client's `logout` does: a function of a `Call` (ACP, Authentication)."""
        self._hooks.logout = _async(function)
        return function

    # -- serving it

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """A connection to one client, ready to `run`. An agent serves any number of them."""
        service = Service(self._hooks)
        connection = service.connect(stream, limits)
        self._services[connection] = service

        async def forget() -> None:
            self._services.pop(connection, None)

        connection.on_close(forget)
        return connection

    def interrupt(self, connection: Connection) -> bool:
        """Cancel all turns of a connection, as the user's interrupt at a terminal asks for. False if none ran."""
        service = self._services.get(connection)
        return service is not None and service.interrupt()

    def run(
        self,
        *,
        backend: Literal["asyncio", "trio"] = "asyncio",
        limits: Limits | None = None,
        record: Path | None = None,
    ) -> None:
        """Serve one client over standard input and output until it is gone, then exit the process.

        `record`: a file for both directions of the conversation, one JSON object a line. Raises SystemExit.
        """
        from acp_server.agent.serve import run

        raise SystemExit(run(self, backend=backend, limits=limits, record=record))

    def _add_method(self, name: str, route: Route) -> None:
        if name in self._hooks.methods:
            raise UsageError(f"the method {name} is registered twice")
        self._hooks.methods[name] = route


def _async(function: Callable[..., Any]) -> Callable[..., Awaitable[None]]:
    if inspect.iscoroutinefunction(function):
        return function
    if not callable(function):
        raise UsageError(f"expected a function, got {type(function).__name__}")

    async def call(*args: Any) -> None:
        function(*args)

    call.__qualname__ = name_of(function)
    return call

"""`Servers`, the class of `Session.mcp`, runs all MCP servers of a session in one task group that the session keeps
open. Each server has its own task there (`Server`). Its tools are called in the tasks of their tool calls."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import uuid4

import anyio
from anyio import to_thread

from acp_server.errors import ConnectionClosed, SessionClosed, ToolFailed, UsageError
from acp_server.mcp.tools import TOOLS, ServerQuestions, ServerTools, output, shortened
from acp_server.mcp.transports import Secrets, ending, program, sse, streamable, why
from acp_server.schema.content import TextContent
from acp_server.schema.session import McpServerHttp, McpServerSse, McpServerStdio
from acp_server.schema.tool_call import Content, ToolCall
from acp_server.schema.updates import Notice

if TYPE_CHECKING:
    from acp_server.session.definition import NeedsApproval
    from acp_server.session.session import Session
    from acp_server.session.turn import Turn
    from acp_server.tools.context import ToolContext
    from acp_server.tools.output import Output

logger: logging.Logger = logging.getLogger("acp_server.mcp")

_LEAVING: Final = 4.0
"""The most seconds in which all servers close. The end of a session has a little more time."""


class Servers:
    """See `acp_server.session.definition.McpHost`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._servers: list[Server] = []
        self._is_connected = False
        self._since = 0.0
        self._untold: list[Server] = []
        """The servers whose failure was not shown to the user yet."""

    async def connect(
        self, *, approval: NeedsApproval | None = None, trusted: Collection[str] = (), timeout: float = 30.0
    ) -> None:
        """See `McpHost`."""
        need_extra()
        if isinstance(trusted, str):
            raise UsageError(f"trusted must be a list of server names, as in [{trusted!r}]")
        if self._is_connected:
            raise UsageError("the session is already connected to its MCP servers")
        self._is_connected = True
        self._since = anyio.current_time()
        for spec in self._session.mcp_servers:
            if isinstance(spec, McpServerStdio | McpServerHttp | McpServerSse):
                name = self._new_name(spec.name)
                is_trusted = name in trusted
                self._servers.append(Server(name, spec, self._session, approval, self._failed, is_trusted=is_trusted))
        if self._servers:
            await self._session.enter(self._running(timeout))

    async def ready(self, turn: Turn | None = None, *, patience: float = 10.0) -> None:
        """See `McpHost`."""
        if not self._is_connected and self._session.mcp_servers:
            await self.connect()
        with anyio.move_on_after(self._since + patience - anyio.current_time()):
            for server in self._servers:
                await server.tried.wait()
        while turn is not None and self._untold:
            await turn.update(_as_tool_call(self._untold.pop(0)))

    def __iter__(self) -> Iterator[Server]:
        """See `McpHost`."""
        return iter(tuple(self._servers))

    @property
    def instructions(self) -> str:
        """See `McpHost`."""
        told = [f"MCP server {server.name}:\n{server.instructions}" for server in self._servers if server.instructions]
        told += [server.failure for server in self._servers if server.state == "failed"]
        return "\n\n".join(told)

    @asynccontextmanager
    async def _running(self, timeout: float) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._run, timeout)
            yield
            for server in self._servers:
                server.close()
            group.cancel_scope.deadline = anyio.current_time() + _LEAVING

    async def _run(self, timeout: float) -> None:
        await to_thread.run_sync(import_module, "mcp.client")
        async with anyio.create_task_group() as group:
            for server in self._servers:
                group.start_soon(server.run, timeout)

    def _new_name(self, name: str) -> str:
        """Return a name that no other server of the session has. Clients may give two servers the same name."""
        taken = {server.name for server in self._servers}
        return next(new for new in (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3))) if new not in taken)

    def _failed(self, server: Server) -> None:
        client = self._session.client.capabilities.session
        if client is None or client.notices is None:
            self._untold.append(server)
            return
        notice = Notice(severity="warning", title=server.failure)
        try:
            self._session.updates.send(notice.to_wire())
        except (SessionClosed, ConnectionClosed):
            pass  # the client is gone


def _as_tool_call(server: Server) -> ToolCall:
    """Return a failure in a form that every client shows."""
    return ToolCall(
        tool_call_id=f"mcp_{uuid4().hex}",
        title=f"MCP server {server.name}",
        kind="other",
        status="failed",
        content=[Content(content=TextContent(text=server.failure))],
    )


def need_extra() -> None:
    """Raise UsageError if the official package is not installed."""
    if find_spec("mcp") is None:
        raise UsageError("MCP servers need the extra mcp: pip install 'acp-server[mcp]'")


_PAGES: Final = 32
"""The most pages of a list of tools that are read."""

_PACE: Final = 0.5
"""Seconds between two lists of tools of a server that keeps changing them."""

_INSTRUCTIONS: Final = 8_000
_MESSAGE: Final = 1_000
"""The most characters of a server's instructions, and of one of its messages."""

_CLOSED: Final = "Connection closed"
"""The official package's message for a call whose server is gone."""


class Server:
    """See `acp_server.session.definition.McpServerState`. `name`: unique in the session. `on_failure` is called when
    the server has failed. `is_trusted`: whether the hints of its tools are trusted."""

    def __init__(
        self,
        name: str,
        spec: McpServerStdio | McpServerHttp | McpServerSse,
        session: Session,
        approval: NeedsApproval | None,
        on_failure: Callable[[Server], None],
        *,
        is_trusted: bool = False,
    ) -> None:
        self.name: Final = name
        self.state: Literal["connecting", "connected", "failed"] = "connecting"
        self.problem: str | None = None
        self.instructions = ""
        self.tried: Final = anyio.Event()
        """Set when the server is connected, or has failed."""
        self._spec = spec
        self._session = session
        self._on_failure = on_failure
        self._secrets = Secrets(
            [variable.value for variable in spec.env]
            if isinstance(spec, McpServerStdio)
            else [header.value for header in spec.headers]
        )
        self._questions = ServerQuestions(name, session)
        self._tools = ServerTools(name, session, approval, self._call, is_trusted=is_trusted)
        self._client: Any = None
        self._connecting = anyio.CancelScope()
        self._closing = anyio.Event()
        self._changed = anyio.Event()
        self._over = anyio.Event()
        self._exit_code: int | None = None

    @property
    def tools(self) -> list[str]:
        """Return the names that the tools of the server have in the session."""
        return self._tools.names

    @property
    def failure(self) -> str:
        """Return the text for the user and the model that says why the server cannot be used."""
        return f"The MCP server {self.name} cannot be used: {self.problem or 'the session has ended'}."

    # -- its life

    async def run(self, timeout: float) -> None:
        """Connect within `timeout` seconds, and stay connected until `close`. Raises nothing: a failing server affects
        neither the session nor other servers."""
        if self._closing.is_set():
            return
        problem = "it has ended"
        try:
            with self._connecting as scope:
                scope.deadline = anyio.current_time() + timeout
                async with self._connected() as client:
                    # The package would validate results against the server's own schema, which may take for ever and
                    # would block the event loop.
                    client.session.validate_tool_result = _unchecked
                    await self._tools.update(await self._list(client))
                    scope.deadline = math.inf
                    self._client = client
                    self.instructions: str = shortened(client.instructions or "", _INSTRUCTIONS)
                    self.state = "connected"
                    self.tried.set()
                    await self._follow(client)
            if scope.cancelled_caught:
                problem = f"it did not answer within {timeout:g} s"
        except Exception as error:
            problem = why(error, self._secrets)
        finally:
            self._client = None
        if not self._closing.is_set():
            self._fail(problem if self._exit_code is None else ending(self._exit_code))

    def close(self) -> None:
        """Disconnect. A server that is not connected yet is dropped without a goodbye."""
        self._closing.set()
        if self.state == "connecting":
            self._connecting.cancel()

    def _connected(self) -> Any:
        """Return the official package's client. Entering it performs the handshake."""
        library, types = import_module("mcp.client"), import_module("mcp_types")
        return library.Client(
            self._transport(),
            client_info=types.Implementation(name="acp-server", version=version("acp-server")),
            elicitation_callback=self._questions.ask if self._questions.possible else None,
            message_handler=self._heard,
            cache=None,
        )

    def _transport(self) -> Any:
        if isinstance(self._spec, McpServerStdio):
            return program(self._spec, self._session.cwd, self._secrets, self._ended)
        return streamable(self._spec) if isinstance(self._spec, McpServerHttp) else sse(self._spec)

    def _ended(self, exit_code: int | None) -> None:
        self._exit_code = exit_code
        self._over.set()

    async def _heard(self, message: Any) -> None:
        """Handle a notification of the server."""
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._changed.set()

    async def _follow(self, client: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._relist, client)
            group.start_soon(self._listen, client)
            group.start_soon(self._wait, self._over, group.cancel_scope)
            group.start_soon(self._wait, self._closing, group.cancel_scope)

    async def _wait(self, event: anyio.Event, scope: anyio.CancelScope) -> None:
        await event.wait()
        scope.cancel()

    async def _listen(self, client: Any) -> None:
        """Listen for changes of the tools. From version 2026-07-28 on, a server sends changes only to clients that
        listen."""
        subscriptions = import_module("mcp.client.subscriptions")
        try:
            async with client.listen(tools_list_changed=True) as events:
                # Changes before the subscription were not sent.
                self._changed.set()
                async for _ in events:
                    self._changed.set()
        except (subscriptions.ListenNotSupportedError, subscriptions.SubscriptionLost, TimeoutError):
            pass  # an older server sends changes without a subscription
        except import_module("mcp").MCPError as error:
            logger.debug("the MCP server %r refuses to report changes of its tools: error %s", self.name, error.code)

    async def _relist(self, client: Any) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                await self._tools.update(await self._list(client))
            except Exception as error:
                logger.warning(
                    "the tools of the MCP server %r cannot be listed again: %s", self.name, why(error, self._secrets)
                )
            await anyio.sleep(_PACE)

    async def _list(self, client: Any) -> list[Any]:
        listed: list[Any] = []
        if client.server_capabilities.tools is None:
            return listed
        cursor = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if not cursor or len(listed) > TOOLS:
                return listed
        logger.warning(
            "the tool list of the MCP server %r has more than %d pages; further pages are not read", self.name, _PAGES
        )
        return listed

    def _fail(self, problem: str) -> None:
        self.state = "failed"
        self.problem = problem
        self.tried.set()
        logger.warning("the MCP server %r failed: %s", self.name, problem)
        self._on_failure(self)

    # -- its tools

    async def _call(self, name: str, arguments: dict[str, Any], call: ToolContext) -> Output:
        """Call one of the server's tools, in the task of the tool call. A cancel also cancels the MCP request."""
        client = self._client
        if client is None:
            raise ToolFailed(self.failure)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told = f"{done:g}" if total is None else f"{done:g}/{total:g}"
            call.progress(f"{shortened(message, _MESSAGE)} ({told})\n" if message else f"{told}\n")

        try:
            with self._questions.during(call):
                result = await client.call_tool(name, arguments, progress_callback=progress)
        except Exception as error:
            raise ToolFailed(self._refusal(name, error)) from error
        return output(result, call)

    def _refusal(self, name: str, error: Exception) -> str:
        if isinstance(error, import_module("mcp").MCPError):
            # Servers use that code for other errors too.
            is_end = cast("Any", error).code == import_module("mcp_types").CONNECTION_CLOSED
            if is_end and str(error) == _CLOSED:
                return f"The MCP server {self.name} has ended. The effects of the call are unknown."
            words = shortened(str(error), _MESSAGE)
            return f"The MCP server {self.name} refused: {words}" if words else f"The MCP server {self.name} refused."
        logger.warning("a call of %s of the MCP server %r failed: %s", name, self.name, type(error).__name__)
        return f"The response of the MCP server {self.name} cannot be used."


async def _unchecked(_name: str, _result: Any) -> None:
    """Accept every result, without validating it against the server's schema."""

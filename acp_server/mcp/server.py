"""One MCP server of a session: its life in one task, the calls of its tools in the tasks that make them, and what it
asks the user.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import uuid4

import anyio
from pydantic import ValidationError

from acp_server.errors import AcpError, ToolFailed
from acp_server.mcp.tools import TOOLS, ServerTools, output, shortened
from acp_server.mcp.transports import Secrets, program, sse, streamable
from acp_server.schema.elicitation import ElicitationSchema
from acp_server.schema.session import McpServerHttp, McpServerSse, McpServerStdio

if TYPE_CHECKING:
    from acp_server.session.definition import NeedsApproval
    from acp_server.session.session import Session
    from acp_server.tools.context import ToolContext
    from acp_server.tools.output import Output

logger = logging.getLogger("acp_server.mcp")

_PAGES: Final = 32
"""How many pages of a list of tools are read."""

_PACE: Final = 0.5
"""Seconds between two looks at the tools of a server that changes them all the time."""

_INSTRUCTIONS: Final = 8_000
_MESSAGE: Final = 1_000
"""Characters of what a server says of itself, and of what it says of its progress."""


class Server:
    """See `acp_server.session.definition.McpServerState`. `name`: other than that of any other server of the session.
    `on_failure` is called when it has failed."""

    def __init__(
        self,
        name: str,
        spec: McpServerStdio | McpServerHttp | McpServerSse,
        session: Session,
        approval: NeedsApproval | None,
        on_failure: Callable[[Server], None],
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
        self._questions = Questions(name, session)
        self._tools = ServerTools(name, session, approval, self._call)
        self._client: Any = None
        self._connecting = anyio.CancelScope()
        self._closing = anyio.Event()
        self._changed = anyio.Event()
        self._over = anyio.Event()
        self._exit_code: int | None = None

    @property
    def tools(self) -> list[str]:
        """The names that the tools of the server have in the session."""
        return self._tools.names

    # -- its life

    async def run(self, timeout: float) -> None:
        """Connect, within `timeout` seconds, and stay so until `close`. Raises nothing: a server that fails
        holds up neither the session nor the others."""
        if self._closing.is_set():
            return
        problem = "it has ended"
        try:
            with self._connecting as scope:
                scope.deadline = anyio.current_time() + timeout
                async with self._connected() as client:
                    await self._tools.update(await self._list(client))
                    scope.deadline = math.inf
                    self._client = client
                    self.instructions = shortened(client.instructions or "", _INSTRUCTIONS)
                    self.state = "connected"
                    self.tried.set()
                    await self._follow(client)
            if scope.cancelled_caught:
                problem = f"it did not answer within {timeout:g} s"
        except Exception as error:
            problem = self._why(error)
        finally:
            self._client = None
        if not self._closing.is_set():
            self._fail(problem if self._exit_code is None else _ending(self._exit_code))

    def close(self) -> None:
        """Have it end. If it is not connected, there is nothing to say good-bye to."""
        self._closing.set()
        if self.state == "connecting":
            self._connecting.cancel()

    def _connected(self) -> Any:
        """The client of the official package: entering it is the handshake."""
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
        """Take note of a notification of the server."""
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
        """Servers from the version 2026-07-28 on tell of changes only if they are asked to."""
        subscriptions = import_module("mcp.client.subscriptions")
        try:
            async with client.listen(tools_list_changed=True) as events:
                # What has changed before that is not told.
                self._changed.set()
                async for _ in events:
                    self._changed.set()
        except (subscriptions.ListenNotSupportedError, subscriptions.SubscriptionLost, TimeoutError):
            pass  # an older one tells without
        except import_module("mcp").MCPError as error:
            logger.debug("the MCP server %r does not tell of changes: %s", self.name, error.code)

    async def _relist(self, client: Any) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                await self._tools.update(await self._list(client))
            except Exception as error:
                logger.warning("the tools of the MCP server %r are not known anew: %s", self.name, self._why(error))
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
        logger.warning("the list of tools of the MCP server %r has more than %d pages", self.name, _PAGES)
        return listed

    def _fail(self, problem: str) -> None:
        self.state = "failed"
        self.problem = problem
        self.tried.set()
        logger.warning("the MCP server %r: %s", self.name, problem)
        self._on_failure(self)

    def _why(self, error: Any) -> str:
        """In words of ours, as far as possible: texts of exceptions have addresses in them, with keys perhaps."""
        while isinstance(error, ExceptionGroup):
            error = cast("Any", error).exceptions[0]
        response = getattr(error, "response", None)
        if isinstance(error, FileNotFoundError):
            return "the program or its folder is not there"
        if isinstance(error, OSError) and error.strerror:
            return f"it cannot be reached: {error.strerror}"
        if isinstance(error, import_module("mcp").MCPError):
            return self._secrets.hide(str(error)) or "it refused"
        if response is not None:
            return f"it answered with the status {response.status_code}"
        if isinstance(error, ValueError):
            return "what it answers is not what MCP says"
        return f"it cannot be reached ({type(error).__name__})"

    # -- its tools

    async def _call(self, name: str, arguments: dict[str, Any], call: ToolContext) -> Output:
        """Call one of its tools, in the task of the tool call. Being cancelled cancels the request."""
        client = self._client
        if client is None:
            raise ToolFailed(f"The MCP server {self.name} cannot be used: {self.problem or 'the session is over'}.")

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
            if cast("Any", error).code == import_module("mcp_types").CONNECTION_CLOSED:
                return f"The MCP server {self.name} has ended. What the call has done by then is not known."
            return f"The MCP server {self.name} refused: {shortened(str(error), _MESSAGE)}"
        logger.warning("a call of %s of the MCP server %r failed: %s", name, self.name, type(error).__name__)
        return f"The answer of the MCP server {self.name} cannot be used."


def _ending(exit_code: int) -> str:
    return f"it was ended by signal {-exit_code}" if exit_code < 0 else f"it has ended with exit status {exit_code}"


_AT_ONCE: Final = 4
"""Questions of one server that wait for the user. More are declined."""

_LONGEST: Final = 2_000
"""Characters of a question."""


class Questions:
    """What the server that the client calls `name` asks the user (MCP, Elicitation), passed on to the client (ACP,
    Elicitation).

    A question belongs to the tool calls of the server that run. Without a call it is declined, and it is withdrawn when
    the last of them has ended.
    """

    def __init__(self, name: str, session: Session) -> None:
        self._name = name
        self._client = session.client
        self._calls: list[ToolContext] = []
        self._waiting: set[anyio.CancelScope] = set()

    @property
    def possible(self) -> bool:
        """Whether the client can ask anything."""
        return self._client.capabilities.elicitation is not None

    @contextmanager
    def during(self, call: ToolContext) -> Generator[None]:
        """For the length of the block a call runs that questions may belong to."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            if not self._calls:
                for scope in self._waiting:
                    scope.cancel()

    async def ask(self, context: Any, params: Any) -> Any:
        """The callback of the official package: the user's answer, or a no. `context` is not needed."""
        result = import_module("mcp_types").ElicitResult
        if not self._calls or len(self._waiting) >= _AT_ONCE:
            return result(action="decline")
        answer: Any = None
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                answer = await self._asked(params)
            except (AcpError, ValidationError) as error:
                logger.warning("a question of the MCP server %r is declined: %s", self._name, type(error).__name__)
                return result(action="decline")
            finally:
                self._waiting.discard(scope)
        action = getattr(answer, "action", None)
        if action == "accept":
            return result(action="accept", content=getattr(answer, "content", None))
        return result(action="decline" if action == "decline" else "cancel")

    async def _asked(self, params: Any) -> Any:
        message = f"{self._name}: {params.message[:_LONGEST]}"
        call = self._calls[0].id if len(self._calls) == 1 else None
        if params.mode == "url":
            id = params.elicitation_id or uuid4().hex
            return await self._client.elicit_url(message, params.url, elicitation_id=id, tool_call_id=call)
        form = ElicitationSchema.from_wire(params.requested_schema)
        return await self._client.elicit_form(message, form, tool_call_id=call)

"""`Servers`: what `Session.mcp` is. All MCP servers of a session, in one task group that the session holds open."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import anyio
from anyio import to_thread

from acp_server.errors import ConnectionClosed, SessionClosed, UsageError
from acp_server.mcp.server import Server
from acp_server.schema.content import TextContent
from acp_server.schema.session import McpServerHttp, McpServerSse, McpServerStdio
from acp_server.schema.tool_call import Content, ToolCall
from acp_server.schema.updates import Notice

if TYPE_CHECKING:
    from acp_server.session.definition import NeedsApproval
    from acp_server.session.session import Session
    from acp_server.session.turn import Turn

logger = logging.getLogger("acp_server.mcp")

_LEAVING: Final = 4.0
"""Seconds for all of them to end. A session has a little more."""


class Servers:
    """See `acp_server.session.definition.McpHost`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._servers: list[Server] = []
        self._is_connected = False
        self._since = 0.0
        self._untold: list[Server] = []
        """Those whose failure the user has not been told."""

    async def connect(self, *, approval: NeedsApproval | None = None, timeout: float = 30.0) -> None:
        """See `McpHost`."""
        need_extra()
        if self._is_connected:
            raise UsageError("the session is connected to its MCP servers")
        self._is_connected = True
        self._since = anyio.current_time()
        for spec in self._session.mcp_servers:
            if isinstance(spec, McpServerStdio | McpServerHttp | McpServerSse):
                name = self._new_name(spec.name)
                self._servers.append(Server(name, spec, self._session, approval, self._failed))
        if self._servers:
            await self._session.enter(self._running(timeout))

    async def ready(self, turn: Turn | None = None, *, patience: float = 10.0) -> None:
        """See `McpHost`."""
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
        told += [
            f"The MCP server {server.name} cannot be used: {server.problem}."
            for server in self._servers
            if server.state == "failed"
        ]
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
        """Other than those of all others: clients may name two alike."""
        taken = {server.name for server in self._servers}
        return next(new for new in (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3))) if new not in taken)

    def _failed(self, server: Server) -> None:
        client = self._session.client.capabilities.session
        if client is None or client.notices is None:
            self._untold.append(server)
            return
        notice = Notice(severity="warning", title=f"The MCP server {server.name} cannot be used: {server.problem}.")
        try:
            self._session.updates.send(notice.to_wire())
        except (SessionClosed, ConnectionClosed):
            pass  # there is no client left to tell


def _as_tool_call(server: Server) -> ToolCall:
    """A failure as every client shows it."""
    words = Content(content=TextContent(text=f"The MCP server {server.name} cannot be used: {server.problem}."))
    return ToolCall(
        tool_call_id=f"mcp_{uuid4().hex}",
        title=f"MCP server {server.name}",
        kind="other",
        status="failed",
        content=[words],
    )


def need_extra() -> None:
    """Raise UsageError if the official package is not installed."""
    if find_spec("mcp") is None:
        raise UsageError("MCP servers need the extra mcp: pip install 'acp-server[mcp]'")

"""How an agent with `mcp=True` connects each session to the MCP servers that the client names for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_server.session.definition import PromptHandler
    from acp_server.session.hosts import McpHost
    from acp_server.session.session import Session
    from acp_server.session.turn import Turn


def mcp_host(session: Session) -> McpHost:
    """What connects to the servers of a session."""
    from acp_server.mcp.servers import Servers

    return Servers(session)


async def connect(session: Session) -> None:
    """Begin to connect to them."""
    if session.mcp_servers:
        await session.mcp.connect()


def behind_servers(handler: PromptHandler) -> PromptHandler:
    """A prompt handler that begins when they are there, or their time is over."""

    async def prompt(turn: Turn) -> None:
        if turn.session.mcp_servers:
            await turn.session.mcp.ready(turn)
        await handler(turn)

    return prompt

"""What the runtime provides to an agent beyond what its author registers.

That is the method that cancels one tool call. With `mcp=True`, each session is also connected to the MCP servers that
the client names for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from acp_server.errors import InvalidParams
from acp_server.peer.context import Call
from acp_server.peer.peer import Peer
from acp_server.peer.route import Route

if TYPE_CHECKING:
    from acp_server.session.definition import AgentDefinition, PromptHandler
    from acp_server.session.hosts import McpHost
    from acp_server.session.session import Session
    from acp_server.session.turn import Turn

CANCEL_TOOL_CALL: Final = "_tool_call/cancel"
"""Cancels one tool call, while its turn goes on: `sessionId`, `toolCallId`. What `tool_call/cancel` is in the next
version of the protocol: the answer says that the call is being cancelled, -32602 that no such call is running; a final
status follows."""


def offer_tool_cancel(definition: AgentDefinition, find: Callable[[Peer, str], Session]) -> None:
    """Have the agent answer `CANCEL_TOOL_CALL`, unless its author does, and tell clients of it. `find` finds an open
    session of a connection."""

    def cancel(call: Call) -> None:
        # In the reader, so that it is never queued behind what it is to cancel.
        session_id, id = call.params.get("sessionId"), call.params.get("toolCallId")
        if not isinstance(session_id, str) or not isinstance(id, str):
            raise InvalidParams("sessionId and toolCallId must be strings")
        session = find(call.connection, session_id)
        if not any(session.tools.cancel_from_client(turn, id) for turn in session.turns):
            raise InvalidParams("No such tool call is running", data={"toolCallId": id})

    definition.methods.setdefault(CANCEL_TOOL_CALL, Route(_nothing, admit=cancel, urgent=True))
    definition.extensions.setdefault(CANCEL_TOOL_CALL, {})


async def _nothing(_call: Call) -> dict[str, Any]:
    return {}


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

"""Making, resuming, listing, closing and deleting sessions for a client that speaks version 2 (ACP v2, session setup).

What that means is in `acp_server.session.lifecycle`; here is how it is asked for and answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from acp_server.schema.params import problem, read
from acp_server.session import lifecycle as v1
from acp_server.session.setup import PlainSetup
from acp_server.session.v2 import options
from acp_server.session.v2.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp_server.peer.context import Call
    from acp_server.schema.session import McpServer, ResumeSessionRequest
    from acp_server.schema.v2.mcp import McpServer as McpServerV2
    from acp_server.session.session import Session as AnySession


class Lifecycle(v1.Lifecycle):
    """The sessions of one connection."""

    SESSION: ClassVar = Session

    async def new(self, call: Call) -> dict[str, Any]:
        """`session/new`."""
        from acp_server.schema.v2.session import NewSessionRequest

        asked = read(NewSessionRequest, call.params)
        request = PlainSetup(asked.cwd, asked.additional_directories, _servers(asked.mcp_servers))
        session = await self._made(call, request)
        return {"sessionId": session.id, **_offered(session)}

    def _read_known(self, name: str, call: Call) -> ResumeSessionRequest:
        from acp_server.schema.session import ResumeSessionRequest
        from acp_server.schema.v2.session import ReplayFromStart
        from acp_server.schema.v2.session import ResumeSessionRequest as ResumeSessionRequestV2

        asked = read(ResumeSessionRequestV2, call.params)
        if not isinstance(asked.replay_from, ReplayFromStart | None):
            raise problem("replayFrom", "is not a place that this agent can replay from")
        return ResumeSessionRequest(
            session_id=asked.session_id,
            cwd=asked.cwd,
            additional_directories=asked.additional_directories,
            mcp_servers=_servers(asked.mcp_servers),
        )

    async def resume(self, call: Call) -> dict[str, Any]:
        """`session/resume`: all that was said is said again before the answer, if that is asked for; and in any case
        what the session does, which is nothing."""
        async with self._reopened(call, call.follower.request) as session:
            way = cast("Session", session).updates.replay()
            if call.params.get("replayFrom") is not None:
                await v1.replay(session, way, as_terminals=True)
            way.state("idle")
        return _offered(session)


def _offered(session: AnySession) -> dict[str, Any]:
    offered = options.offered(session.settings)
    return {"configOptions": offered} if offered else {}


def _servers(servers: Sequence[McpServerV2]) -> list[McpServer]:
    """In the form that authors know. Of a type that version 1 does not have, they are unknown there, too."""
    from acp_server.schema import from_wire
    from acp_server.schema.session import McpServer

    return [from_wire(McpServer, server.to_wire()) for server in servers]

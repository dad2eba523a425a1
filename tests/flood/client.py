"""A client with the default bounds that is flooded: `python -m tests.flood.client BACKEND NOTES FOLDER`, the descriptor
for the notes of its meter, and a folder whose files the agent may read."""

import sys
from typing import Any

import anyio

from acp_server.agent.fd_stream import FdStream
from acp_server.client import Handlers, LocalFiles, LocalTerminals, RemoteAgent, connect_agent
from acp_server.schema import RequestPermissionRequest
from tests.flood.meter import Meter

meter = Meter(int(sys.argv[2]))


async def watch(_params: dict[str, Any]) -> None:
    await meter.watch()


async def probe(_params: dict[str, Any]) -> None:
    await meter.probe()


async def ask(_request: RequestPermissionRequest) -> None:
    await anyio.sleep_forever()


async def prompt(_params: dict[str, Any]) -> None:
    """Begin a turn whose updates are never taken."""
    session = await agents[0].new_session("/tmp")
    async with session.prompt("talk") as turn:
        meter.note("begun")
        await turn.wait()


agents: list[RemoteAgent] = []


async def main() -> None:
    handlers = Handlers(
        permission=ask,
        files=LocalFiles([sys.argv[3]]),
        terminals=LocalTerminals(),
        methods={"_watch": watch, "_probe": probe, "_prompt": prompt},
    )
    async with connect_agent(FdStream(0, 1), handlers) as agent:
        agents.append(agent)
        await agent.link.connection.wait_closed()


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1])

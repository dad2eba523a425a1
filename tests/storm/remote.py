"""The agent of a storm behind a remote transport, as a program of its own:
`python -m tests.storm.remote BACKEND JOURNAL http|ws`.

What comes on standard input goes over loopback to the agent, by the client and the server of the package.
"""

import os
import socket
import sys
from pathlib import Path
from unittest.mock import patch

import anyio

from acp_server import Connection, Limits
from acp_server.agent.ending import Children
from acp_server.agent.process import StandardIO
from acp_server.http.listener import Places
from acp_server.http.server import Server
from acp_server.http.websocket import WebSocketLimits
from acp_server.peer import reader
from acp_server.peer.stream import Stream
from acp_server.remote import RemoteApp
from acp_server.remote.bridge import Bridge
from acp_server.remote.client import stream_to
from acp_server.tasks.exit_hooks import run_exit_hooks
from tests.storm.agent import LIMITS, Noted, agent_of
from tests.storm.journal import FileJournal
from tests.storm.stacks import show_stacks
from tests.storm.tap import noting
from tests.storm.threads import Note


class LineTap:
    """The agent's stream; notes each message that it has read. Over HTTP they have no order."""

    def __init__(self, stream: Stream, note: Note) -> None:
        self._stream = stream
        self._note = note

    async def receive(self) -> bytes:
        data = await self._stream.receive()
        for line in data.splitlines():
            self._note("heard", more=line.decode(errors="replace"))
        return data

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def aclose(self) -> None:
        await self._stream.aclose()


class NotedLines(Noted):
    """An agent that notes the messages that it reads."""

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """See `Agent.connect`."""
        return self._agent.connect(LineTap(stream, self._note), limits)


async def bridged(app: RemoteApp, kind: str) -> None:
    """Until the editor is gone, and the agent has ended."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"{kind}://127.0.0.1:{listening.getsockname()[1]}/acp"
    server = Server(app, Places(1000), websocket=WebSocketLimits())
    with StandardIO() as standard_io, listening:
        editor, agent = standard_io.stream(), stream_to(url, kind == "ws")()
        async with anyio.create_task_group() as watching:
            watching.start_soon(show_stacks)
            async with anyio.create_task_group() as group:
                group.start_soon(server.run, [listening])
                why = await Bridge(editor, agent, LIMITS.line, LIMITS.drain, editor.unread).run()
                await agent.aclose()
                await editor.aclose()
                server.end()
            watching.cancel_scope.cancel()
    sys.stderr.write(why or "")
    run_exit_hooks()
    # Threads that still hang are the handlers', and no loop can end before them.
    os._exit(0 if why is None else 1)


def main() -> int:
    """Serve one storm."""
    backend, path, kind = sys.argv[1:]
    note = FileJournal(Path(path)).note
    Children().end_with_us()
    app = RemoteApp(NotedLines(agent_of(note), note), limits=LIMITS)
    with noting(note), patch.object(reader, "perf_counter", lambda: 0.0):
        anyio.run(bridged, app, kind, backend=backend)
    return 0


if __name__ == "__main__":
    sys.exit(main())

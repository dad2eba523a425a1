"""The agent of a storm as a program of its own: `python -m tests.storm.agent BACKEND JOURNAL`."""

import sys
import threading
from pathlib import Path
from unittest.mock import patch

import anyio

from acp_server import Agent, Call, Connection, Limits
from acp_server.agent.serve import run
from acp_server.peer import reader
from acp_server.peer.stream import Stream
from acp_server.tasks.tree import Node
from tests.storm.handlers import Stage, storm_agent
from tests.storm.journal import FileJournal
from tests.storm.tap import Tap, noting
from tests.storm.threads import Note

LIMITS = Limits(grace=0.2, drain=0.1, flush=2.0)
GLANCE = 0.01


class Barrier:
    """Where real threads wait, see `threads.Gates`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._opened = 0
        self._is_open = False

    def gate(self) -> None:
        """Wait."""
        with self._changed:
            opened = self._opened
            self._changed.wait_for(lambda: self._is_open or self._opened > opened)

    def open_gates(self, for_good: bool = False) -> None:
        """Let those go on that wait; for good: also those that still come."""
        with self._changed:
            self._opened += 1
            self._is_open = self._is_open or for_good
            self._changed.notify_all()


class Noted:
    """An agent that notes what it reads, and when its turns are interrupted."""

    def __init__(self, agent: Agent, note: Note) -> None:
        self._agent = agent
        self._note = note

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """See `Agent.connect`."""
        return self._agent.connect(Tap(stream, self._note), limits)

    def interrupt(self, connection: Connection) -> bool:
        """See `Agent.interrupt`."""
        if interrupted := self._agent.interrupt(connection):
            self._note("interrupt")
        return interrupted


def running(tree: Node) -> int:
    """How many nodes are in the tree, save those that sessions have on version 2 for as long as they are open."""
    return tree.size - sum(node.label.startswith("session sess_") for node in tree.children or ())


def agent_of(note: Note) -> Agent:
    """The agent, which can also say that nothing runs any more."""
    stage = Stage(note, Barrier())
    agent = storm_agent(stage)

    @agent.method("_storm/rest")
    async def rest(call: Call) -> None:
        """Once nothing runs any more but this."""
        while running(call.connection.tree) > 1 or stage.loose:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(GLANCE)

    return agent


def main() -> int:
    """Serve one storm."""
    backend, path = sys.argv[1:]
    note = FileJournal(Path(path)).note
    # What is read in one piece is handled in one, also if the machine is busy with something else in the middle of it:
    # otherwise nothing could be said of what came first.
    with noting(note), patch.object(reader, "perf_counter", lambda: 0.0):
        return run(Noted(agent_of(note), note), backend=backend, limits=LIMITS)


if __name__ == "__main__":
    sys.exit(main())

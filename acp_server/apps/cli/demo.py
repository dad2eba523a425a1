"""`acp-server demo` runs a session with the built-in agent, without a terminal, and shows the messages that an editor
would see."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import deque
from typing import Any, Final

import anyio
import click

from acp_server import __version__
from acp_server.agent.log import entry
from acp_server.apps.cli.screen import Screen, clean, use_standard_output
from acp_server.apps.cli.target import COMMAND as SERVE
from acp_server.client import Handlers, RemoteSession, reject_once, spawn_agent
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError
from acp_server.schema import (
    AgentMessageChunk,
    AvailableCommandsUpdate,
    Implementation,
    RequestPermissionRequest,
    SessionUpdate,
    ToolCallUpdate,
)

_WHO: Final = Implementation(name="acp-server", title="acp-server demo", version=__version__)

_HEAD: Final = 6
_TAIL: Final = 2
_FENCE: Final = "~~~~"
"""A fence for editors, which show the text between two fences verbatim."""

COMMAND: Final = (*SERVE, "--store", "memory")
"""The session is not stored, because it is only shown."""

_CANCEL_AT: Final = 2
"""The number of the chunk of the answer at which the second search is cancelled. Because of backpressure the agent is
never far ahead of the client, so any project but a tiny one is still being searched at that moment."""


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False), default=".")
def demo(directory: str) -> int:
    """Show a session with the built-in agent on DIRECTORY (here by default). The demo searches, cancels a search and
    keeps its results until then, reads a file, is refused a path, and is refused approval for a change."""
    use_standard_output()
    try:
        anyio.run(_session, os.path.abspath(directory))
    except AcpError as error:
        sys.stderr.write(entry(f"acp-server: {error}"))
        return 1
    return 0


class _Excerpt(Screen):
    """Shows the beginning and the end of each message of an agent."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._partial = ""
        self._shown = 0
        self._held: deque[str] = deque()
        self._left_out = 0

    def step(self, what: str) -> None:
        """Begin the next step of the client."""
        self._steps += 1
        self._shown = 0
        self.line()
        self.line(f"{self._steps}. {what}", bold=True)

    def text(self, text: str, **style: Any) -> None:
        """See `Screen`."""
        *lines, self._partial = (self._partial + clean(text)).split("\n")
        for line in lines:
            if line == _FENCE:
                continue
            if self._shown < _HEAD:
                self._shown += 1
                self.line(line)
                continue
            self._held.append(line)
            if len(self._held) > _TAIL:
                self._held.popleft()
                self._left_out += 1

    def update(self, update: SessionUpdate | ToolCallUpdate) -> None:
        """See `Screen`."""
        if isinstance(update, ToolCallUpdate) and update.status is not None:
            self.finish()
        super().update(update)

    def finish(self) -> None:
        """Show the end of the message so far."""
        if self._left_out:
            self.line(f"... {self._left_out} more lines", dim=True)
        for line in [*self._held, *([self._partial] if self._partial else [])]:
            self.line(line)
        self._held.clear()
        self._partial = ""
        self._left_out = 0


async def _session(directory: str) -> None:
    screen = _Excerpt()
    with screen.output.needed():
        await _shown(screen, directory)


async def _shown(screen: _Excerpt, directory: str) -> None:
    async def say_no(request: RequestPermissionRequest) -> PermissionAnswer:
        screen.update(request.tool_call)
        answer = await reject_once(request)
        for option in request.options:
            mark = "-->" if option is answer else "   "
            screen.line(f"{mark} {option.name}", fg="yellow" if option is answer else None)
        return answer

    screen.line(f"starting: {' '.join(COMMAND)}", dim=True)
    began = time.perf_counter()
    handlers = Handlers(permission=say_no)
    async with spawn_agent(COMMAND, handlers, on_stderr=lambda line: screen.line(line, dim=True)) as agent:
        screen.step("initialize")
        info = await agent.initialize(client_info=_WHO)
        who = info.agent_info
        assert who is not None
        screen.line(
            f"{who.title} {who.version}, protocol version {info.protocol_version}, {_since(began)} after the start"
        )

        screen.step(f"session/new {directory}")
        offered = anyio.Event()

        def updated(update: SessionUpdate) -> None:
            if isinstance(update, AvailableCommandsUpdate):
                offered.set()

        session = await agent.new_session(directory, on_update=updated)
        screen.line(f"session {session.id}")
        with anyio.move_on_after(1):
            await offered.wait()
        screen.commands(session.available_commands)

        await _turn(screen, session, r"/search (?i)\bcancel")
        await _turn(screen, session, "/search .", cancel=True)
        await _turn(screen, session, f"/read {_some_file(directory)}:1-5")
        await _turn(screen, session, "/read ../../../../../../../../etc/passwd")
        await _turn(screen, session, f"/write {_no_file(directory)} Was this allowed?")
        screen.step("closing the agent's input")
        began = time.perf_counter()
    screen.line(f"it has ended, after {_since(began)}")


async def _turn(screen: _Excerpt, session: RemoteSession, text: str, *, cancel: bool = False) -> None:
    screen.step(f"session/prompt {text}")
    began = time.perf_counter()
    updates = pieces = 0

    def show(update: SessionUpdate) -> None:
        nonlocal updates, pieces, began
        updates += 1
        screen.update(update)
        if cancel and isinstance(update, AgentMessageChunk):
            pieces += 1
            if pieces == _CANCEL_AT:
                began = time.perf_counter()
                turn.cancel()
                screen.line("--> session/cancel", fg="yellow")

    # Updates are shown when they arrive, so that a question of the agent follows its earlier messages.
    session.on_update = show
    async with session.prompt(text) as turn:
        await turn.wait()
    screen.finish()
    what = f"{_since(began)} after the cancel" if turn.cancelled else f"{_since(began)}, {updates} updates"
    screen.line(f"<-- stopReason {turn.stop_reason}, {what}", fg="yellow" if turn.cancelled else "green")
    if cancel and turn.stop_reason != "cancelled":
        screen.line("    (there is too little here to search: it was over before it could be cancelled)", dim=True)


def _since(moment: float) -> str:
    return f"{(time.perf_counter() - moment) * 1000:.0f} ms"


def _some_file(directory: str) -> str:
    files = sorted(entry.name for entry in os.scandir(directory) if entry.is_file())
    return next((name for name in files if name.lower().startswith("readme")), files[0] if files else "README.md")


def _no_file(directory: str) -> str:
    """The name of a file that does not exist."""
    names = (f"acp-server-demo{number or ''}.txt" for number in itertools.count())
    return next(name for name in names if not os.path.lexists(os.path.join(directory, name)))

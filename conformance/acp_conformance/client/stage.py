"""Sets up the client of one case: its process, its user, its folder, and the agent processes that it starts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

from acp_conformance.core.case import Case
from acp_conformance.core.lines import Transcript
from acp_conformance.core.process import Start, spawn

from . import dialect as dialects
from . import program
from .checks import Seen, Watch
from .conversation import Conversation
from .link import Links, listen
from .pace import Pace
from .profile import Action, Profile
from .program import Program


class NotStarted(Exception):
    """The client started no agent, or no further agent."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of all cases of a run."""

    command: Sequence[str]
    profile: Profile
    pace: Pace = field(default_factory=Pace)
    here: bool = False
    """Start it in the current folder instead of an empty one."""
    start: Start = spawn


class Stage:
    """The client of one case. `set_up` creates the object."""

    def __init__(
        self, setting: Setting, folder: str, links: Links, program: Program, group: TaskGroup, watch: tuple[Seen, Case]
    ) -> None:
        self.setting = setting
        self.folder = folder
        """An empty folder, in which the client is started too."""
        self.program = program
        self.transcript = Transcript()
        self.began = anyio.current_time()
        self._links = links
        self._group = group
        self._watch = watch

    async def agent(self) -> Conversation:
        """Return the next agent process that the client starts.

        Raises:
            NotStarted: The client has ended, or started no agent in time.
        """
        starting = self.setting.pace.starting
        started: list[Conversation] = []

        async def connect() -> None:
            link = await self._links.next()
            seen, case = self._watch
            dialect = dialects.of(case.protocol)
            watch = Watch(seen, case.id, dialect)
            started.append(Conversation(link, watch, self.transcript, self.setting.pace, dialect))
            waiting.cancel_scope.cancel()

        async def give_up() -> None:
            await self.program.exited.wait()
            # An agent that it started just before its end may still be on its way.
            await anyio.sleep(0.2)
            waiting.cancel_scope.cancel()

        with anyio.move_on_after(starting):
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(connect)
                waiting.start_soon(give_up)
        if not started:
            status = self.program.status
            if status is None:
                raise NotStarted(f"the client did not start its agent within {starting:g} s")
            raise NotStarted(f"the client ended with status {status} before it started its agent")
        self._note("the client starts its agent")
        self._group.start_soon(started[0].run)
        return started[0]

    def spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something concurrently, until the end of the case. An error in it counts as an error of the suite."""
        self._group.start_soon(function)

    def spare(self) -> None:
        """Answer the client's further agent processes like a simple agent."""
        self._group.start_soon(self._serve)

    async def user(self, situation: str, **values: object) -> None:
        """Type the user's input of a situation, with `values` inserted into its lines."""
        action = self.setting.profile.situations.get(situation, Action(closes=True))
        lines = [_fill(line, values) for line in action.stdin]
        if lines:
            self._note(f"the user types {lines}")
            await self.program.type(lines)
        if action.signal is not None:
            self._note(f"the user sends {action.signal.name}")
            self.program.signal(action.signal)
        if action.closes:
            self._note("the client's standard input is closed")
            self.program.end_input()

    async def exited(self, patience: float | None = None) -> bool:
        """Whether the client ends in time."""
        with anyio.move_on_after(self.setting.pace.patience if patience is None else patience):
            await self.program.exited.wait()
        return self.program.exited.is_set()

    async def _serve(self) -> None:
        while True:
            try:
                conversation = await self.agent()
            except NotStarted:
                return
            await conversation.release("initialize", "session/new", "session/prompt")
            self._group.start_soon(_leave, conversation)

    def _note(self, text: str) -> None:
        self.transcript.add("suite", f"# {text}".encode())


async def _leave(conversation: Conversation) -> None:
    await conversation.closed.wait()
    await conversation.exit(0)


def _fill(line: str, values: dict[str, object]) -> str:
    for name, value in values.items():
        line = line.replace("{" + name + "}", str(value))
    return line


@asynccontextmanager
async def set_up(setting: Setting, case: Case, seen: Seen) -> AsyncIterator[Stage]:
    """Start the client for one case. At the end of the block all its processes are ended.

    Raises:
        CannotStart: The command cannot be executed.
    """
    folder = os.path.realpath(tempfile.mkdtemp(prefix="conformance-"))  # noqa: ASYNC240 - once a case
    try:
        async with listen() as links:
            profile = setting.profile
            extra = [word for name in ("prompt", *case.needs) for word in profile.situations[name].arguments]
            command = [*program.expand(setting.command, links.command, folder), *profile.arguments, *extra]
            where = os.getcwd() if setting.here else folder
            async with (
                program.run(command, folder=where, env=profile.env, start=setting.start) as client,
                anyio.create_task_group() as group,
            ):
                stage = Stage(setting, folder, links, client, group, (seen, case))
                if not profile.types:
                    client.end_input()
                await client.type(profile.stdin)
                await stage.user("prompt")
                try:
                    yield stage
                finally:
                    group.cancel_scope.cancel()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

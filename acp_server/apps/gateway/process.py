"""One run of an agent's program: who works with its sessions, the questions that it asks, and whether it is there.

When a run begins and ends is decided in `acp_server.apps.gateway.pool`; which session is whose in
`acp_server.apps.gateway.sessions`.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.questions import FormQuestion, PermissionQuestion, Question, UrlQuestion
from acp_server.apps.gateway.records import Ids, KnownSession
from acp_server.apps.gateway.sessions import Sessions
from acp_server.client import Handlers, RemoteAgent, RemoteSession
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError
from acp_server.schema import (
    CreateElicitationResponse,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    RequestPermissionRequest,
)

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")


class Turn(Protocol):
    """What a chat does with a session: it takes the questions of the agent."""

    @property
    def has_questions(self) -> bool:
        """Whether the agent waits for an answer."""
        ...

    async def ask(self, question: Question) -> Any:
        """The answer; None if the question is dismissed."""
        ...


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that can be prompted."""

    process: Process
    session: RemoteSession
    key: str
    is_new: bool
    """Whether nothing was said in it yet."""


class Changes:
    """Tells all tasks that wait that something is not as it was."""

    def __init__(self) -> None:
        self.next = anyio.Event()
        """Set at the next change. To be taken before what may change is looked at."""

    def tell(self) -> None:
        """Something has changed."""
        self.next.set()
        self.next: anyio.Event = anyio.Event()


class Process:
    """One run of an agent's program."""

    def __init__(self, bot: str, ids: Ids, changes: Changes) -> None:
        """`changes` is told when it may have room for a chat more, or has no chat any more."""
        self.ready: anyio.Event = anyio.Event()
        """Set when the agent can be asked for sessions, or never will be."""
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """Cancelling it ends the run."""
        self.spawned: RemoteAgent | None = None
        """The agent, from its start on."""
        self.agent: RemoteAgent | None = None
        """The agent, once it can be asked for sessions."""
        self.why: str | None = None
        """Why the gateway has ended it."""
        self.changed_at = anyio.current_time()
        self.began_at: Any = self.changed_at
        """When it was started, and when it last had a chat more or less."""
        self.error: AcpError | OSError | None = None
        self._bot = bot
        self._ids = ids
        self._has_left = False
        self._sessions: Sessions | None = None
        self._turns: dict[str, Turn] = {}
        """The turns of chats, by the ids of their sessions."""
        self._opening = 0
        """How many wait for a session."""
        self._begun = 0
        self._changes = changes
        self._probes: list[anyio.Event] = []

    def begin(self, agent: RemoteAgent, cwd: str) -> None:
        """The agent has started, in this folder."""
        self._sessions = Sessions(self._bot, agent, cwd)
        self.agent = agent
        self.ready.set()

    def leave(self) -> None:
        """The agent ends, and has no more chats."""
        self._has_left = True
        self._signal()

    def kill(self) -> None:
        """End it by force, now."""
        if self.spawned is not None and self.spawned.process is not None:
            self.spawned.process.kill()

    # -- sessions

    @property
    def load(self) -> int:
        """How many chats have a session of it, or wait for one."""
        return len(self._turns) + self._opening

    @contextmanager
    def reserved(self) -> Generator[None]:
        """While a chat waits for a session of it."""
        self._opening += 1
        self.changed_at = anyio.current_time()
        try:
            yield
        finally:
            self._opening -= 1
            self._signal()

    def holds(self, key: str) -> bool:
        """Whether the session with this key is open here."""
        return self._sessions is not None and self._sessions.holds(key)

    def knows(self, id: str) -> bool:
        """Whether the agent has a session of this id open."""
        return self.agent is not None and self.agent.knows(id)

    def means_otherwise(self, id: str, key: str) -> bool:
        """Whether this id has meant a session with another key here."""
        return self._sessions is not None and self._sessions.means_otherwise(id, key)

    async def open(self, known: KnownSession | None) -> OpenSession:
        """The known session if the agent still has it, else a new one. Raises AcpError or OSError."""
        sessions = await self._when_ready()
        if known is not None:
            session = await sessions.find(known.key, known.id)
            if session is not None:
                return OpenSession(self, session, known.key, is_new=False)
        session, key = await sessions.open()
        return OpenSession(self, session, key, is_new=True)

    def begin_turn(self, session: RemoteSession, turn: Turn) -> None:
        """Let `turn` have the questions of this session."""
        self._begun += 1
        self._turns[session.id] = turn

    def end_turn(self, session: RemoteSession, turn: Turn) -> None:
        """`turn` does not work with the session any more."""
        if self._turns.get(session.id) is turn:
            del self._turns[session.id]
            self._signal()

    def idle(self, key: str) -> None:
        """No chat uses the session with this key for now; see `Sessions.tend`."""
        if self._sessions is not None:
            self._sessions.rest(key)

    async def tend(self, limits: GatewayLimits) -> None:
        """Close the sessions that have been idle for too long, or are too many. Until it is cancelled."""
        sessions = await self._when_ready()
        await sessions.tend(limits.idle_sessions, limits.idle_session_seconds, limits.start_seconds)

    def release(self, key: str) -> RemoteSession | None:
        """The session with this key, which is not found here any more; None if it is not of this run."""
        return None if self._sessions is None else self._sessions.release(key)

    async def end(self, session: RemoteSession, seconds: float) -> None:
        """Make the agent free a session that was released here, and forget what it knows of it, as far as it can."""
        if self._sessions is not None:
            with anyio.move_on_after(seconds):
                await self._sessions.end(session)

    async def forget(self, known: KnownSession, seconds: float) -> None:
        """Make the agent forget what it knows of a session that is not open, as far as it can."""
        try:
            with anyio.move_on_after(seconds):
                await (await self._when_ready()).forget(known.key, known.id)
        except (AcpError, OSError) as error:
            logger.debug("a session could not be ended: %s", error)

    async def _when_ready(self) -> Sessions:
        await self.ready.wait()
        if self._sessions is None:
            assert self.error is not None
            raise self.error
        return self._sessions

    # -- whether it is there

    @property
    def is_lost(self) -> bool:
        """Whether the agent has ended, or is about to: it answers nothing any more."""
        return self._has_left or (self.agent is not None and self.agent.link.connection.is_lost)

    @property
    def is_probed(self) -> bool:
        """Whether it is being looked at whether the agent is there."""
        return bool(self._probes)

    @property
    def progress(self) -> tuple[int, int] | None:
        """Something that changes with all that the agent sends, and with each chat that it gets; None if no chat waits
        for it, be it that the agent itself waits for answers."""
        if self.agent is None or not self._turns or any(turn.has_questions for turn in self._turns.values()):
            return None
        return self._begun, self.agent.link.heard

    @contextmanager
    def probing(self) -> Generator[None]:
        """While it is probed whether the agent is there."""
        probe = anyio.Event()
        self._probes.append(probe)
        try:
            yield
        finally:
            self._probes.remove(probe)
            probe.set()

    async def when_probed(self) -> None:
        """Wait until the probes that are under way have ended."""
        for probe in list(self._probes):
            await probe.wait()

    async def when_idle(self) -> None:
        """Wait until no chat works with it."""
        while self.load:
            await self._changes.next.wait()

    def _signal(self) -> None:
        self.changed_at: float = anyio.current_time()
        self._changes.tell()

    # -- questions

    def handlers(self) -> Handlers:
        """What the agent may ask of the gateway."""
        return Handlers(permission=self._permission, form=self._form, url=self._url)

    async def _permission(self, request: RequestPermissionRequest) -> PermissionAnswer:
        return await self._ask(request.session_id, PermissionQuestion(self._ids.new(), request))

    async def _form(self, request: ElicitationFormMode) -> CreateElicitationResponse:
        answer = await self._ask(request.session_id, FormQuestion(self._ids.new(), request))
        return ElicitationCancelAction() if answer is None else answer

    async def _url(self, request: ElicitationUrlMode) -> CreateElicitationResponse:
        answer = await self._ask(request.session_id, UrlQuestion(self._ids.new(), request))
        return ElicitationCancelAction() if answer is None else answer

    async def _ask(self, session_id: str | None, question: Question) -> Any:
        if session_id is None or self.agent is None:
            return None
        # What a child session asks is asked in the chat that it works for.
        turn = self._turns.get(self.agent.subagents.root_of(session_id))
        if turn is None:
            return None
        return await turn.ask(question)

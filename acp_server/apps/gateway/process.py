"""One run of an agent's program: the chats that use its sessions, its questions, and probes whether it responds.

`acp_server.apps.gateway.pool` decides when a run begins and ends. `acp_server.apps.gateway.sessions` handles the
sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from acp_server import AcpError
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.questions import FormQuestion, PermissionQuestion, Question, UrlQuestion
from acp_server.apps.gateway.records import Ids, KnownSession
from acp_server.apps.gateway.sessions import Sessions
from acp_server.client import Handlers, PermissionAnswer, RemoteAgent, RemoteSession
from acp_server.schema import (
    CreateElicitationResponse,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    RequestPermissionRequest,
)

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")


class Turn(Protocol):
    """A chat that uses a session and gets the agent's questions."""

    @property
    def has_questions(self) -> bool:
        """Whether the agent waits for an answer."""
        ...

    async def ask(self, question: Question) -> Any:
        """Return the answer to a question; None if the question is dismissed."""
        ...


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that can be prompted."""

    process: Process
    session: RemoteSession
    key: str
    is_new: bool
    """Whether the session has had no prompt yet."""


class Changes:
    """Notifies all waiting tasks of a change."""

    def __init__(self) -> None:
        self.next = anyio.Event()
        """An event that is set at the next change. Read it before the state that may change."""

    def tell(self) -> None:
        """Notify of a change."""
        self.next.set()
        self.next: anyio.Event = anyio.Event()


class Process:
    """One run of an agent's program."""

    def __init__(self, bot: str, ids: Ids, changes: Changes) -> None:
        """`changes` is notified when the process may have capacity for another chat, or has no chat any longer."""
        self.ready: anyio.Event = anyio.Event()
        """Set when the agent accepts sessions, or when it is known that it never will."""
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """The scope of the run. Cancelling it ends the run."""
        self.spawned: RemoteAgent | None = None
        """The agent after its start."""
        self.agent: RemoteAgent | None = None
        """The agent, once it accepts sessions."""
        self.why: str | None = None
        """Why the gateway has ended the process."""
        self.changed_at = anyio.current_time()
        self.began_at: Any = self.changed_at
        """When the process was started, and when its number of chats last changed."""
        self.error: AcpError | OSError | None = None
        self._bot = bot
        self._ids = ids
        self._has_left = False
        self._sessions: Sessions | None = None
        self._turns: dict[str, Turn] = {}
        """The turns of chats, by session id."""
        self._opening = 0
        """The number of chats that wait for a session."""
        self._begun = 0
        self._changes = changes
        self._probes: list[anyio.Event] = []

    def begin(self, agent: RemoteAgent, cwd: str) -> None:
        """Record that the agent has started and works in this folder."""
        self._sessions = Sessions(self._bot, agent, cwd)
        self.agent = agent
        self.ready.set()

    def leave(self) -> None:
        """Record that the agent is ending and gets no more chats."""
        self._has_left = True
        self._signal()

    def kill(self) -> None:
        """Kill the process now."""
        if self.spawned is not None and self.spawned.process is not None:
            self.spawned.process.kill()

    # -- sessions

    @property
    def load(self) -> int:
        """The number of chats that use a session of this process, or wait for one."""
        return len(self._turns) + self._opening

    @contextmanager
    def reserved(self) -> Generator[None]:
        """Count a chat while it waits for a session of this process."""
        self._opening += 1
        self.changed_at = anyio.current_time()
        try:
            yield
        finally:
            self._opening -= 1
            self._signal()

    def holds(self, key: str) -> bool:
        """Whether the session with this key is open in this process."""
        return self._sessions is not None and self._sessions.holds(key)

    def knows(self, id: str) -> bool:
        """Whether the agent has a session with this id open."""
        return self.agent is not None and self.agent.knows(id)

    def means_otherwise(self, id: str, key: str) -> bool:
        """Whether this id has belonged to a session with another key in this process."""
        return self._sessions is not None and self._sessions.means_otherwise(id, key)

    async def open(self, known: KnownSession | None) -> OpenSession:
        """Return the known session if the agent still has it, else a new session. Raises AcpError or OSError."""
        sessions = await self._when_ready()
        if known is not None:
            session = await sessions.find(known.key, known.id)
            if session is not None:
                return OpenSession(self, session, known.key, is_new=False)
        session, key = await sessions.open()
        return OpenSession(self, session, key, is_new=True)

    def begin_turn(self, session: RemoteSession, turn: Turn) -> None:
        """Route the questions of this session to `turn`."""
        self._begun += 1
        self._turns[session.id] = turn

    def end_turn(self, session: RemoteSession, turn: Turn) -> None:
        """End the use of the session by `turn`."""
        if self._turns.get(session.id) is turn:
            del self._turns[session.id]
            self._signal()

    def idle(self, key: str) -> None:
        """Record that no chat uses the session with this key for now; see `Sessions.tend`."""
        if self._sessions is not None:
            self._sessions.rest(key)

    async def tend(self, limits: GatewayLimits) -> None:
        """Close sessions that have been idle for too long, or exceed the limit. Runs until cancelled."""
        sessions = await self._when_ready()
        await sessions.tend(limits.idle_sessions, limits.idle_session_seconds, limits.start_seconds)

    def release(self, key: str) -> RemoteSession | None:
        """Return the session with this key and forget it here; None if it is not a session of this run."""
        return None if self._sessions is None else self._sessions.release(key)

    async def end(self, session: RemoteSession, seconds: float) -> None:
        """Make the agent close and forget a released session, if it can."""
        if self._sessions is not None:
            with anyio.move_on_after(seconds):
                await self._sessions.end(session)

    async def forget(self, known: KnownSession, seconds: float) -> None:
        """Make the agent forget a session that is not open, if it can."""
        try:
            with anyio.move_on_after(seconds):
                await (await self._when_ready()).forget(known.key, known.id)
        except (AcpError, OSError) as error:
            logger.debug("a session could not be closed: %s", error)

    async def _when_ready(self) -> Sessions:
        await self.ready.wait()
        if self._sessions is None:
            assert self.error is not None
            raise self.error
        return self._sessions

    # -- whether it is there

    @property
    def is_lost(self) -> bool:
        """Whether the agent has ended, or is about to end and answers nothing any longer."""
        return self._has_left or (self.agent is not None and self.agent.link.connection.is_lost)

    @property
    def is_probed(self) -> bool:
        """Whether a probe of the agent is running."""
        return bool(self._probes)

    @property
    def progress(self) -> tuple[int, int] | None:
        """A value that changes with everything that the agent sends, and with each new chat. None if no chat waits for
        the agent, or if the agent itself waits for answers."""
        if self.agent is None or not self._turns or any(turn.has_questions for turn in self._turns.values()):
            return None
        return self._begun, self.agent.link.heard

    @contextmanager
    def probing(self) -> Generator[None]:
        """Count a probe of the agent while it runs."""
        probe = anyio.Event()
        self._probes.append(probe)
        try:
            yield
        finally:
            self._probes.remove(probe)
            probe.set()

    async def when_probed(self) -> None:
        """Wait until the running probes have ended."""
        for probe in list(self._probes):
            await probe.wait()

    async def when_idle(self) -> None:
        """Wait until no chat uses the process."""
        while self.load:
            await self._changes.next.wait()

    def _signal(self) -> None:
        self.changed_at: float = anyio.current_time()
        self._changes.tell()

    # -- questions

    def handlers(self) -> Handlers:
        """Return the handlers for the agent's requests."""
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
        # A question of a child session belongs to the chat of its root session.
        turn = self._turns.get(self.agent.subagents.root_of(session_id))
        if turn is None:
            return None
        return await turn.ask(question)

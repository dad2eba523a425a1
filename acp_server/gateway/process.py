"""One run of an agent's program: who works with its sessions, the questions that it asks, and whether it is there.

When a run begins and ends is decided in `acp_server.gateway.bots`; which session is whose in
`acp_server.gateway.sessions`.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol

import anyio

from acp_server.client import Handlers, RemoteAgent, RemoteSession
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, RequestTimeout
from acp_server.gateway.actions import FormQuestion, PermissionQuestion, Question, UrlQuestion
from acp_server.gateway.ids import Ids
from acp_server.gateway.limits import Limits
from acp_server.gateway.records import KnownSession
from acp_server.gateway.sessions import Sessions
from acp_server.schema import (
    CreateElicitationResponse,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    RequestPermissionRequest,
)

logger = logging.getLogger("acp_server.gateway")

THERE: Final = "_acp_server/there"
"""A method that no agent has. An agent that reads its input says so at once, whatever else it does."""
_SECOND_LOOK: Final = 0.05


class Sign(Enum):
    """What an agent says to the question whether it is there."""

    ANSWER = auto()
    """It says so. Or it is gone altogether, which is for others to see."""
    NOISE = auto()
    """Something else: it works, and takes nothing in."""
    NONE = auto()
    """Nothing at all."""


class Asked(Protocol):
    """Takes the questions that belong to a session."""

    async def ask(self, question: Question) -> Any:
        """The answer; None if the question is dismissed."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """A session that can be prompted."""

    process: Process
    session: RemoteSession
    key: str
    is_new: bool
    """Whether nothing was said in it yet."""


class Process:
    """One run of an agent's program."""

    def __init__(self, bot: str, ids: Ids, cwd: str) -> None:
        self.ready = anyio.Event()
        """Set when the agent can be asked for sessions, or never will be."""
        self.scope = anyio.CancelScope()
        """Cancelling it ends the run."""
        self.agent: RemoteAgent | None = None
        self.error: AcpError | OSError | None = None
        self._bot = bot
        self._ids = ids
        self._cwd = cwd
        self._sessions: Sessions | None = None
        self._working: dict[str, Asked] = {}
        """Who works with which session at the moment."""
        self._opening = 0
        """How many wait for a session."""
        self._moves = 0
        self._asking = 0
        """How many questions wait for an answer."""
        self._rested = anyio.Event()
        self._doubts: list[anyio.Event] = []

    def begin(self, agent: RemoteAgent) -> None:
        """The agent has started."""
        self._sessions = Sessions(self._bot, agent, self._cwd)
        self.agent = agent
        self.ready.set()

    # -- sessions

    async def open(self, known: KnownSession | None) -> Held:
        """The known session if the agent still has it, else a new one. Raises AcpError or OSError."""
        self._opening += 1
        try:
            sessions = await self._when_ready()
            if known is not None:
                session = await sessions.find(known.key, known.id)
                if session is not None:
                    return Held(self, session, known.key, is_new=False)
            session, key = await sessions.open()
            return Held(self, session, key, is_new=True)
        finally:
            self._opening -= 1
            self._rest()

    def work(self, session: RemoteSession, asked: Asked) -> None:
        """Let `asked` have the questions of this session."""
        self._moves += 1
        self._working[session.id] = asked

    def rest(self, session: RemoteSession, asked: Asked) -> None:
        """`asked` does not work with the session any more."""
        if self._working.get(session.id) is asked:
            del self._working[session.id]
            self._rest()

    def idle(self, key: str) -> None:
        """No chat uses the session with this key for now; see `Sessions.tend`."""
        if self._sessions is not None:
            self._sessions.rest(key)

    async def tend(self, limits: Limits) -> None:
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

    async def forget(self, id: str, seconds: float) -> None:
        """Make the agent forget what it knows of a session of an earlier run, as far as it can."""
        try:
            with anyio.move_on_after(seconds):
                await (await self._when_ready()).forget(id)
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
        return self.agent is not None and self.agent.link.connection.is_lost

    @property
    def moves(self) -> tuple[int, int] | None:
        """Something that changes with all that the agent sends, and with each chat that it gets; None if no chat waits
        for it, be it that the agent itself waits for answers."""
        if self.agent is None or not self._working or self._asking:
            return None
        return self._moves, self.agent.link.heard

    async def sign(self, seconds: float) -> Sign:
        """What the agent says within this time."""
        assert self.agent is not None
        before = self.agent.link.heard
        try:
            await self.agent.request(THERE, {}, timeout=seconds)
        except RequestTimeout:
            # If it was the gateway that stood still, what was said meanwhile is about to be heard.
            await anyio.sleep(_SECOND_LOOK)
            return Sign.NOISE if self.agent.link.heard > before else Sign.NONE
        except AcpError:
            pass
        return Sign.ANSWER

    @contextmanager
    def doubted(self) -> Generator[None]:
        """While it is not certain whether the agent is there."""
        doubt = anyio.Event()
        self._doubts.append(doubt)
        try:
            yield
        finally:
            self._doubts.remove(doubt)
            doubt.set()

    async def when_certain(self) -> None:
        """Wait until what it is doubted for is settled."""
        for doubt in list(self._doubts):
            await doubt.wait()

    async def when_at_rest(self) -> None:
        """Wait until no chat works with it."""
        while self._working or self._opening:
            await self._rested.wait()

    def _rest(self) -> None:
        self._rested.set()
        self._rested = anyio.Event()

    # -- questions

    def handlers(self) -> Handlers:
        """What the agent may ask of the gateway."""
        return Handlers(permission=self._permission, form=self._form, url=self._url)

    async def _permission(self, request: RequestPermissionRequest) -> PermissionAnswer:
        return await self._ask(request.session_id, PermissionQuestion(self._ids.new(), request))

    async def _form(self, request: ElicitationFormMode) -> CreateElicitationResponse:
        answer = await self._ask(request.session_id, FormQuestion(self._ids.new(), request))
        return answer or ElicitationCancelAction()

    async def _url(self, request: ElicitationUrlMode) -> CreateElicitationResponse:
        answer = await self._ask(request.session_id, UrlQuestion(self._ids.new(), request))
        return answer or ElicitationCancelAction()

    async def _ask(self, session_id: str | None, question: Question) -> Any:
        asked = None if session_id is None else self._working.get(session_id)
        if asked is None:
            return None
        self._asking += 1
        try:
            return await asked.ask(question)
        finally:
            self._asking -= 1

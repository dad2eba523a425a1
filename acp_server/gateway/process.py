"""One run of an agent's program: its sessions, who works with them, and the questions that it asks.

Agents may give a session the id that another has had in an earlier run, so an id says nothing outside of a run. Each
session has a key beside it, which nothing else ever has. When a run begins is decided in `acp_server.gateway.bots`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from acp_server.client import Handlers, RemoteAgent, RemoteSession
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, RpcError
from acp_server.gateway.actions import FormQuestion, PermissionQuestion, Question, UrlQuestion
from acp_server.gateway.conversation import KnownSession
from acp_server.gateway.ids import Ids
from acp_server.schema import (
    CreateElicitationResponse,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    RequestPermissionRequest,
)
from acp_server.schema.methods import METHODS

logger = logging.getLogger("acp_server.gateway")

_RESUME = METHODS["session/resume"].capability
_LOAD = METHODS["session/load"].capability
_CLOSE = METHODS["session/close"].capability
_DELETE = METHODS["session/delete"].capability


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

    def __init__(self, ids: Ids) -> None:
        self.ready = anyio.Event()
        self.agent: RemoteAgent | None = None
        self.error: AcpError | OSError | None = None
        self._ids = ids
        self._sessions: dict[str, RemoteSession] = {}
        """Those that were opened or taken up in this run, by their keys."""
        self._working: dict[str, Asked] = {}
        """Who works with which session at the moment."""

    async def when_ready(self) -> RemoteAgent:
        """The agent, once it can be asked for sessions. Raises why it cannot."""
        await self.ready.wait()
        if self.agent is None:
            assert self.error is not None
            raise self.error
        return self.agent

    # -- sessions

    async def open(self, known: KnownSession | None, cwd: str) -> Held:
        """The known session if the agent still has it, else a new one. Raises AcpError or OSError."""
        agent = await self.when_ready()
        if known is not None:
            session = self._sessions.get(known.key) or await self._take_up(agent, known.id, cwd)
            if session is not None:
                return self._hold(session, known.key, is_new=False)
        return self._hold(await agent.new_session(cwd), secrets.token_hex(8), is_new=True)

    def work(self, session: RemoteSession, asked: Asked) -> None:
        """Let `asked` have the questions of this session."""
        self._working[session.id] = asked

    def rest(self, session: RemoteSession, asked: Asked) -> None:
        """`asked` does not work with the session any more."""
        if self._working.get(session.id) is asked:
            del self._working[session.id]

    def release(self, key: str) -> RemoteSession | None:
        """The session with this key, which nobody finds here any more; None if it is not of this run."""
        return self._sessions.pop(key, None)

    async def end(self, id: str, session: RemoteSession | None, seconds: float) -> None:
        """Make the agent free a session that was released here, or one of an earlier run, and forget what it knows of
        it, as far as the agent can."""
        try:
            with anyio.move_on_after(seconds):
                agent = await self.when_ready()
                if session is not None:
                    if agent.link.announced(_CLOSE):
                        await _try(session.close)
                elif id in agent.sessions or not self._keeps_sessions(agent):
                    # Not the one that had this id.
                    return
                if agent.link.announced(_DELETE):
                    await _try(lambda: agent.delete_session(id))
                if session is not None and agent.sessions.get(id) is session:
                    del agent.sessions[id]
        except (AcpError, OSError) as error:
            logger.debug("a session could not be ended: %s", error)

    def _hold(self, session: RemoteSession, key: str, *, is_new: bool) -> Held:
        self._sessions[key] = session
        return Held(self, session, key, is_new)

    async def _take_up(self, agent: RemoteAgent, id: str, cwd: str) -> RemoteSession | None:
        if id in agent.sessions:
            # This run has made or taken up a session of this id, and for somebody else.
            return None
        try:
            if agent.link.announced(_RESUME):
                return await agent.resume_session(id, cwd)
            if agent.link.announced(_LOAD):
                return await agent.load_session(id, cwd)
        except RpcError as error:
            logger.info("an agent does not take up a session again: %s", error)
        return None

    def _keeps_sessions(self, agent: RemoteAgent) -> bool:
        return agent.link.announced(_RESUME) or agent.link.announced(_LOAD)

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
        return None if asked is None else await asked.ask(question)


async def _try(call: Callable[[], Awaitable[None]]) -> None:
    """What the agent refuses is no reason to leave the rest undone."""
    try:
        await call()
    except AcpError as error:
        logger.info("an agent does not end a session: %s", error)

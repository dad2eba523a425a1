"""The processes of the agents: one a bot, started when it is needed, and anew when it has died.

A bot's sessions belong to conversations; which chat has which session is in `acp_server.gateway.conversations`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from acp_server.client import Handlers, Patience, RemoteAgent, RemoteSession, spawn_agent
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, ConnectionClosed, RequestTimeout, RpcError
from acp_server.gateway.actions import FormQuestion, PermissionQuestion, Question, UrlQuestion
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.ids import Ids
from acp_server.schema import (
    CreateElicitationResponse,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    Implementation,
    RequestPermissionRequest,
)
from acp_server.schema.methods import METHODS

logger = logging.getLogger("acp_server.gateway")

_RESUME = METHODS["session/resume"].capability
_LOAD = METHODS["session/load"].capability
_CLOSE = METHODS["session/close"].capability


class Asked(Protocol):
    """Takes the questions that belong to a session."""

    async def ask(self, question: Question) -> Any:
        """The answer; None if the question is dismissed."""
        ...


class _Process:
    """One run of an agent's program."""

    def __init__(self) -> None:
        self.ready = anyio.Event()
        self.agent: RemoteAgent | None = None
        self.error: AcpError | OSError | None = None

    async def when_ready(self) -> RemoteAgent:
        """The agent, once it can be asked for sessions. Raises why it cannot."""
        await self.ready.wait()
        if self.agent is None:
            assert self.error is not None
            raise self.error
        return self.agent


class Bot:
    """One agent, as the chats of one bot or of several share it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        cwd: str,
        ids: Ids,
        *,
        start_seconds: float,
        patience: Patience | None = None,
    ) -> None:
        self.name = name
        self.working: dict[str, Asked] = {}
        """Who works with which session at the moment."""
        self._command = command
        self._cwd = cwd
        self._ids = ids
        self._start_seconds = start_seconds
        self._patience = patience
        self._process: _Process | None = None
        self._group: TaskGroup | None = None

    def use(self, group: TaskGroup) -> None:
        """Let its processes be watched by tasks of this group; when it is cancelled they are ended."""
        self._group = group

    async def open(self, session_id: str | None) -> tuple[RemoteSession, bool]:
        """A session to prompt: the one with this id if the agent still has it, else a new one; and whether it is new.

        Raises AcpError or OSError if there is none to be had.
        """
        with anyio.move_on_after(self._start_seconds):
            process = self._start()
            try:
                return await self._open(await process.when_ready(), session_id)
            except ConnectionClosed:
                # It has died between two chats, or just now. This chat has not said anything yet, so once more.
                logger.info("bot %s: the agent is gone; it is started anew", self.name)
                self._forget(process)
                return await self._open(await self._start().when_ready(), session_id)
        raise RequestTimeout("session/new", self._start_seconds)

    def discard(self, session: RemoteSession) -> None:
        """Nobody will prompt this session again."""
        agent = session.agent
        if agent.link.announced(_CLOSE) and self._group is not None:
            self._group.start_soon(self._close, session)
        else:
            agent.sessions.pop(session.id, None)

    # -- the process

    def _start(self) -> _Process:
        """The process there is, or a new one."""
        if self._process is None:
            assert self._group is not None, "the gateway does not run"
            self._process = _Process()
            self._group.start_soon(self._run, self._process)
        return self._process

    async def _run(self, process: _Process) -> None:
        try:
            async with spawn_agent(self._command, self._handlers(), cwd=self._cwd, patience=self._patience) as agent:
                try:
                    me = Implementation(name="acp-server gateway", version="1")
                    await agent.initialize(client_info=me, timeout=self._start_seconds)
                    process.agent = agent
                    process.ready.set()
                    await agent.link.connection.wait_closed()
                finally:
                    # Before the process is cleaned up, which may take a while.
                    self._forget(process)
            logger.warning("bot %s: the agent is gone", self.name)
        except (AcpError, OSError) as error:
            logger.warning("bot %s: the agent cannot be used: %s", self.name, error)
            process.error = process.error or error
        finally:
            process.error = process.error or ConnectionClosed()
            self._forget(process)
            process.ready.set()

    def _forget(self, process: _Process) -> None:
        if self._process is process:
            self._process = None

    # -- sessions

    async def _open(self, agent: RemoteAgent, session_id: str | None) -> tuple[RemoteSession, bool]:
        if session_id is not None:
            session = agent.sessions.get(session_id) or await self._take_up(agent, session_id)
            if session is not None:
                return session, False
        return await agent.new_session(self._cwd), True

    async def _take_up(self, agent: RemoteAgent, session_id: str) -> RemoteSession | None:
        try:
            if agent.link.announced(_RESUME):
                return await agent.resume_session(session_id, self._cwd)
            if agent.link.announced(_LOAD):
                return await agent.load_session(session_id, self._cwd)
        except RpcError as error:
            logger.info("bot %s: the agent does not take up a session again: %s", self.name, error)
        return None

    async def _close(self, session: RemoteSession) -> None:
        try:
            await session.close()
        except AcpError as error:
            logger.debug("bot %s: a session could not be closed: %s", self.name, error)

    # -- questions

    def _handlers(self) -> Handlers:
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
        asked = None if session_id is None else self.working.get(session_id)
        return None if asked is None else await asked.ask(question)


class Bots:
    """All bots, by the id that clients know them by. `other`: the one that stands for every other id."""

    def __init__(self, bots: Mapping[str, Bot], other: Bot | None) -> None:
        self._bots = dict(bots)
        self._other = other

    def find(self, bot_id: str) -> Bot:
        """Raises ApiError 4200."""
        bot = self._bots.get(bot_id, self._other)
        if bot is None:
            raise ApiError(Code.NOT_FOUND, f"Requested resource bot_id={bot_id} does not exist")
        return bot

    def use(self, group: TaskGroup) -> None:
        """See `Bot.use`."""
        for bot in (*self._bots.values(), *([self._other] if self._other else [])):
            bot.use(group)

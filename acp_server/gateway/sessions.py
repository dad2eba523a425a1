"""The sessions of one run of an agent's program: opened, taken up again, ended; no id ever leads to another user's.

Agents may give a session the id that another has had in an earlier run, so an id says nothing outside of a run. It
counts again when the agent has taken the session up, and no other session has it by then. Each session has a key beside
it, which nothing else ever has. An id from outside of the run that is on its way to the agent may hit a session that
gets the same id in that very moment. So a session that gets it is not used.

A session that no chat uses is idle. Of those only so many are kept open, and only for a time: an agent may need a whole
process for each.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio

from acp_server.client import RemoteAgent, RemoteSession, SessionTaken
from acp_server.errors import AcpError, RpcError
from acp_server.gateway.errors import outline
from acp_server.schema.methods import METHODS

logger = logging.getLogger("acp_server.gateway")

_RESUME = METHODS["session/resume"].capability
_LOAD = METHODS["session/load"].capability
_CLOSE = METHODS["session/close"].capability
_DELETE = METHODS["session/delete"].capability

_TRIES: Final = 3
"""How many new sessions are asked for before an agent that repeats the ids of others is given up."""


class Sessions:
    """The sessions of one run, by their keys."""

    def __init__(self, bot: str, agent: RemoteAgent, cwd: str) -> None:
        self._bot = bot
        self._agent = agent
        self._cwd = cwd
        self._open: dict[str, RemoteSession] = {}
        self._foreign: set[str] = set()
        """The ids that are on their way to the agent and may be from outside of this run."""
        self._hit: list[set[str]] = []
        """For each session that is being opened, the ids that were on their way meanwhile."""
        self._unanswered: set[str] = set()
        """The ids that the agent has never said anything about, so what it does with them is not known."""
        self._idle: dict[str, float] = {}
        """Since when no chat has used the sessions with these keys, the longest first."""
        self._changed = anyio.Event()
        """Set when another one is idle."""

    async def open(self) -> tuple[RemoteSession, str]:
        """A new session, and its key. Raises AcpError; SessionTaken if the agent gives ids to it that others have."""
        tries = 1
        while True:
            try:
                return await self._new()
            except SessionTaken as error:
                logger.warning("bot %s: a new session is not used: %s", self._bot, outline(error))
                # Whatever the other one is now, it is not sure to know what was said in it.
                self._distrust(error.session_id)
                if tries == _TRIES:
                    raise
            tries += 1

    async def find(self, key: str, id: str) -> RemoteSession | None:
        """The session with this key, taken up again if it is of an earlier run. None if there is none to be had."""
        session = self._open.get(key)
        self._idle.pop(key, None)
        if session is None:
            session = await self._take_up(id)
        elif self._agent.sessions.get(id) is not session:
            session = None
        if session is None:
            self.release(key)
        else:
            self._keep(session, key)
        return session

    def release(self, key: str) -> RemoteSession | None:
        """The session with this key, which is not found here any more; None if it is not of this run."""
        self._idle.pop(key, None)
        return self._open.pop(key, None)

    def rest(self, key: str) -> None:
        """No chat uses the session with this key for now."""
        if key in self._open:
            self._idle[key] = anyio.current_time()
            self._changed.set()

    async def tend(self, most: int, idle_seconds: float, close_seconds: float) -> None:
        """Close the sessions that have been idle for this long, and those idle longest if there are more than `most`.
        Until it is cancelled.

        What the agent keeps of them it keeps, so that a later chat can take them up again.
        """
        async with anyio.create_task_group() as group:
            while True:
                for key in self._overdue(most, idle_seconds):
                    session = self.release(key)
                    assert session is not None
                    group.start_soon(self._close, session, close_seconds)
                longest = next(iter(self._idle.values()), math.inf)
                self._changed = anyio.Event()
                with anyio.CancelScope(deadline=longest + idle_seconds):
                    await self._changed.wait()

    async def end(self, session: RemoteSession, delete: bool = True) -> None:
        """Make the agent free a session that was released, and with `delete` forget what it knows of it, as far as it
        can."""
        try:
            # An agent that has closed it may use its id again, and then hear that it is to be deleted.
            with self._asking_for(session.id):
                await self._free(session)
                if delete and self._agent.link.announced(_DELETE):
                    await _try(session.delete)
        finally:
            if self._agent.sessions.get(session.id) is session:
                del self._agent.sessions[session.id]

    async def forget(self, id: str) -> None:
        """Make the agent forget what it knows of a session of an earlier run, if that is what the id means."""
        agent = self._agent
        if agent.link.announced(_DELETE) and self._keeps_sessions and not self._is_used(id):
            with self._asking_for(id):
                await _try(lambda: agent.delete_session(id))

    async def _new(self) -> tuple[RemoteSession, str]:
        with self._opening() as hit:
            session = await self._agent.new_session(self._cwd)
            if session.id not in hit:
                return session, self._keep(session, secrets.token_hex(8))
        await self._free(session)
        raise SessionTaken(session.id)

    async def _take_up(self, id: str) -> RemoteSession | None:
        agent = self._agent
        if not self._keeps_sessions or self._is_used(id):
            return None
        take_up = agent.resume_session if agent.link.announced(_RESUME) else agent.load_session
        try:
            with self._asking_for(id):
                return await take_up(id, self._cwd)
        except (RpcError, SessionTaken) as error:
            logger.info("bot %s: the agent does not take up a session again: %s", self._bot, outline(error))
            return None

    def _overdue(self, most: int, idle_seconds: float) -> list[str]:
        now, too_many = anyio.current_time(), len(self._idle) - most
        return [
            key
            for number, (key, since) in enumerate(self._idle.items())
            if number < too_many or since + idle_seconds <= now
        ]

    async def _close(self, session: RemoteSession, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            # What cannot be taken up again is of no use.
            await self.end(session, delete=not self._keeps_sessions)

    async def _free(self, session: RemoteSession) -> None:
        if self._agent.link.announced(_CLOSE):
            await _try(session.close)

    def _keep(self, session: RemoteSession, key: str) -> str:
        self._open[key] = session
        return key

    def _distrust(self, id: str) -> None:
        for key in [key for key, session in self._open.items() if session.id == id]:
            self.release(key)

    @property
    def _keeps_sessions(self) -> bool:
        return self._agent.link.announced(_RESUME) or self._agent.link.announced(_LOAD)

    def _is_used(self, id: str) -> bool:
        """Whether this id means a session of this run, or may come to mean one."""
        return self._agent.knows(id) or id in self._foreign

    @contextmanager
    def _asking_for(self, id: str) -> Generator[None]:
        self._foreign.add(id)
        for hit in self._hit:
            hit.add(id)
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._unanswered.add(id)
            raise
        finally:
            self._foreign.discard(id)

    @contextmanager
    def _opening(self) -> Generator[set[str]]:
        hit = self._foreign | self._unanswered
        self._hit.append(hit)
        try:
            yield hit
        finally:
            self._hit = [other for other in self._hit if other is not hit]


async def _try(call: Callable[[], Awaitable[None]]) -> None:
    """What the agent refuses does not keep the rest from being done."""
    try:
        await call()
    except AcpError as error:
        logger.info("an agent does not end a session: %s", outline(error))

"""The sessions of an agent in one run of its program: opened, taken up again, ended; no id leads to another user's.

An id says nothing outside of a run, since agents may begin to count anew. It counts again when the agent has taken the
session up. Each session has a key beside it, which nothing else ever has. An agent is broken that gives a new
session an id which it has given before in the same run, or was asked for: the gateway could not tell what it means.

A session that no chat uses is idle. Of those only so many are kept open, and only for a time: an agent may need a whole
process for each.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from acp_server.apps.gateway.errors import agent_of, outline
from acp_server.apps.gateway.records import KnownSession
from acp_server.client import RemoteAgent, RemoteSession, SessionTaken
from acp_server.errors import AcpError, RpcError
from acp_server.schema.methods import METHODS

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

_RESUME = METHODS["session/resume"].capability
_LOAD = METHODS["session/load"].capability
_CLOSE = METHODS["session/close"].capability
_DELETE = METHODS["session/delete"].capability

_KEYS: Final = 10_000
"""Sessions that a bot remembers the keys of. Each takes a few hundred bytes."""
_USED: Final = 10_000
"""Ids that are remembered of one run."""


class SessionKeys:
    """Which session of an agent had an id last, in whichever run, as far as chats may come back to it."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._forgot = False
        """Whether there were too many to remember all of them."""

    def is_last(self, known: KnownSession) -> bool:
        """Whether no other session had the id after it, as far as one can know."""
        return self._keys.get(known.id, None if self._forgot else known.key) == known.key

    def add(self, id: str, key: str) -> None:
        """The session with this key has the id now."""
        self._keys.pop(id, None)
        self._keys[id] = key
        if len(self._keys) > _KEYS:
            # The least recently used key. It may have been any session's, so from now on no other is believed.
            del self._keys[next(iter(self._keys))]
            self._forgot = True

    def remove(self, id: str, key: str) -> None:
        """No chat comes back to this session."""
        if self._keys.get(id) == key:
            del self._keys[id]


class Sessions:
    """The sessions of one run, by their keys."""

    def __init__(self, bot: str, agent: RemoteAgent, cwd: str) -> None:
        self._bot = bot
        self._agent = agent
        self._cwd = cwd
        self._open: dict[str, RemoteSession] = {}
        self._used: dict[str, str | None] = {}
        """The ids that the agent has given in this run, or was asked for, with the keys of their sessions; None for an
        id that means no session any more."""
        self._idle: dict[str, float] = {}
        """Since when no chat has used the sessions with these keys, the longest first."""
        self._changed = anyio.Event()
        """Set when another one is idle."""

    async def open(self) -> tuple[RemoteSession, str]:
        """A new session, and its key. Raises AcpError; SessionTaken if its id was used before in this run."""
        try:
            session = await self._agent.new_session(self._cwd)
        except SessionTaken as error:
            # Whatever the other one is now, it is not sure to know what was said in it.
            self._use(error.session_id, None)
            raise
        if session.id in self._used:
            self._use(session.id, None)
            await self._free(session)
            raise SessionTaken(session.id)
        key = secrets.token_hex(8)
        self._use(session.id, key)
        self._open[key] = session
        return session, key

    async def find(self, key: str, id: str) -> RemoteSession | None:
        """The session with this key, taken up again if it is of an earlier run. None if there is none to be had."""
        self._idle.pop(key, None)
        session = self._open.pop(key, None)
        if self._used.get(id, key) != key:
            return None
        if session is None:
            session = await self._take_up(key, id)
        elif self._agent.sessions.get(id) is not session:
            return None
        if session is not None:
            self._open[key] = session
        return session

    def holds(self, key: str) -> bool:
        """Whether the session with this key is open."""
        return key in self._open

    def means_otherwise(self, id: str, key: str) -> bool:
        """Whether this id has meant a session with another key in this run."""
        return self._used.get(id, key) != key

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
        if delete:
            # An agent that has closed it may use its id again, and then hear that it is to be deleted.
            self._use(session.id, None)
        try:
            await self._free(session)
            if delete and self._agent.link.announced(_DELETE):
                await _try(session.delete)
        finally:
            if self._agent.sessions.get(session.id) is session:
                del self._agent.sessions[session.id]

    async def forget(self, key: str, id: str) -> None:
        """Make the agent forget what it knows of a session that is not open, if that is what the id means."""
        agent = self._agent
        is_meant = not agent.knows(id) and self._used.get(id, key) == key
        if is_meant and self._keeps_sessions and agent.link.announced(_DELETE):
            self._use(id, None)
            await _try(lambda: agent.delete_session(id))

    async def _take_up(self, key: str, id: str) -> RemoteSession | None:
        agent = self._agent
        if not self._keeps_sessions or agent.knows(id):
            return None
        self._use(id, key)
        take_up = agent.resume_session if agent.link.announced(_RESUME) else agent.load_session
        try:
            return await take_up(id, self._cwd)
        except (RpcError, SessionTaken) as error:
            logger.info("%s does not take up a session again: %s", agent_of(self._bot), outline(error))
            if self._used.get(id) == key:
                # It does not know the id, so that it may give it to a new one.
                del self._used[id]
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

    def _use(self, id: str, key: str | None) -> None:
        self._used.pop(id, None)
        self._used[id] = key
        if len(self._used) > _USED:
            del self._used[next(iter(self._used))]

    @property
    def _keeps_sessions(self) -> bool:
        return self._agent.link.announced(_RESUME) or self._agent.link.announced(_LOAD)


async def _try(call: Callable[[], Awaitable[object]]) -> None:
    """What the agent refuses does not keep the rest from being done."""
    try:
        await call()
    except AcpError as error:
        logger.info("an agent does not end a session: %s", outline(error))

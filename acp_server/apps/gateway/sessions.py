"""The sessions of an agent in one run of its program: opened, loaded and ended. No id can lead to another user's
session.

An id has no meaning outside of a run, because agents may restart their numbering. It becomes valid again when the agent
has loaded the session. Each session also has a unique key. An agent is broken if it gives a new session an id that it
has given before in the same run, or that was requested, because the gateway could not tell the sessions apart.

A session that no chat uses is idle. The number and age of open idle sessions are bounded, because an agent may need a
whole process for each session.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from acp_server import AcpError, RpcError
from acp_server.apps.gateway.errors import agent_of, outline
from acp_server.apps.gateway.records import KnownSession
from acp_server.client import RemoteAgent, RemoteSession, SessionTaken
from acp_server.schema import METHODS

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

_RESUME = METHODS["session/resume"].capability
_LOAD = METHODS["session/load"].capability
_CLOSE = METHODS["session/close"].capability
_DELETE = METHODS["session/delete"].capability

_KEYS: Final = 10_000
"""The number of sessions whose keys are remembered for a bot. Each takes a few hundred bytes."""
_USED: Final = 10_000
"""The number of ids that are remembered for one run."""


class SessionKeys:
    """Remembers the last session with each id, in any run, as far as chats may use it again."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._forgot = False
        """Whether some keys were forgotten because there were too many."""

    def is_last(self, known: KnownSession) -> bool:
        """Whether no later session had the session's id, as far as known."""
        return self._keys.get(known.id, None if self._forgot else known.key) == known.key

    def add(self, id: str, key: str) -> None:
        """Record that the session with this key now has the id."""
        self._keys.pop(id, None)
        self._keys[id] = key
        if len(self._keys) > _KEYS:
            # The least recently used key is forgotten. It may be any session's, so no unknown key is trusted any more.
            del self._keys[next(iter(self._keys))]
            self._forgot = True

    def remove(self, id: str, key: str) -> None:
        """Forget a session that no chat will use again."""
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
        """The ids that the agent has given in this run, or that were requested, with the keys of their sessions; None
        for an id that no longer belongs to a session."""
        self._idle: dict[str, float] = {}
        """When each idle session, by key, was last used. The session that has been idle longest comes first."""
        self._changed = anyio.Event()
        """Set when another session becomes idle."""

    async def open(self) -> tuple[RemoteSession, str]:
        """Open a new session. Returns it with its key. Raises AcpError; SessionTaken if its id was used before in this
        run."""
        try:
            session = await self._agent.new_session(self._cwd)
        except SessionTaken as error:
            # Whatever the other session is now, it may not know its messages.
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
        """Return the session with this key. A session of an earlier run is loaded again. None if it is not
        available."""
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
        """Whether this id has belonged to a session with another key in this run."""
        return self._used.get(id, key) != key

    def release(self, key: str) -> RemoteSession | None:
        """Return the session with this key and forget it here; None if it is not a session of this run."""
        self._idle.pop(key, None)
        return self._open.pop(key, None)

    def rest(self, key: str) -> None:
        """Record that no chat uses the session with this key for now."""
        if key in self._open:
            self._idle[key] = anyio.current_time()
            self._changed.set()

    async def tend(self, most: int, idle_seconds: float, close_seconds: float) -> None:
        """Close the sessions that have been idle for `idle_seconds`, and the longest idle ones if more than `most` are
        idle. Runs until cancelled.

        An agent that can resume or load sessions is not asked to delete them, so that a later chat can use them again.
        Any other agent is asked to delete them, if it offers that.
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
        """Make the agent close a released session and, with `delete`, forget it, if it can."""
        if delete:
            # An agent that has closed it may use its id again before it gets the deletion.
            self._use(session.id, None)
        try:
            await self._free(session)
            if delete and self._agent.link.announced(_DELETE):
                await _try(session.delete)
        finally:
            if self._agent.sessions.get(session.id) is session:
                del self._agent.sessions[session.id]

    async def forget(self, key: str, id: str) -> None:
        """Make the agent forget a session that is not open, if the id still belongs to it."""
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
            logger.info("%s refuses to load a session again: %s", agent_of(self._bot), outline(error))
            if self._used.get(id) == key:
                # It does not know the id, so it may give the id to a new session.
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
            # A session that cannot be loaded again is useless.
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
    """Call a method of the agent, and log its refusal, which must not prevent the other steps."""
    try:
        await call()
    except AcpError as error:
        logger.info("an agent refuses to close a session: %s", outline(error))

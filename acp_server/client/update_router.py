"""Delivers updates to their sessions. If the session of an update is not known, the update is buffered or dropped.

An agent may send updates of a new session right after the response that has the session's id, or even before. They are
buffered, in order and up to a bound, until the caller that requested the session has registered it. All other updates
of unknown sessions are dropped.

An id belongs to the session for which the agent last used it. While a session is being loaded, it gets the updates with
its id, since its history comes before the response. But it owns the id only after the response. If the agent gives the
id to a new session meanwhile, the loaded session does not get the id.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from acp_server.client.turn import UNREADABLE, read_update
from acp_server.errors import EncodeError, SessionTaken
from acp_server.peer.call import NAME
from acp_server.peer.peer import Peer
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.client.dialect import Hearer
    from acp_server.client.session import LiveSession
    from acp_server.client.subagents import Subagents
    from acp_server.wire.messages import Notification

EARLY_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of JSON of buffered updates for sessions that are not open yet."""
_LATELY: Final = 100
"""The number of ended sessions that are remembered."""
_OVERHEAD: Final = 100
"""The bytes that a buffered update counts in addition to its JSON."""

logger: logging.Logger = logging.getLogger("acp_server.client")


class UpdateRouter:
    """Delivers the updates of one connection to its `sessions`. Only the router adds sessions to that dictionary."""

    def __init__(self, sessions: dict[str, LiveSession], subagents: Subagents) -> None:
        self._sessions = sessions
        self._subagents = subagents
        self._arriving: dict[str, LiveSession] = {}
        """The sessions that are being loaded or resumed."""
        self._ended: deque[str] = deque(maxlen=_LATELY)
        self._expected = 0
        self._kept: list[tuple[str, bytes]] = []
        self._size = 0
        self._is_full = False
        self.translate: Callable[[Hearer, Any], Iterable[Any]] | None = None
        """Converts the parameters of one update to version 1 updates with the same content. None if the parameters are
        of version 1 already."""

    def receive(self, _connection: Peer, params: Any) -> Awaitable[None] | None:
        """Deliver or buffer a `session/update` that has arrived."""
        session_id = cast("dict[str, Any]", params).get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session_id, str):
            logger.warning(UNREADABLE)
            return None
        session: Hearer | None = self._arriving.get(session_id) or self._sessions.get(session_id)
        if session is None:
            session = self._subagents.get(session_id)
        if session is not None:
            return self._hand_over(session, params)
        if self._expected:
            self._keep(session_id, params)
        else:
            logger.debug("dropped an update of a session that is not open here")
        return None

    def miss(self, what: str, is_update: bool, session_id: str | None) -> None:
        """Log a message that cannot be read. If it was an update, mark the running turn of its session as incomplete.
        If the session is unknown, mark the running turns of all sessions."""
        whose = "" if session_id is None else f", session {session_id[:NAME]!r}"
        logger.warning("%s of the agent was dropped%s", what, whose)
        if is_update:
            for session in list(self._sessions.values()) if session_id is None else [self._sessions.get(session_id)]:
                if session is not None:
                    session.miss(what)

    def miss_notification(self, notification: Notification, problem: str) -> None:
        """Log a notification that exceeds a limit, and mark turns like `miss`."""
        params = notification.params
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        is_update = notification.method == "session/update"
        self.miss(f"a message with {problem}", is_update, session_id if isinstance(session_id, str) else None)

    def knows(self, session_id: str) -> bool:
        """Whether a session with this id is open, or is being loaded or resumed."""
        return session_id in self._arriving or session_id in self._sessions

    @contextmanager
    def arriving(self, session: LiveSession) -> Generator[None]:
        """Deliver updates with the id of `session` to it while it is being loaded or resumed; see `arrived`."""
        self._arriving[session.id] = session
        try:
            yield
        finally:
            if self._arriving.get(session.id) is session:
                del self._arriving[session.id]

    def arrived(self, session: LiveSession) -> None:
        """Record that the agent has loaded or resumed the session. Raises SessionTaken if the agent has given the id to
        another session meanwhile."""
        if self._arriving.get(session.id) is not session:
            raise SessionTaken(session.id)
        self._sessions[session.id] = session

    def give(self, session_id: str) -> None:
        """Record that the agent has given this id to a new session. Raises SessionTaken if the id belongs to another
        open session.

        A session that is being closed or deleted does not count as open, because the agent may have closed it
        already.
        """
        held = self._sessions.get(session_id)
        if held is not None and not held.ending:
            raise SessionTaken(session_id)
        self._arriving.pop(session_id, None)

    @contextmanager
    def expecting(self) -> Generator[None]:
        """Buffer updates of unknown sessions while `session/new` is in flight. They may belong to the new session,
        whose id is not known yet."""
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1
            if not self._expected:
                self._kept.clear()
                self._size = 0
                self._is_full = False

    async def open(self, session: LiveSession) -> None:
        """Deliver the buffered updates of `session` to it, then register it. May be called only within `expecting`.

        Raises SessionTaken, see `give`.
        """
        self.give(session.id)
        # Updates that arrive while its own callback awaits are buffered after the others, so that the order holds.
        while mine := [params for id, params in self._kept if id == session.id]:
            self._kept = [kept for kept in self._kept if kept[0] != session.id]
            for params in mine:
                self._size -= _size(session.id, params)
                try:
                    pending = self._hand_over(session, codec.decode(params))
                    if pending is not None:
                        await pending
                except Exception:
                    logger.exception("the handler of session/update failed")
        # Checked again, since a callback may have awaited.
        self.give(session.id)
        self._sessions[session.id] = session

    def end(self, session: LiveSession) -> None:
        """Record that the agent has closed or deleted the session."""
        # The id may belong to another session by now.
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self._subagents.end(session.id)
            self._ended.append(session.id)

    def has_ended(self, session_id: str) -> bool:
        """Whether this is the id of a recently ended session and no session has it now. The agent's questions in that
        session are no longer shown to the user."""
        return session_id in self._ended and not self.knows(session_id)

    def _keep(self, session_id: str, params: Any) -> None:
        # Encoded, an update takes no more memory than is counted, and a dropped one is never parsed.
        try:
            encoded = codec.encode(params)
        except EncodeError:
            logger.warning(UNREADABLE)
            return
        size = _size(session_id, encoded)
        if self._size + size <= EARLY_BYTES:
            self._size += size
            self._kept.append((session_id, encoded))
        elif not self._is_full:
            self._is_full = True
            logger.warning("the agent sends too many updates of sessions that are not open yet; they are dropped")

    def _hand_over(self, session: Hearer, params: Any) -> Awaitable[None] | None:
        if self.translate is None:
            return _receive(session, params)
        return _receive_all(session, iter(self.translate(session, params)))


def _size(session_id: str, encoded: bytes) -> int:
    return len(session_id) + len(encoded) + _OVERHEAD


def _receive(session: Hearer, params: Any) -> Awaitable[None] | None:
    update = read_update(params)
    return None if update is None else session.receive(update, params)


def _receive_all(session: Hearer, rest: Iterator[Any]) -> Awaitable[None] | None:
    for params in rest:
        pending = _receive(session, params)
        if pending is not None:
            return _receive_behind(pending, session, rest)
    return None


async def _receive_behind(pending: Awaitable[None], session: Hearer, rest: Iterator[Any]) -> None:
    await pending
    if (more := _receive_all(session, rest)) is not None:
        await more

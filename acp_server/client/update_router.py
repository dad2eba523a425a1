"""Which session an id means, and with that whose an update is; what becomes of updates whose session is not known.

An agent may send updates of a new session right behind the answer that names it, or even before. They are kept, in
order and up to a bound, until the caller that asked for the session has made it known. All others are dropped.

An id means what the agent last said it does. A session that is being taken up gets the updates, for its history comes
before the answer. But the id is its own only with the answer, and not if the agent gives it to a new one meanwhile.
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
"""What the updates may take that are kept for sessions which are not open yet, in bytes of JSON."""
_LATELY: Final = 100
"""Sessions that have ended and are remembered."""
_OVERHEAD: Final = 100
"""Bytes that a kept update counts beside its JSON."""

logger: logging.Logger = logging.getLogger("acp_server.client")


class UpdateRouter:
    """Hands the updates of one connection to its `sessions`, and nothing else adds to them."""

    def __init__(self, sessions: dict[str, LiveSession], subagents: Subagents) -> None:
        self._sessions = sessions
        self._subagents = subagents
        self._arriving: dict[str, LiveSession] = {}
        """Those that are being taken up."""
        self._ended: deque[str] = deque(maxlen=_LATELY)
        self._expected = 0
        self._kept: list[tuple[str, bytes]] = []
        self._size = 0
        self._is_full = False
        self.translate: Callable[[Hearer, Any], Iterable[Any]] | None = None
        """From the parameters of one update to those of the updates of version 1 that say the same; None where they
        are of version 1 already."""

    def receive(self, _connection: Peer, params: Any) -> Awaitable[None] | None:
        """A `session/update` has arrived."""
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
        """Something has arrived that is not read. If it was an update, a turn of that session, or of any if it is not
        known of which, does not look complete."""
        whose = "" if session_id is None else f", session {session_id[:NAME]!r}"
        logger.warning("%s of the agent was dropped%s", what, whose)
        if is_update:
            for session in list(self._sessions.values()) if session_id is None else [self._sessions.get(session_id)]:
                if session is not None:
                    session.miss(what)

    def miss_notification(self, notification: Notification, problem: str) -> None:
        """The same for a notification that has too much in it."""
        params = notification.params
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        is_update = notification.method == "session/update"
        self.miss(f"a message with {problem}", is_update, session_id if isinstance(session_id, str) else None)

    def knows(self, session_id: str) -> bool:
        """Whether a session of this id is open, or is being taken up."""
        return session_id in self._arriving or session_id in self._sessions

    @contextmanager
    def arriving(self, session: LiveSession) -> Generator[None]:
        """While `session` is being taken up: let it have the updates of its id; see `arrived`."""
        self._arriving[session.id] = session
        try:
            yield
        finally:
            if self._arriving.get(session.id) is session:
                del self._arriving[session.id]

    def arrived(self, session: LiveSession) -> None:
        """The agent has taken it up. Raises SessionTaken if its id has come to mean another one meanwhile."""
        if self._arriving.get(session.id) is not session:
            raise SessionTaken(session.id)
        self._sessions[session.id] = session

    def give(self, session_id: str) -> None:
        """The agent has given this id to a new session. Raises SessionTaken if it means another open session.

        A session that is being closed or deleted does not count: the agent may have done it already.
        """
        held = self._sessions.get(session_id)
        if held is not None and not held.ending:
            raise SessionTaken(session_id)
        self._arriving.pop(session_id, None)

    @contextmanager
    def expecting(self) -> Generator[None]:
        """While a new session is being made, whose id is not known yet: keep what may be its updates."""
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
        """Make `session` known, after handing it what was kept for it; only while one is expected.

        Raises SessionTaken, see `give`.
        """
        self.give(session.id)
        # What arrives while its own function waits is kept behind the rest, so that the order holds.
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
        # Once more: a caller may have waited.
        self.give(session.id)
        self._sessions[session.id] = session

    def end(self, session: LiveSession) -> None:
        """The agent has closed or deleted it."""
        # What has the id by now may be another one.
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self._subagents.end(session.id)
            self._ended.append(session.id)

    def has_ended(self, session_id: str) -> bool:
        """Whether this is the id of a session that was ended lately, and of no other since. What the agent still asks
        in it is not the user's concern any more."""
        return session_id in self._ended and not self.knows(session_id)

    def _keep(self, session_id: str, params: Any) -> None:
        # Encoded, they take no more than is counted; and what is dropped in the end need not be understood.
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
            logger.warning("the agent says too much of sessions that are not open yet; updates are dropped")

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

"""Which session an id means, and with that whose an update is; what becomes of updates whose session is not known.

An agent may send updates of a new session right behind the answer that names it, or even before; they are kept until
the one who asked for the session has made it known. All other strays are dropped.

An id means what the agent last said it does. A session that is being taken up gets the updates, for its history comes
before the answer; but the id is its own only with the answer, and not if the agent gives it to a new one meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from acp_server.client.errors import SessionTaken
from acp_server.peer.connection import Connection
from acp_server.schema import SessionNotification, SessionUpdate, UnknownSessionUpdate

if TYPE_CHECKING:
    from acp_server.client.session import RemoteSession

logger = logging.getLogger("acp_server.client")


class Strays:
    """Hands the updates of one connection to its `sessions`, and is the only one that adds to them."""

    def __init__(self, sessions: dict[str, RemoteSession]) -> None:
        self._sessions = sessions
        self._arriving: dict[str, RemoteSession] = {}
        """Those that are being taken up."""
        self._expected = 0
        self._kept: list[tuple[str, SessionUpdate]] = []

    def receive(self, _connection: Connection, params: Any) -> Awaitable[None] | None:
        """A `session/update` has arrived."""
        read = _read(params)
        if read is None:
            return None
        session_id, update = read
        session = self._arriving.get(session_id) or self._sessions.get(session_id)
        if session is not None:
            return session.receive(update)
        if self._expected:
            self._kept.append(read)
        else:
            logger.debug("dropped an update of a session that is not open here")
        return None

    def knows(self, session_id: str) -> bool:
        """Whether a session of this id is open, or is being taken up."""
        return session_id in self._arriving or session_id in self._sessions

    @contextmanager
    def arriving(self, session: RemoteSession) -> Generator[None]:
        """While `session` is being taken up: let it have the updates of its id; see `arrived`."""
        self._arriving[session.id] = session
        try:
            yield
        finally:
            if self._arriving.get(session.id) is session:
                del self._arriving[session.id]

    def arrived(self, session: RemoteSession) -> None:
        """The agent has taken it up. Raises SessionTaken if its id has come to mean another one meanwhile."""
        if self._arriving.get(session.id) is not session:
            raise SessionTaken(session.id)
        self._sessions[session.id] = session

    def give(self, session_id: str) -> None:
        """The agent has given this id to a new session. Raises SessionTaken if it means another one that is open.

        One that is being closed or deleted does not count: the agent may have done it already.
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

    async def open(self, session: RemoteSession) -> None:
        """Make `session` known, after handing it what was kept for it; only while one is expected.

        Raises SessionTaken, see `give`.
        """
        self.give(session.id)
        # What arrives while its own function waits is kept behind the rest, so that the order holds.
        while mine := [kept for kept in self._kept if kept[0] == session.id]:
            self._kept = [kept for kept in self._kept if kept[0] != session.id]
            for _, update in mine:
                try:
                    pending = session.receive(update)
                    if pending is not None:
                        await pending
                except Exception:
                    logger.exception("the handler of session/update failed")
        # Once more, for somebody may have waited.
        self.give(session.id)
        self._sessions[session.id] = session


def _read(params: Any) -> tuple[str, SessionUpdate] | None:
    try:
        notification = SessionNotification.from_wire(params)
        return notification.session_id, notification.update
    except ValidationError:
        pass
    # A known kind of update with something in it that this version does not understand is passed on unread.
    try:
        return params["sessionId"], UnknownSessionUpdate.from_wire(params["update"])
    except (ValidationError, LookupError, TypeError):
        logger.warning("dropped a session/update that has no session or no kind of update")
        return None

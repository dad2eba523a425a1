"""Which session an update belongs to, and what becomes of those whose session is not known.

An agent may send updates of a new session right behind the answer that names it, or even before; they are kept until
the one who asked for the session has made it known. All other strays are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from acp_server.peer.connection import Connection
from acp_server.schema import SessionNotification, SessionUpdate, UnknownSessionUpdate

if TYPE_CHECKING:
    from acp_server.client.session import RemoteSession

logger = logging.getLogger("acp_server.client")


class Strays:
    """Hands the updates of one connection to its `sessions`."""

    def __init__(self, sessions: dict[str, RemoteSession]) -> None:
        self._sessions = sessions
        self._expected = 0
        self._kept: list[tuple[str, SessionUpdate]] = []

    def receive(self, _connection: Connection, params: Any) -> Awaitable[None] | None:
        """A `session/update` has arrived."""
        read = _read(params)
        if read is None:
            return None
        session_id, update = read
        session = self._sessions.get(session_id)
        if session is not None:
            return session.receive(update)
        if self._expected:
            self._kept.append(read)
        else:
            logger.debug("dropped an update of a session that is not open here")
        return None

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
        """Make `session` known, after handing it what was kept for it; only while one is expected."""
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

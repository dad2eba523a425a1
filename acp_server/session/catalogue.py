"""The requests about sessions that open no session. They list, name and unarchive sessions, and return their state
(ACP, Session List; the others are unstable, see `acp_server.schema.features`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from typing import TYPE_CHECKING, Any, Final

from acp_server.peer.call import LiveCall
from acp_server.schema.reading import absolute, problem, read
from acp_server.session.place import place_of
from acp_server.session.state import not_found
from acp_server.store.records import SessionRecord, iso
from acp_server.store.session_store import listed, loaded
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from acp_server.schema.base import Model
    from acp_server.schema.session import SessionInfo
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.live_session import LiveSession
    from acp_server.session.negotiation import Login

_FORGET: Final = 30 * 24 * 3600.0
"""Seconds without activity after which a list deletes an unused session."""

_MOST_PAGES: Final = 20
"""The most pages without a session to show that one request reads from the store. After that the client gets an empty
page with a cursor."""

_LONGEST_TITLE: Final = 1_000
"""The most characters of a title from a user."""

_LISTED: Final = {"exclude": (False,), "include": (False, True), "only": (True,)}
"""For each filter of a request, the values of `archived` that the listed sessions have."""


class Catalogue:
    """The stored sessions of an agent, for one of its connections. `lock`: the lock for requests about one session
    id."""

    def __init__(
        self,
        definition: AgentDefinition,
        sessions: dict[str, LiveSession],
        login: Login,
        lock: Callable[[str], AbstractAsyncContextManager[Any]],
    ) -> None:
        self._definition = definition
        self._sessions = sessions
        self._login = login
        self._lock = lock

    async def list(self, call: LiveCall) -> Model:
        """`session/list`."""
        from acp_server.schema.session import ListSessionsRequest, ListSessionsResponse

        request = read(ListSessionsRequest, call.params)
        if request.cwd is not None:
            absolute(request.cwd, "cwd", call.connection.limits.path)
        archived = _LISTED["include"]
        if self._definition.has("archive"):
            if request.archived is not None and request.archived not in _LISTED:
                raise problem("archived", "is not a filter that this agent knows")
            archived = _LISTED[request.archived or "exclude"]
        self._login.check()
        cwd = None if request.cwd is None else await place_of(request.cwd)
        records, infos, cursor = await self._used(cwd, request.cursor, archived)
        return ListSessionsResponse(sessions=[*map(self._info, records), *infos], next_cursor=cursor)

    def _info(self, record: SessionRecord) -> SessionInfo:
        from acp_server.schema.session import SessionInfo

        title = record.title or record.begins
        info = SessionInfo(session_id=record.id, cwd=record.folder, title=title, updated_at=iso(record.updated_at))
        if record.additional_directories:
            info.additional_directories = record.additional_directories
        if self._definition.has("archive"):
            info.archived = record.archived
        return info

    async def _used(
        self, cwd: str | None, cursor: str | None, archived: Sequence[bool]
    ) -> tuple[Sequence[SessionRecord], Sequence[SessionInfo], str | None]:
        """Return a page of the sessions that were used or are open, with the cursor of the next page. Some editors
        create a session at each start. An unused session can be resumed for a while, and is then deleted."""
        store = self._definition.store
        for _ in range(_MOST_PAGES):
            page = await listed(store, cwd, cursor)
            used = [record for record in page.sessions if not record.is_empty or record.id in self._sessions]
            for record in page.sessions:
                if record not in used and time() - record.updated_at > _FORGET:
                    await store.delete(record.id)
            kept = [record for record in used if record.archived in archived]
            cursor = page.next_cursor
            if kept or page.infos or cursor is None:
                return kept, page.infos, cursor
        return [], (), cursor

    async def set_title(self, call: LiveCall) -> Model:
        """`session/set_title`. The response has the title as stored."""
        from acp_server.schema.session import SetSessionTitleRequest, SetSessionTitleResponse

        request = read(SetSessionTitleRequest, call.params)
        self._login.check()
        title = request.title.strip()
        if not title or len(title) > _LONGEST_TITLE:
            raise problem("title", f"has 1 to {_LONGEST_TITLE} characters besides blanks at its ends")

        def change(record: SessionRecord) -> None:
            record.title, record.named = title, True

        await self.change(request.session_id, change)
        return SetSessionTitleResponse(title=title)

    async def unarchive(self, call: LiveCall) -> Model:
        """`session/unarchive`. It opens no session."""
        from acp_server.schema.session import UnarchiveSessionRequest, UnarchiveSessionResponse

        request = read(UnarchiveSessionRequest, call.params)
        self._login.check()
        await self.change(request.session_id, lambda record: setattr(record, "archived", False))
        return UnarchiveSessionResponse()

    async def change(self, session_id: str, change: Callable[[SessionRecord], None]) -> None:
        """Change the record of a session, open or not, and save it. Raises ResourceNotFound, and the exceptions of the
        store."""
        async with self._lock(session_id):
            await self.change_locked(session_id, change)

    async def change_locked(self, session_id: str, change: Callable[[SessionRecord], None]) -> None:
        """Make the same change as `change`, for a caller that holds the lock."""
        session = self._sessions.get(session_id)
        record = await self._stored(session_id) if session is None else session.record
        change(record)
        if session is not None:
            await session.save()
        elif (pending := self._definition.store.save(record)) is not None:
            with grace():
                await pending

    async def _stored(self, session_id: str) -> SessionRecord:
        record = await loaded(self._definition.store, session_id)
        if record is None:
            raise not_found(session_id)
        return record

    async def status(self, call: LiveCall) -> Model:
        """`session/status`. It changes nothing."""
        from acp_server.schema.session import SessionStatusRequest, SessionStatusResponse

        request = read(SessionStatusRequest, call.params)
        self._login.check()
        if self._definition.is_open(request.session_id):
            return SessionStatusResponse(status="open")
        await self._stored(request.session_id)
        return SessionStatusResponse(status="saved")

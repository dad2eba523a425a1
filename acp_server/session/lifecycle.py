"""Making, loading, resuming, listing, closing and deleting sessions, and changing their settings (ACP, Session Setup
and what follows it).

A session exists for the client when the answer says so: a request that is cancelled on the way leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

import anyio

from acp_server.errors import AuthRequired, RequestCancelled, ResourceNotFound
from acp_server.peer.context import Call
from acp_server.schema.base import Model
from acp_server.session.history import SessionRecord, iso
from acp_server.session.hooks import Hooks
from acp_server.session.params import absolute, problem, read
from acp_server.session.profile import ClientProfile
from acp_server.session.session import Session
from acp_server.session.settings import choices
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from acp_server.schema.mcp import McpServer
    from acp_server.schema.session import LoadSessionRequest, NewSessionRequest, ResumeSessionRequest

    Setup: TypeAlias = NewSessionRequest | LoadSessionRequest | ResumeSessionRequest

logger = logging.getLogger("acp_server.session")


class Lifecycle:
    """The sessions of one connection."""

    def __init__(self, hooks: Hooks, profile: ClientProfile, sessions: dict[str, Session]) -> None:
        self._hooks = hooks
        self._profile = profile
        self.sessions = sessions
        """Those that are open, by id."""
        self.authenticated = not hooks.auth_required
        # What is done to a session that exists is done one after the other, or two loads would leave two of them. A
        # lock lives as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    # -- session/new, load, resume

    async def new(self, call: Call) -> Model:
        """`session/new`."""
        from acp_server.schema.session import NewSessionRequest, NewSessionResponse

        request = read(NewSessionRequest, call)
        self._check_login()
        record = SessionRecord(f"sess_{os.urandom(12).hex()}", *_directories(request))
        async with self._opened(call, record, request) as session:
            pass
        return NewSessionResponse(session_id=session.id, **session.settings.state())

    async def load(self, call: Call) -> Model:
        """`session/load`: all that was said is said again before the answer. A running turn of the session is cancelled
        first."""
        from acp_server.schema.session import LoadSessionRequest, LoadSessionResponse

        request = read(LoadSessionRequest, call)
        async with self._reopened(call, request) as session:
            replay = session.updates.replay()
            for turn in session.record.turns:
                for update in turn.replay():
                    replay.send(update)
                    if replay.crowded:
                        await replay.room()
        return LoadSessionResponse(**session.settings.state())

    async def resume(self, call: Call) -> Model:
        """`session/resume`: like load, but nothing is said again."""
        from acp_server.schema.session import ResumeSessionRequest, ResumeSessionResponse

        request = read(ResumeSessionRequest, call)
        async with self._reopened(call, request) as session:
            pass
        return ResumeSessionResponse(**session.settings.state())

    @asynccontextmanager
    async def _reopened(
        self, call: Call, request: LoadSessionRequest | ResumeSessionRequest
    ) -> AsyncGenerator[Session]:
        cwd, directories = _directories(request)
        self._check_login()
        async with self._lock(request.session_id):
            if (active := self.sessions.get(request.session_id)) is not None:
                await self._end(active)
            record = await self._hooks.store.load(request.session_id)
            if record is None:
                raise _not_found(request.session_id)
            # A copy: the store's own changes when the session is really there.
            record = replace(record, cwd=cwd, additional_directories=directories)
            async with self._opened(call, record, request) as session:
                yield session

    @asynccontextmanager
    async def _opened(self, call: Call, record: SessionRecord, request: Setup) -> AsyncGenerator[Session]:
        """A session that the client may use once the block is through; if anything fails before, there is none."""
        session = Session(record, call.connection, self._profile, self._hooks, self._servers(request.mcp_servers))
        try:
            for hook in self._hooks.open_session:
                await hook(session)
            yield session
            if call.is_cancelled:
                raise RequestCancelled
            # No cancel cuts this, and a session that is stored is there: from here on a cancel is late.
            session.opened = True
            await session.save()
        except BaseException:
            await session.close()
            raise
        self.sessions[session.id] = session
        call.after_answer(session.updates.open)

    def _servers(self, servers: Sequence[McpServer]) -> list[McpServer]:
        usable = {"stdio", *self._hooks.mcp}
        kept = [server for server in servers if (server.type or "stdio") in usable]
        for server in servers:
            if server not in kept:
                logger.warning("an MCP server of type %r is left out: this agent does not announce it", server.type)
        return kept

    def _check_login(self) -> None:
        if not self.authenticated:
            raise AuthRequired

    # -- settings

    async def set_mode(self, call: Call) -> Model:
        """`session/set_mode`."""
        from acp_server.schema.config_options import SetSessionModeRequest, SetSessionModeResponse

        request = read(SetSessionModeRequest, call)
        session = self.find(request.session_id)
        if not session.settings.has_mode(request.mode_id):
            raise problem("modeId", "is not one of this session's modes")
        if self._hooks.set_mode is not None:
            await self._hooks.set_mode(session, request.mode_id)
        session.settings.set_mode(request.mode_id)
        session.touch()
        await session.save()
        return SetSessionModeResponse()

    async def set_config_option(self, call: Call) -> Model:
        """`session/set_config_option`: the answer has all options, for one may change another."""
        from acp_server.schema.config_options import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse

        request = read(SetSessionConfigOptionRequest, call)
        session = self.find(request.session_id)
        option = next((option for option in session.settings.shown() if option.id == request.config_id), None)
        if option is None:
            raise problem("configId", "is not one of this session's options")
        if request.value not in choices(option):
            raise problem("value", "is not one of this option's values")
        value = session.settings.taken(request.config_id, request.value)
        if self._hooks.set_config_option is not None:
            await self._hooks.set_config_option(session, request.config_id, value)
        session.settings.choose(request.config_id, value)
        session.touch()
        await session.save()
        return SetSessionConfigOptionResponse(config_options=list(session.settings.shown()))

    # -- session/list, close, delete

    async def list(self, call: Call) -> Model:
        """`session/list`."""
        from acp_server.schema.session import ListSessionsRequest, ListSessionsResponse, SessionInfo

        request = read(ListSessionsRequest, call)
        self._check_login()
        page = await self._hooks.store.list(request.cwd, request.cursor)
        sessions: list[SessionInfo] = []
        for record in page.sessions:
            info = SessionInfo(
                session_id=record.id, cwd=record.cwd, title=record.title, updated_at=iso(record.updated_at)
            )
            if record.additional_directories:
                info.additional_directories = record.additional_directories
            sessions.append(info)
        return ListSessionsResponse(sessions=sessions, next_cursor=page.next_cursor)

    async def close(self, call: Call) -> Model:
        """`session/close`: as if `session/cancel` had come, then everything is freed. An unknown session is closed
        already."""
        from acp_server.schema.session import CloseSessionRequest, CloseSessionResponse

        request = read(CloseSessionRequest, call)
        async with self._lock(request.session_id):
            session = self.sessions.get(request.session_id)
            if session is not None:
                await self._end(session)
        return CloseSessionResponse()

    async def delete(self, call: Call) -> Model:
        """`session/delete`: closed, and forgotten. An unknown session is gone already."""
        from acp_server.schema.session import DeleteSessionRequest, DeleteSessionResponse

        request = read(DeleteSessionRequest, call)
        self._check_login()
        async with self._lock(request.session_id):
            session = self.sessions.get(request.session_id)
            if session is not None:
                await self._end(session)
            await self._hooks.store.delete(request.session_id)
        return DeleteSessionResponse()

    async def close_all(self) -> None:
        """The connection ends: let go of what the sessions hold."""
        async with anyio.create_task_group() as group:
            for session in self.sessions.values():
                group.start_soon(session.close)
        self.sessions.clear()

    def find(self, session_id: str) -> Session:
        """The open session with this id. Raises ResourceNotFound."""
        session = self.sessions.get(session_id)
        if session is None:
            raise _not_found(session_id)
        return session

    async def _end(self, session: Session) -> None:
        # At once, so that no new prompt is taken; under a shield, for half a closed session is no session.
        self.sessions.pop(session.id, None)
        session.cancel()
        with grace(session.client.connection.limits.grace):
            await session.wait_quiet()
        if stuck := list(session.turns):
            for turn in stuck:
                # The client hears of the turn's end before it hears of the session's.
                if turn.give_up is not None:
                    turn.give_up()
            try:
                await session.save()
            except Exception:
                logger.exception("session %s was not saved", session.id)
        await session.close()

    def _lock(self, session_id: str) -> anyio.Lock:
        return self._locks.setdefault(session_id, anyio.Lock())


def _directories(request: Setup) -> tuple[str, list[str]]:
    cwd = absolute(request.cwd, "cwd")
    extra = [
        absolute(path, f"additionalDirectories[{index}]") for index, path in enumerate(request.additional_directories)
    ]
    return cwd, extra


def _not_found(session_id: str) -> ResourceNotFound:
    return ResourceNotFound("Session not found", data={"sessionId": session_id})

"""Making, loading, resuming, listing, closing and deleting sessions, and their settings (ACP, Session Setup and what
follows it).

A session exists for the client when the answer says so: a request that is cancelled on the way leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, cast

from acp_server.errors import AuthRequired, RequestCancelled, ResourceNotFound
from acp_server.peer.context import Call
from acp_server.schema.base import Model
from acp_server.session.client import ClientProfile
from acp_server.session.history import SessionRecord
from acp_server.session.hooks import Hooks
from acp_server.session.params import absolute, problem, read
from acp_server.session.session import Session
from acp_server.tasks.grace import grace

logger = logging.getLogger("acp_server.session")


class Lifecycle:
    """The sessions of one connection."""

    def __init__(self, hooks: Hooks, profile: ClientProfile) -> None:
        self._hooks = hooks
        self._profile = profile
        self.sessions: dict[str, Session] = {}
        self.authenticated = not hooks.auth_required

    # -- session/new, load, resume

    async def new(self, call: Call) -> Model:
        """`session/new`."""
        from acp_server.schema.session import NewSessionRequest, NewSessionResponse

        request = read(NewSessionRequest, call)
        record = SessionRecord(f"sess_{os.urandom(12).hex()}", *self._directories(request))
        session = await self._open(call, record, request.mcp_servers)
        await self._save(session)
        self._register(call, session)
        return NewSessionResponse(session_id=session.id, **self._settings(session))

    async def load(self, call: Call) -> Model:
        """`session/load`: all that was said is said again before the answer."""
        from acp_server.schema.session import LoadSessionRequest, LoadSessionResponse

        request = read(LoadSessionRequest, call)
        session = await self._reopen(call, request)
        replay = session.updates.replay()
        for turn in session.record.turns:
            for update in turn.replay():
                replay.send(update)
                if replay.crowded:
                    await replay.room()
        self._register(call, session)
        return LoadSessionResponse(**self._settings(session))

    async def resume(self, call: Call) -> Model:
        """`session/resume`: like load, but nothing is said again."""
        from acp_server.schema.session import ResumeSessionRequest, ResumeSessionResponse

        session = await self._reopen(call, read(ResumeSessionRequest, call))
        self._register(call, session)
        return ResumeSessionResponse(**self._settings(session))

    async def _reopen(self, call: Call, request: Any) -> Session:
        directories = self._directories(request)
        record = await self._hooks.store.load(request.session_id)
        if record is None:
            raise ResourceNotFound("Session not found", data={"sessionId": request.session_id})
        if (active := self.sessions.get(record.id)) is not None:
            await self._end(active)
        record.cwd, record.additional_directories = directories
        return await self._open(call, record, request.mcp_servers)

    async def _open(self, call: Call, record: SessionRecord, mcp_servers: Sequence[Any]) -> Session:
        if not self.authenticated:
            raise AuthRequired
        session = Session(record, call.connection, self._profile, mcp_servers)
        self._prepare(session)
        try:
            for hook in self._hooks.open_session:
                await hook(session)
            if call.is_cancelled:
                raise RequestCancelled
        except BaseException:
            with grace():
                await session.close()
            raise
        return session

    def _register(self, call: Call, session: Session) -> None:
        self.sessions[session.id] = session
        call.after_answer(session.updates.open)

    def _directories(self, request: Any) -> tuple[str, list[str]]:
        cwd = absolute(request.cwd, "cwd")
        extra = [
            absolute(path, f"additionalDirectories[{index}]")
            for index, path in enumerate(request.additional_directories)
        ]
        return cwd, extra

    # -- settings

    def _prepare(self, session: Session) -> None:
        hooks, record = self._hooks, session.record
        session.modes = hooks.modes
        if hooks.modes and all(mode.id != record.mode for mode in hooks.modes):
            record.mode = hooks.modes[0].id
        boolean = self._takes_booleans
        for option in hooks.config_options:
            if option.type == "boolean" and not boolean:
                continue
            copy: Any = option.model_copy()
            if copy.id in record.config:
                copy.current_value = record.config[copy.id]
            session.config_options.append(copy)

    @property
    def _takes_booleans(self) -> bool:
        session = self._profile.capabilities.session
        options = session.config_options if session is not None else None
        return options is not None and options.boolean is not None

    def _settings(self, session: Session) -> dict[str, Any]:
        from acp_server.schema.config_options import SessionModeState

        settings: dict[str, Any] = {}
        if session.modes and session.record.mode is not None:
            settings["modes"] = SessionModeState(current_mode_id=session.record.mode, available_modes=session.modes)
        if session.config_options:
            settings["config_options"] = session.config_options
        return settings

    async def set_mode(self, call: Call) -> Model:
        """`session/set_mode`."""
        from acp_server.schema.config_options import SetSessionModeRequest, SetSessionModeResponse

        request = read(SetSessionModeRequest, call)
        session = self.find(request.session_id)
        if all(mode.id != request.mode_id for mode in session.modes):
            raise problem("modeId", "is not one of this session's modes")
        if self._hooks.set_mode is not None:
            await self._hooks.set_mode(session, request.mode_id)
        session.record.mode = request.mode_id
        await self._save(session)
        return SetSessionModeResponse()

    async def set_config_option(self, call: Call) -> Model:
        """`session/set_config_option`: the answer has all options, for one may change another."""
        from acp_server.schema.config_options import (
            SetSessionConfigOptionRequest,
            SetSessionConfigOptionResponse,
        )

        request = read(SetSessionConfigOptionRequest, call)
        session = self.find(request.session_id)
        options = cast("list[Any]", session.config_options)
        option = next((option for option in options if option.id == request.config_id), None)
        if option is None:
            raise problem("configId", "is not one of this session's options")
        if request.value not in _choices(option):
            raise problem("value", "is not one of this option's values")
        if self._hooks.set_config_option is not None:
            await self._hooks.set_config_option(session, request.config_id, request.value)
        option.current_value = request.value
        session.record.config[option.id] = request.value
        await self._save(session)
        return SetSessionConfigOptionResponse(config_options=session.config_options)

    # -- session/list, close, delete

    async def list(self, call: Call) -> Model:
        """`session/list`."""
        from acp_server.schema.session import ListSessionsRequest, ListSessionsResponse, SessionInfo

        request = read(ListSessionsRequest, call)
        page = await self._hooks.store.list(request.cwd, request.cursor)
        sessions: list[SessionInfo] = []
        for record in page.sessions:
            info = SessionInfo(session_id=record.id, cwd=record.cwd, title=record.title, updated_at=record.updated_at)
            if record.additional_directories:
                info.additional_directories = record.additional_directories
            sessions.append(info)
        return ListSessionsResponse(sessions=sessions, next_cursor=page.next_cursor)

    async def close(self, call: Call) -> Model:
        """`session/close`: as if `session/cancel` had come, then everything is freed. An unknown session is closed
        already."""
        from acp_server.schema.session import CloseSessionRequest, CloseSessionResponse

        request = read(CloseSessionRequest, call)
        session = self.sessions.get(request.session_id)
        if session is not None:
            await self._end(session)
        return CloseSessionResponse()

    async def delete(self, call: Call) -> Model:
        """`session/delete`: closed, and forgotten. An unknown session is gone already."""
        from acp_server.schema.session import DeleteSessionRequest, DeleteSessionResponse

        request = read(DeleteSessionRequest, call)
        session = self.sessions.get(request.session_id)
        if session is not None:
            await self._end(session)
        await self._hooks.store.delete(request.session_id)
        return DeleteSessionResponse()

    async def close_all(self) -> None:
        """The connection ends: let go of what the sessions hold."""
        for session in list(self.sessions.values()):
            await session.close()

    def find(self, session_id: str) -> Session:
        """The open session with this id. Raises ResourceNotFound."""
        session = self.sessions.get(session_id)
        if session is None:
            raise ResourceNotFound("Session not found", data={"sessionId": session_id})
        return session

    async def _end(self, session: Session) -> None:
        # At once, so that no new prompt is taken; under a shield, for half a closed session is no session.
        self.sessions.pop(session.id, None)
        session.cancel()
        with grace():
            for turn in list(session.turns):
                await turn.wait_left()
        with grace():
            await session.close()

    async def _save(self, session: Session) -> None:
        session.touch()
        pending = self._hooks.store.save(session.record)
        if pending is not None:
            with grace():
                await pending


def _choices(option: Any) -> Sequence[str | bool]:
    if option.type == "boolean":
        return (True, False)
    values: list[str] = []
    for choice in getattr(option, "options", ()):
        values += [inner.value for inner in choice.options] if hasattr(choice, "options") else [choice.value]
    return values

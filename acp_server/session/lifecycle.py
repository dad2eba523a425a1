"""Creates, loads, resumes, forks, closes and deletes sessions (ACP, Session Setup and the sections after it).

A session exists for the client once the response says so. A request that is cancelled earlier leaves nothing.
"""

from __future__ import annotations

import logging
import os
import reprlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias
from weakref import WeakValueDictionary

import anyio

from acp_server.errors import RequestCancelled, ResourceNotFound, UsageError
from acp_server.peer.call import Follower, LiveCall
from acp_server.peer.peer import Peer
from acp_server.schema.reading import problem, read
from acp_server.session import setup
from acp_server.session.catalogue import Catalogue
from acp_server.session.choosing import Chooser
from acp_server.session.definition import AgentDefinition, Origin
from acp_server.session.forking import turns_until
from acp_server.session.live_session import LiveSession, log_unsaved
from acp_server.session.negotiation import ClientProfile, Login
from acp_server.session.place import place_of
from acp_server.session.replay import replay
from acp_server.session.sayable import wire_of
from acp_server.session.settings import settings_of
from acp_server.session.setup import PlainSetup, Room, is_ready, load_for_prompts, plain_setup
from acp_server.session.state import SessionEvent, not_found
from acp_server.store.records import SessionRecord
from acp_server.store.session_store import loaded
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from acp_server.schema.base import Model
    from acp_server.schema.session import (
        ArchiveSessionRequest,
        CloseSessionRequest,
        DeleteSessionRequest,
        ForkSessionRequest,
        LoadSessionRequest,
        McpServer,
        NewSessionRequest,
        ResumeSessionRequest,
    )
    from acp_server.session.settings import Settings
    from acp_server.session.updates import Updates

    Known: TypeAlias = LoadSessionRequest | ResumeSessionRequest
    Setup: TypeAlias = PlainSetup | NewSessionRequest | ForkSessionRequest | Known

logger: logging.Logger = logging.getLogger("acp_server.session")

_OPENING: Final = ("session/new", "session/load", "session/resume", "session/fork")

_LONGEST_ID: Final = 1_000
"""The most characters of a session id from the author."""


class Lifecycle:
    """The sessions of one connection."""

    SESSION: ClassVar[type[LiveSession]] = LiveSession

    def __init__(self, definition: AgentDefinition, profile: ClientProfile, sessions: dict[str, LiveSession]) -> None:
        self._definition = definition
        self._profile = profile
        self.sessions = sessions
        """The open sessions, by id."""
        self.login: Final = Login(definition)
        self._chooser = Chooser(definition)
        self.catalogue: Final = Catalogue(definition, sessions, self.login, self._lock)
        # Requests for one id run one after the other, because two concurrent loads would leave two sessions with one
        # id. A lock exists while a task holds it or waits for it.
        self._room = Room()
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._pending: Counter[str] = Counter()
        """The in-flight requests that end a session or open it again, by session id. Until they end, no prompt is
        accepted, neither by the session that was open when they came nor by a session that one of them opens."""

    # -- session/new, load, resume

    async def new(self, call: LiveCall) -> dict[str, Any]:
        """`session/new`."""
        setup.check_size(call.params, call.connection.limits)
        session = await self._made(call, plain_setup(call.params) or _read_new(call))
        return session.opening()

    async def _made(self, call: LiveCall, request: Setup) -> LiveSession:
        """Open a new session. Raises AuthRequired if the client has to log in first."""
        self.login.check()
        return await self.open(call, request)

    async def fork(self, call: LiveCall) -> dict[str, Any]:
        """`session/fork`: a new session with the turns of another session, which are not replayed."""
        setup.check_size(call.params, call.connection.limits)
        request = self._read_fork(call)
        self.login.check()
        cwd, _ = self._checked(call, request)
        async with self._lock(request.session_id):
            session = self.sessions.get(request.session_id)
            source = None if session is None else session.record
            if source is None:
                source = await loaded(self._definition.store, request.session_id, await place_of(cwd))
            if source is None:
                raise not_found(request.session_id)
            turns = await turns_until(source, call.params)
            # A copy, because the store may return a record that changes later.
            before = SessionRecord(source.id, source.cwd)
            before.begin_with(source, turns)
        session = await self.open(call, request, before)
        return session.opening()

    async def options(self, call: LiveCall) -> dict[str, Any]:
        """`session/options`: the settings that a session would begin with, except additions of its handlers. It opens
        and changes nothing."""
        from acp_server.schema.session import SessionOptionsRequest

        request = read(SessionOptionsRequest, call.params)
        cwd, _ = setup.check_directories(request.cwd, request.additional_directories, call.connection.limits)
        self.login.check()
        session = None if request.session_id is None else self.sessions.get(request.session_id)
        if session is not None:
            return self._shown(session.settings)
        record = SessionRecord("", cwd)
        if request.session_id is not None:
            stored = await loaded(self._definition.store, request.session_id, await place_of(cwd))
            if stored is None:
                raise not_found(request.session_id)
            record = stored
        return self._shown(settings_of(record, self._profile, self._definition))

    def _shown(self, settings: Settings) -> dict[str, Any]:
        """Return the result of `session/options` in its wire form."""
        from acp_server.schema.session import SessionOptionsResponse

        return SessionOptionsResponse(**settings.state()).to_wire()

    def _read_fork(self, call: LiveCall) -> ForkSessionRequest:
        from acp_server.schema.session import ForkSessionRequest

        return read(ForkSessionRequest, call.params)

    async def open(self, by: LiveCall | Peer, request: Setup, source: SessionRecord | None = None) -> LiveSession:
        """A new session, with the turns of `source` if given. `by`: the request whose response announces the session,
        or the connection of a client that gets its updates at once. Raises as `Agent.open_session`."""
        directories = self._checked(by, request)
        give = self._definition.session_id
        id = None if give is None or not isinstance(by, LiveCall) else await give(by)
        cwd, additional = directories
        place = await place_of(cwd, anew=True)
        if id is None:
            record = _spelled(SessionRecord(_new_id(), place, additional), cwd)
            return await self._made_as(by, record, request, source)
        if type(id) is not str or not id or len(id) > _LONGEST_ID:
            raise UsageError(f"the id of a session must be a string of 1 to {_LONGEST_ID} characters")
        # Without the lock, two concurrent requests with one id would both find no session.
        async with self._lock(id):
            if id in self.sessions or await self._is_stored(id, place):
                raise UsageError(f"there is a session {id!r} already")
            record = _spelled(SessionRecord(id, place, additional), cwd)
            return await self._made_as(by, record, request, source)

    async def _is_stored(self, session_id: str, place: str) -> bool:
        # Without history, the function that returned the id may have begun the author's own log under it.
        return self._definition.history and await loaded(self._definition.store, session_id, place) is not None

    async def _made_as(
        self, by: LiveCall | Peer, record: SessionRecord, request: Setup, source: SessionRecord | None
    ) -> LiveSession:
        if source is not None:
            record.begin_with(source)
        record.unused = not record.turns
        async with self._opened(by, record, request, "new" if source is None else "fork") as session:
            pass
        return session

    def register(self, name: str, call: LiveCall) -> None:
        """Register a request that ends a session or opens it again, in order of arrival; `name` is the last part of its
        method. Turns of the session are cancelled as by `session/cancel`. Raises InvalidParams and AuthRequired."""
        from acp_server.schema.session import ArchiveSessionRequest, CloseSessionRequest, DeleteSessionRequest

        if name == "close":
            request = read(CloseSessionRequest, call.params)
        elif name == "archive":
            request = read(ArchiveSessionRequest, call.params)
            self.login.check()
        elif name == "delete":
            request = read(DeleteSessionRequest, call.params)
            self.login.check()
        else:
            setup.check_size(call.params, call.connection.limits)
            request = self._read_known(name, call)
            self._checked(call, request)
            self.login.check()
        session_id: str = request.session_id
        call.follower = _Change(call, request, lambda: self._is_over(session_id))
        self._pending[session_id] += 1
        self._begin_end(session_id)

    def _begin_end(self, session_id: str) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.cancel()
            session.move(SessionEvent.END_REQUESTED)

    def _is_over(self, session_id: str) -> None:
        """Count a registered request as ended, whatever its result."""
        self._pending[session_id] -= 1
        others = self._pending[session_id]
        if not others:
            del self._pending[session_id]
        session = self.sessions.get(session_id)
        if session is not None:
            session.move(SessionEvent.END_REQUESTED if others else SessionEvent.END_FAILED)

    def _checked(self, by: LiveCall | Peer, request: Setup) -> tuple[str, list[str]]:
        """The directories of a session. Raises InvalidParams for malformed directories, and for client instructions
        that the agent cannot apply."""
        setup.check_system_prompt(request.system_prompt, self._definition.system_prompt)
        limits = _connection_of(by).limits
        is_clients = isinstance(by, LiveCall) and by.method in _OPENING
        if is_clients and request.additional_directories and "additional_directories" not in self._definition.sessions:
            raise problem("additionalDirectories", "this agent has one directory for a session")
        return setup.check_directories(request.cwd, request.additional_directories, limits)

    def _read_known(self, name: str, call: LiveCall) -> Known:
        """The parameters of a request that opens a stored session."""
        from acp_server.schema.session import LoadSessionRequest, ResumeSessionRequest

        return read(LoadSessionRequest if name == "load" else ResumeSessionRequest, call.params)

    async def load(self, call: LiveCall) -> dict[str, Any]:
        """`session/load`: replays the session before the response."""
        request: LoadSessionRequest = call.follower.request
        async with self._reopened(call, request, "load") as session:
            await self.replay(session, session.updates.replay())
        return session.offered()

    async def resume(self, call: LiveCall) -> dict[str, Any]:
        """`session/resume`: like `load`, without a replay."""
        request: ResumeSessionRequest = call.follower.request
        async with self._reopened(call, request, "resume") as session:
            pass
        return session.offered()

    @asynccontextmanager
    async def _reopened(self, call: LiveCall, request: Known, origin: Origin) -> AsyncGenerator[LiveSession]:
        cwd, directories = self._checked(call, request)
        async with self._lock(request.session_id):
            place = await place_of(cwd, anew=True)
            async with self._taken_down(call, request.session_id):
                record = await loaded(self._definition.store, request.session_id, place)
                if record is None:
                    raise not_found(request.session_id)
            # A copy: the store's record changes only when the session is open.
            record = _spelled(replace(record, cwd=place, additional_directories=directories), cwd)
            async with self._opened(call, record, request, origin) as session:
                yield session
            session.tell_title()

    @asynccontextmanager
    async def _opened(
        self, by: LiveCall | Peer, record: SessionRecord, request: Setup, origin: Origin
    ) -> AsyncGenerator[LiveSession]:
        """A session that the client may use after the block. If anything before fails, there is no session."""
        call = by if isinstance(by, LiveCall) else None
        connection = _connection_of(by)
        give_back = self._room.take(_named(by, request), connection.limits, connection.share)
        session = self.SESSION(record, connection, self._profile, self._definition, self._servers(request.mcp_servers))
        session.siblings = self.sessions
        session.call, session.origin, session.system_prompt = call, origin, request.system_prompt
        session.on_close(give_back)
        try:
            if self._definition.commands is not None:
                await session.set_commands(self._definition.commands())
            for handler in self._definition.open_session:
                await handler(session)
            if call is not None and self._definition.has("options"):
                await self._chooser.begin_with(session, request.config_options, call)
            self._say_uncalled(session)
            yield session
            if call is not None and call.is_cancelled:
                raise RequestCancelled
            # Saving is shielded, and a stored session exists, so a later cancel has no effect.
            session.move(SessionEvent.SUCCEEDED)
            await session.save()
            if call is not None and call.is_answered:
                # The store took too long: for the client the session does not exist.
                raise RequestCancelled
        except BaseException:
            if origin in ("new", "fork") and session.state.saves:
                # The store may have the session now or later, but for the client it does not exist.
                connection.background(self._definition.store.delete, record.id)
            await session.close()
            raise
        self.sessions[session.id] = session
        if call is None:
            _let_out(session)
            return
        if call.follower is None:
            call.follower = _Change(call, request)
        call.follower.opened.append(session)

    def _say_uncalled(self, session: LiveSession) -> None:
        definition = self._definition
        why = definition.uncalled(session.settings.modes, session.settings.options)
        if why is not None and not definition.said_uncalled:
            definition.said_uncalled = True
            logger.warning("%s, or in a session handler", why)

    def _servers(self, servers: Sequence[McpServer]) -> list[McpServer]:
        usable = {"stdio", *self._definition.mcp}
        kept = [server for server in servers if (server.type or "stdio") in usable]
        if len(kept) < len(servers):
            # In one log entry, because a client can name ten thousand servers.
            types = sorted({server.type or "stdio" for server in servers} - usable)
            told = reprlib.repr(types)
            logger.warning("MCP servers of types that the agent does not announce were left out: %s", told)
        return kept

    async def replay(self, session: LiveSession, way: Updates, *, as_terminals: bool = False) -> None:
        """Replay a session by the author's handler or from stored turns. `as_terminals`: see `TurnRecord.replay`."""
        if self._definition.replay is None:
            await replay(session, way, as_terminals=as_terminals)
            return
        async with aclosing(self._definition.replay(session)) as shown:
            async for update in shown:
                way.send(update if isinstance(update, dict) else wire_of(update))
                if way.crowded:
                    await way.room()

    # -- session/close, delete, archive

    async def close(self, call: LiveCall) -> Model:
        """`session/close`: cancels as `session/cancel` does, then releases everything. No effect for an unknown
        session."""
        from acp_server.schema.session import CloseSessionResponse

        request: CloseSessionRequest = call.follower.request
        async with self._lock(request.session_id), self._taken_down(call, request.session_id):
            pass
        return CloseSessionResponse()

    async def archive(self, call: LiveCall) -> Model:
        """`session/archive`: closes the session if it is open, and removes it from the list."""
        from acp_server.schema.session import ArchiveSessionResponse

        request: ArchiveSessionRequest = call.follower.request
        async with self._lock(request.session_id):
            async with self._taken_down(call, request.session_id):
                pass
            await self.catalogue.change_locked(request.session_id, lambda record: setattr(record, "archived", True))
        return ArchiveSessionResponse()

    async def delete(self, call: LiveCall) -> Model:
        """`session/delete`: closes the session and deletes it from the store. No effect for an unknown session."""
        from acp_server.schema.session import DeleteSessionResponse

        request: DeleteSessionRequest = call.follower.request
        async with self._lock(request.session_id), self._taken_down(call, request.session_id, keep=False):
            await self._definition.store.delete(request.session_id)
        return DeleteSessionResponse()

    async def end(self, session_id: str, *, keep: bool) -> None:
        """Close a session without a request from the client, and delete it unless `keep`. Has no effect for an unknown
        session. Raises the exceptions of the store, in which case the session stays open."""
        self._pending[session_id] += 1
        try:
            self._begin_end(session_id)
            async with self._lock(session_id), self._taken_down(None, session_id, keep=keep):
                if not keep:
                    await self._definition.store.delete(session_id)
        finally:
            self._is_over(session_id)

    @asynccontextmanager
    async def _taken_down(self, call: LiveCall | None, session_id: str, *, keep: bool = True) -> AsyncGenerator[None]:
        """Before the block: end the turns of the session with this id, if it is open, and save it if `keep`. After the
        block: close it. If anything before fails, it stays open."""
        session = self.sessions.get(session_id)
        if session is None:
            yield
            return
        await self._quiet(session)
        if keep:
            # Even without a change, so that a broken store fails the request while the session can still be used.
            await _save(session)
        # A cancel since then takes effect here, while the session can still be used; also if the request is answered
        # already, and no cancel is delivered any more.
        if call is not None and call.is_cancelled:
            raise RequestCancelled
        yield
        self.sessions.pop(session_id, None)
        # For a request that opens the session again, the new session has the `call`.
        session.call = None if call is None or call.method in _OPENING else call
        await session.close()

    async def _quiet(self, session: LiveSession) -> None:
        session.cancel()
        # Shielded, because a session must not be left half cancelled.
        with grace(session.client.connection.limits.end_grace):
            await session.wait_first(None)
        for turn in list(session.turns):
            # The client gets the end of the turn before the end of the session.
            turn.give_up()

    def _lock(self, session_id: str) -> anyio.Lock:
        return self._locks.setdefault(session_id, anyio.Lock())


class _Change(Follower):
    """The follower of a request that opens or ends a session. `over` is called when the request has ended."""

    __slots__ = ("_call", "_over", "opened", "request")

    def __init__(self, call: LiveCall, request: Any, over: Callable[[], None] = lambda: None) -> None:
        self._call = call
        self._over = over
        self.request = request
        self.opened: list[LiveSession] = []
        """The sessions that the request opened."""

    def answered(self) -> None:
        """See `Follower`. The client knows the sessions now, and may send prompts."""
        for session in self.opened:
            _let_out(session)

    def left(self) -> None:
        """See `Follower`."""
        self._over()


def _let_out(session: LiveSession) -> None:
    """Send the held updates of a session that the client now knows, and accept prompts."""
    session.call = None
    if session.move(SessionEvent.ANSWERED):
        session.updates.open()
        if not is_ready():
            session.client.connection.background(load_for_prompts)


def _named(by: LiveCall | Peer, request: Setup) -> dict[str, Any]:
    """The setup of a session in its wire form, from the client's request or from the author's code."""
    if isinstance(by, LiveCall) and by.method in _OPENING:
        return by.params
    assert isinstance(request, PlainSetup)
    return request.named()


def _spelled(record: SessionRecord, cwd: str) -> SessionRecord:
    """Return the record with the client's spelling of its folder. `record.cwd` is the canonical path of the folder."""
    record.spelled = None if record.cwd == cwd else cwd
    return record


def _new_id() -> str:
    return f"sess_{os.urandom(12).hex()}"


def _connection_of(by: LiveCall | Peer) -> Peer:
    return by.connection if isinstance(by, LiveCall) else by


async def close_all(sessions: dict[str, LiveSession]) -> None:
    """Save the unsaved sessions and release all of them, at the end of the connection."""
    async with anyio.create_task_group() as group:
        for session in sessions.values():
            group.start_soon(_let_go, session)
    sessions.clear()


async def _let_go(session: LiveSession) -> None:
    if session.unsaved:
        try:
            await _save(session)
        except Exception as error:
            log_unsaved(session, error)
    await session.close()


async def _save(session: LiveSession) -> None:
    try:
        await session.save()
    except ResourceNotFound:
        pass  # deleted, so there is nothing to save


def _read_new(call: LiveCall) -> NewSessionRequest:
    from acp_server.schema.session import NewSessionRequest

    return read(NewSessionRequest, call.params)

"""An agent at the other end of a connection: everything that a client can ask of it, and the sessions it has.

How the connection came about is in `acp_server.client.connect`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from pydantic import ValidationError

from acp_server.client.errors import UnsupportedVersion
from acp_server.client.handlers import Handlers
from acp_server.client.permission import Permissions
from acp_server.client.routes import client_routes
from acp_server.client.session import OnUpdate, RemoteSession
from acp_server.client.strays import Strays
from acp_server.errors import CapabilityMissing, ConnectionClosed, MalformedResponse, UsageError
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.outbound import OnLate
from acp_server.peer.stream import Stream
from acp_server.schema import (
    PROTOCOL_VERSION,
    AgentCapabilities,
    AuthenticateRequest,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    DeleteSessionRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LogoutRequest,
    McpServer,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
)
from acp_server.schema.methods import MEMBER_CAPABILITIES, METHODS, is_announced
from acp_server.tasks.spawn import Spawner

logger = logging.getLogger("acp_server.client")

INITIALIZE_SECONDS: Final = 60.0
"""How long an agent may take to answer `initialize`, downloads at its first start included."""

Explain = Callable[[ConnectionClosed], Awaitable[ConnectionClosed]]
"""From the loss of a connection to a more telling error."""


class RemoteAgent:
    """An agent. Made by `spawn_agent` and `connect_agent`.

    Its methods raise RpcError for an error answer, ConnectionClosed if the agent is gone (AgentExited for a process),
    MalformedResponse for an answer that cannot be read, CapabilityMissing for what the agent has not announced.
    """

    def __init__(
        self, stream: Stream, handlers: Handlers, limits: Limits | None = None, explain: Explain | None = None
    ) -> None:
        self.handlers = handlers
        self.sessions: dict[str, RemoteSession] = {}
        """The sessions that were opened here and not closed, by id."""
        self.info: InitializeResponse | None = None
        """What the agent said of itself; None before `initialize`."""
        self._permissions = Permissions(handlers.permission, self._is_cancelling)
        self._strays = Strays(self.sessions)
        routes = client_routes(handlers, self._permissions, self._strays.receive)
        self.connection = Connection(stream, routes, limits)
        if handlers.terminals is not None:
            self.connection.on_close(handlers.terminals.aclose)
        self._explain = explain
        self._house = Spawner(self._crashed)
        self._failure: BaseException | None = None

    # -- the connection

    async def initialize(
        self,
        *,
        client_info: Implementation | None = None,
        capabilities: ClientCapabilities | None = None,
        timeout: float | None = INITIALIZE_SECONDS,
        meta: dict[str, Any] | None = None,
    ) -> InitializeResponse:
        """Agree on the version and tell each other what one can do (ACP, Initialization).

        The capabilities follow from the handlers; `capabilities` adds those that have none, such as `session`. Raises
        UnsupportedVersion if the agent does not speak version 1, and RequestTimeout after `timeout` seconds.
        """
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self.handlers.capabilities(capabilities),
            client_info=client_info,
            meta=meta,
        )
        info: InitializeResponse = await self.call("initialize", request, timeout=timeout)
        if info.protocol_version != PROTOCOL_VERSION:
            raise UnsupportedVersion(info.protocol_version, PROTOCOL_VERSION)
        self.info = info
        return info

    @property
    def capabilities(self) -> AgentCapabilities | None:
        """What the agent can do; None before `initialize`."""
        return None if self.info is None else self.info.agent_capabilities

    async def authenticate(self, method_id: str) -> None:
        """Authenticate by one of the methods in `info.auth_methods` (ACP, Authentication)."""
        await self.call("authenticate", AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        """Make the agent forget who the user is."""
        await self.call("logout", LogoutRequest())

    # -- sessions

    async def new_session(
        self,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Open a session in the folder `cwd` (ACP, Session Setup)."""
        folder = _absolute(cwd)
        request = NewSessionRequest(
            cwd=folder, **self._setup("session/new", mcp_servers, additional_directories), meta=meta
        )
        with self._strays.expecting():
            response: NewSessionResponse = await self.call("session/new", request)
            session = self._open(RemoteSession(self, response.session_id, folder, on_update))
            session.opened(response)
            await self._strays.claim(session)
        return session

    async def load_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Take up a session again; `on_update` gets its history before this returns (ACP, Session Setup)."""
        return await self._take_up(
            "session/load",
            LoadSessionRequest(
                session_id=session_id,
                cwd=_absolute(cwd),
                **self._setup("session/load", mcp_servers, additional_directories),
                meta=meta,
            ),
            on_update,
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Take up a session again without its history (ACP, Session Setup)."""
        return await self._take_up(
            "session/resume",
            ResumeSessionRequest(
                session_id=session_id,
                cwd=_absolute(cwd),
                **self._setup("session/resume", mcp_servers, additional_directories),
                meta=meta,
            ),
            on_update,
        )

    async def list_sessions(
        self, cwd: str | os.PathLike[str] | None = None, cursor: str | None = None
    ) -> ListSessionsResponse:
        """One page of the sessions that the agent knows, of all folders or of one (ACP, Session List)."""
        folder = None if cwd is None else _absolute(cwd)
        return await self.call("session/list", ListSessionsRequest(cwd=folder, cursor=cursor))

    async def close_session(self, session_id: str) -> None:
        """Make the agent cancel what the session does and free what it holds (ACP, Session Setup)."""
        await self.call("session/close", CloseSessionRequest(session_id=session_id))
        self.sessions.pop(session_id, None)

    async def delete_session(self, session_id: str) -> None:
        """Make the agent remove the session from its list (ACP, Session Delete)."""
        await self.call("session/delete", DeleteSessionRequest(session_id=session_id))
        self.sessions.pop(session_id, None)

    # -- anything else

    async def request(
        self, method: str, params: Any = None, *, timeout: float | None = None, on_late: OnLate | None = None
    ) -> Any:
        """Send any request: the result as it came, parsed. See `Connection.request`; raises AgentExited as well."""
        try:
            return await self.connection.request(method, params, timeout=timeout, on_late=on_late)
        except ConnectionClosed as error:
            if self._explain is None:
                raise
            raise await self._explain(error) from self._failure

    def notify(self, method: str, params: Any = None) -> None:
        """Send any notification; never waits. Raises ConnectionClosed."""
        self.connection.notify(method, params)

    async def call(
        self, method: str, params: Any, *, timeout: float | None = None, on_late: OnLate | None = None
    ) -> Any:
        """Send a request of the protocol, given as a model: its result as a model."""
        known = METHODS[method]
        if not is_announced(known.capability, agent=self.capabilities, client=None):
            raise CapabilityMissing(method, str(known.capability))
        result = await self.request(method, params, timeout=timeout, on_late=on_late)
        try:
            return known.read_result(result)
        except ValidationError as error:
            from acp_server.schema.problems import explain

            what = "; ".join(f"{problem['path']}: {problem['message']}" for problem in explain(error))
            raise MalformedResponse(method, what) from None

    # -- for its sessions and those who made it

    def start(self) -> None:
        """Begin to read."""
        self._house.spawn(self._run)

    async def aclose(self) -> None:
        """Close the connection: what runs for the agent is cut, what waits for it fails. Bounded; idempotent."""
        self.connection.close()
        await self.connection.wait_closed()
        await self._house.wait_idle()
        if self._failure is not None and not isinstance(self._failure, Exception):
            raise self._failure

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a task that ends with the connection."""
        self._house.spawn(function, *args)

    def send_cancel(self, session_id: str) -> None:
        """Cancel the turn of a session, and answer its open permission requests `cancelled`."""
        try:
            self.notify("session/cancel", CancelNotification(session_id=session_id))
        except ConnectionClosed:
            return
        self._permissions.cancel(session_id)

    def _is_cancelling(self, session_id: str) -> bool:
        session = self.sessions.get(session_id)
        turn = None if session is None else session.turn
        return turn is not None and turn.cancelled

    def _setup(
        self, method: str, mcp_servers: Sequence[McpServer], directories: Sequence[str | os.PathLike[str]]
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {"mcp_servers": list(mcp_servers)}
        needed = [MEMBER_CAPABILITIES["McpServer"].get(server.type or "stdio") for server in mcp_servers]
        if directories:
            fields["additional_directories"] = [_absolute(directory) for directory in directories]
            needed.append("agentCapabilities.sessionCapabilities.additionalDirectories")
        for capability in needed:
            if not is_announced(capability, agent=self.capabilities, client=None):
                raise CapabilityMissing(method, str(capability))
        return fields

    async def _take_up(
        self, method: str, request: LoadSessionRequest | ResumeSessionRequest, on_update: OnUpdate | None
    ) -> RemoteSession:
        session = RemoteSession(self, request.session_id, request.cwd, on_update)
        before = self.sessions.get(session.id)
        self._open(session)
        try:
            session.opened(await self.call(method, request))
        except BaseException:
            self.sessions.pop(session.id, None)
            if before is not None:
                self.sessions[session.id] = before
            raise
        return session

    def _open(self, session: RemoteSession) -> RemoteSession:
        self.sessions[session.id] = session
        return session

    async def _run(self) -> None:
        try:
            await self.connection.run()
        except BaseException as error:
            self._failure = error
            if isinstance(error, Exception):
                logger.info("the connection to the agent broke: %r", error)
        finally:
            for session in self.sessions.values():
                session.lost()

    def _crashed(self, error: BaseException) -> None:
        logger.error("an internal task failed", exc_info=error)
        self.connection.fail(error)


def _absolute(path: str | os.PathLike[str]) -> str:
    path = os.fspath(path)
    if not os.path.isabs(path):
        raise UsageError(f"the protocol wants absolute paths, and {path!r} is none")
    return path

"""An agent at the other end of a connection. It has a method for every request that a client can send, and it holds the
sessions.

`acp_server.client` makes the connection.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from acp_server.client.handlers import Handlers
from acp_server.client.link import Link, lost_update
from acp_server.client.routes import Questions, client_routes
from acp_server.client.session import LiveSession, OnUpdate, RemoteSession, absolute
from acp_server.client.source import Source
from acp_server.client.subagents import Subagents
from acp_server.client.turn import CANCEL_SECONDS
from acp_server.client.update_router import UpdateRouter
from acp_server.client.versions import Side, beyond_1
from acp_server.errors import (
    AcpError,
    CapabilityMissing,
    ConnectionClosed,
    MalformedResponse,
    RpcError,
    SessionTaken,
    UnsupportedVersion,
    UsageError,
)
from acp_server.peer.limits import Limits
from acp_server.peer.outbound import OnResult
from acp_server.peer.stream import Stream
from acp_server.processes.child import ChildProcess
from acp_server.schema import (
    PROTOCOL_VERSION,
    ArchiveSessionRequest,
    AuthenticateRequest,
    AuthenticateResponse,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    ForkSessionRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    InitialSessionConfigOption,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LogoutRequest,
    LogoutResponse,
    McpServer,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionOptionsRequest,
    SessionOptionsResponse,
    SessionStatusRequest,
    SessionStatusResponse,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
    SystemPrompt,
    UnarchiveSessionRequest,
)
from acp_server.schema.methods import MEMBER_CAPABILITIES, METHODS
from acp_server.schema.reading import read_result

if TYPE_CHECKING:
    from acp_server.client.dialect import Dialect

logger: logging.Logger = logging.getLogger("acp_server.client")

INITIALIZE_SECONDS: Final = 60.0
"""Seconds that an agent may take to answer `initialize`, including downloads at its first start."""

CLOSE_SECONDS: Final = 60.0
"""Seconds that an agent may take to close an unwanted session. After that the request is withdrawn."""

_CLOSE: Final = METHODS["session/close"].capability

_TAKES_PROMPTS: Final = "agentCapabilities.sessionCapabilities.systemPrompt"
_SYSTEM_PROMPT: Final = (_TAKES_PROMPTS, f"{_TAKES_PROMPTS}.mode.override")
"""The capability for a system prompt that is appended to the agent's prompt, and the capability for a system prompt
that replaces the agent's."""


class _NotStarted:
    """Takes the place of the connection before `start`."""

    async def aclose(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        raise UsageError("start the agent first: `async with spawn_agent(...) as agent`, or `await agent.start()`")


class RemoteAgent:
    """An agent, as `spawn_agent` and `connect_agent` return it.

    The methods raise RpcError for an error response, ConnectionClosed if the agent is gone (AgentExited for a process),
    MalformedResponse for an invalid result, and CapabilityMissing for a feature that the agent has not announced.
    Methods that open a session raise SessionTaken if the session's id belongs to another open session.

    `info` is the agent's response to `initialize`, `process` is its process, and `sessions` holds its sessions that are
    open here.
    """

    info: InitializeResponse | None
    """The agent's response to `initialize`; None before that response."""
    sessions: dict[str, RemoteSession]
    """The sessions that were opened here and not closed, by id."""

    cancel_timeout: float | None
    """Seconds that the agent may take to answer a cancelled prompt before the prompt is withdrawn; None for no limit. A
    new value applies to later cancels."""

    def __init__(
        self,
        source: Source,
        handlers: Handlers,
        limits: Limits | None = None,
        cancel_timeout: float | None = CANCEL_SECONDS,
    ) -> None:
        self.handlers = handlers
        self.cancel_timeout = cancel_timeout
        self._source = source
        self._live: dict[str, LiveSession] = {}
        self.sessions = cast("dict[str, RemoteSession]", self._live)
        self.info = None
        self._limits = limits
        self._questions = Questions(
            handlers.permission, lambda id: self._is_cancelling(id) or self._router.has_ended(id)
        )
        self.subagents: Subagents = Subagents(self._live, self._send_cancel)
        """The child sessions of all sessions."""
        self._router = UpdateRouter(self._live, self.subagents)
        self._routes = client_routes(handlers, self._questions, self._router.receive)
        self._routes.dropped = self._router.miss_notification
        self.link = cast("Link", _NotStarted())
        """The connection to the agent."""
        self._is_used = self._is_closed = False

    # -- its life

    async def start(self) -> None:
        """Start the agent's process, or begin to use its stream. Call `aclose` later, in any task. An `async with`
        block calls both.

        Raises OSError if the process cannot be started, and UsageError if it was started before.
        """
        if self._is_used:
            raise UsageError("an agent can be started only once; call spawn_agent or connect_agent again")
        self._is_used = True
        stream = await self._source.start()
        if self._is_closed:
            await self._source.aclose()
            raise ConnectionClosed
        self.link = self._linked(stream)
        self.link.start()

    async def aclose(self) -> None:
        """Close the connection, and then end the agent's process if it was started here. Pending requests fail with
        ConnectionClosed. A cancel does not interrupt this. Idempotent. Has no effect on an agent that was not
        started."""
        self._is_used = self._is_closed = True
        try:
            await self.link.aclose()
        finally:
            await self._source.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def process(self) -> ChildProcess | None:
        """The agent's process; None if the agent was not started here."""
        return self._source.process

    # -- the connection

    async def initialize(
        self,
        *,
        client_info: Implementation | None = None,
        capabilities: ClientCapabilities | None = None,
        timeout: float | None = INITIALIZE_SECONDS,
        meta: dict[str, Any] | None = None,
        version: int = 1,
    ) -> InitializeResponse:
        """Negotiate the version and exchange capabilities (ACP, Initialization).

        `client_info`: your program's name and version; by default the name and version of this package. Most
        capabilities follow from the handlers. `capabilities` adds capabilities without a handler, such as `session`.
        Raises UnsupportedVersion if the agent supports no version up to `version`, and RequestTimeout after `timeout`
        seconds without a response.

        `version=2` requests version 2 of the protocol, which is a draft. If the agent does not support it, version 1 is
        used: on the same connection, or after restarting the agent if it has exited. The result has the form of version
        1 in any case; `protocol_version` in it is the negotiated version. With version 2, the agent cannot use the
        client's files and terminals.
        """
        if client_info is None:
            from importlib.metadata import version as version_of

            client_info = Implementation(name="acp_server", version=version_of("acp_server"))
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self.handlers.capabilities(capabilities),
            client_info=client_info,
            meta=meta,
        )
        info = None
        if (asked := beyond_1(version)) is not None:
            info = await asked.ask(self._side(), request, timeout)
        if info is None:
            info = await self.link.call("initialize", request, timeout=timeout)
        if info.protocol_version not in (PROTOCOL_VERSION, version):
            raise UnsupportedVersion(info.protocol_version, version)
        self.info = info
        self.link.capabilities = info.agent_capabilities
        return info

    async def authenticate(self, method_id: str, *, meta: dict[str, Any] | None = None) -> AuthenticateResponse:
        """Authenticate by one of the methods in `info.auth_methods` (ACP, Authentication)."""
        return await self.link.call("authenticate", AuthenticateRequest(method_id=method_id, meta=meta))

    async def logout(self, *, meta: dict[str, Any] | None = None) -> LogoutResponse:
        """Make the agent forget the user's login."""
        return await self.link.call("logout", LogoutRequest(meta=meta))

    # -- sessions

    async def new_session(
        self,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        system_prompt: SystemPrompt | None = None,
        config: Mapping[str, str | bool] | None = None,
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Open a session in the folder `cwd` (ACP, Session Setup). The methods that load, resume or fork a session have
        these parameters, too:

        - `system_prompt`: your instructions, if the agent announces system prompts;
        - `config`: the initial values of config options, by their ids, if the agent announces `options` (unstable). The
          agent ignores a value that it does not offer; `RemoteSession.config_options` has the outcome.
        """
        folder = absolute(cwd)
        setup = self._setup("session/new", mcp_servers, additional_directories, system_prompt, config)
        request = NewSessionRequest(cwd=folder, **setup, meta=meta)
        with self._router.expecting():
            response: NewSessionResponse = await self.link.call("session/new", request, on_late=self._close_unwanted)
            session = LiveSession(self, response.session_id, folder, on_update, self._send_cancel)
            session.opened(response)
            await self._router.open(session)
        return session

    async def load_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        system_prompt: SystemPrompt | None = None,
        config: Mapping[str, str | bool] | None = None,
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Open a stored session with its history (ACP, Session Setup). `on_update` gets the history before this call
        returns."""
        setup = self._setup("session/load", mcp_servers, additional_directories, system_prompt, config)
        request = LoadSessionRequest(session_id=session_id, cwd=absolute(cwd), **setup, meta=meta)
        return await self._take_up("session/load", request, on_update)

    async def resume_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        system_prompt: SystemPrompt | None = None,
        config: Mapping[str, str | bool] | None = None,
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Open a stored session without its history (ACP, Session Setup)."""
        setup = self._setup("session/resume", mcp_servers, additional_directories, system_prompt, config)
        request = ResumeSessionRequest(session_id=session_id, cwd=absolute(cwd), **setup, meta=meta)
        return await self._take_up("session/resume", request, on_update)

    async def fork_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str],
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        system_prompt: SystemPrompt | None = None,
        config: Mapping[str, str | bool] | None = None,
        on_update: OnUpdate | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RemoteSession:
        """Open a session that begins with a copy of another session's conversation. The other session does not change
        (unstable: session fork)."""
        setup = self._setup("session/fork", mcp_servers, additional_directories, system_prompt, config)
        self.link.need("session/fork", METHODS["session/fork"].capability)
        request = ForkSessionRequest(session_id=session_id, cwd=absolute(cwd), **setup, meta=meta)
        return await self.open_session("session/fork", request.to_wire(), on_update=on_update)

    async def open_session(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        cwd: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        on_update: OnUpdate | None = None,
    ) -> RemoteSession:
        """Send a request whose result opens a session: a draft of the protocol such as `session/fork`, an extension, or
        `session/new` with members that this package does not know.

        `params` are sent unchanged, and `RemoteSession.response` has the result as received. The session's id is
        `sessionId` in the result. If the request replays the history of a known session, pass its id as `session_id`.
        `cwd` is the session's folder, by default `params["cwd"]`. Raises MalformedResponse for a result that opens no
        session.
        """
        folder = os.fspath(cwd) if cwd is not None else str(params.get("cwd", ""))

        async def ask() -> tuple[Any, str | None]:
            answer: Any = await self.link.open(method, dict(params), self._close_unwanted)
            named = cast("dict[str, Any]", answer).get("sessionId") if isinstance(answer, dict) else None
            return cast("Any", answer), named if isinstance(named, str) else None

        if session_id is not None:
            session = LiveSession(self, session_id, folder, on_update, self._send_cancel)
            with self._router.arriving(session):
                answer, named = await ask()
                if named not in (None, session_id):
                    raise MalformedResponse(method, "sessionId: is that of another session")
                self._router.arrived(session)
            session.opened(read_result(ResumeSessionResponse, method, answer))
            return session
        with self._router.expecting():
            answer, named = await ask()
            response: NewSessionResponse = read_result(NewSessionResponse, method, answer)
            session = LiveSession(self, response.session_id, folder, on_update, self._send_cancel)
            session.opened(response)
            await self._router.open(session)
        return session

    async def list_sessions(
        self,
        cwd: str | os.PathLike[str] | None = None,
        cursor: str | None = None,
        *,
        archived: Literal["exclude", "include", "only"] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ListSessionsResponse:
        """Return one page of the list of sessions, of all folders or of one folder (ACP, Session List). Use `archived`
        only if the agent announces `archive` (unstable)."""
        folder = None if cwd is None else absolute(cwd)
        if archived is not None:
            self.link.need("session/list", METHODS["session/archive"].capability)
        request = ListSessionsRequest(cwd=folder, cursor=cursor, archived=archived, meta=meta)
        return await self.link.call("session/list", request)

    async def set_title(self, session_id: str, title: str) -> str:
        """Set the title of a session in the agent's list. Returns the title that the agent has stored (unstable:
        session title)."""
        request = SetSessionTitleRequest(session_id=session_id, title=title)
        response: SetSessionTitleResponse = await self.link.call("session/set_title", request)
        return response.title

    async def archive_session(self, session_id: str) -> None:
        """Archive a session. If it is open, it is closed as by `close_session` (unstable: session archive)."""
        if (session := self.sessions.get(session_id)) is not None:
            session.cancel()
        await self._end("session/archive", ArchiveSessionRequest(session_id=session_id))

    async def unarchive_session(self, session_id: str) -> None:
        """Move an archived session back into the list (unstable: session archive)."""
        await self.link.call("session/unarchive", UnarchiveSessionRequest(session_id=session_id))

    async def session_status(self, session_id: str) -> str:
        """Return `open` if any client of the agent has the session open, else `saved` (unstable: session status)."""
        response: SessionStatusResponse = await self.link.call(
            "session/status", SessionStatusRequest(session_id=session_id)
        )
        return response.status

    async def session_options(
        self,
        cwd: str | os.PathLike[str],
        session_id: str | None = None,
        *,
        additional_directories: Sequence[str | os.PathLike[str]] = (),
    ) -> SessionOptionsResponse:
        """Return the modes and config options of a session before it is opened. It is a new session in the folder
        `cwd`, or a stored session (unstable: session options)."""
        request = SessionOptionsRequest(
            cwd=absolute(cwd),
            additional_directories=[absolute(directory) for directory in additional_directories],
            session_id=session_id,
        )
        return await self.link.call("session/options", request)

    async def close_session(self, session_id: str, *, meta: dict[str, Any] | None = None) -> CloseSessionResponse:
        """Make the agent cancel the session's work and release its resources (ACP, Session Setup)."""
        if (session := self.sessions.get(session_id)) is not None:
            session.cancel()
        return await self._end("session/close", CloseSessionRequest(session_id=session_id, meta=meta))

    async def delete_session(self, session_id: str, *, meta: dict[str, Any] | None = None) -> DeleteSessionResponse:
        """Make the agent delete the session from its list (ACP, Session Delete)."""
        return await self._end("session/delete", DeleteSessionRequest(session_id=session_id, meta=meta))

    def knows(self, session_id: str) -> bool:
        """Whether a session with this id is open here, or is being loaded or resumed."""
        return self._router.knows(session_id)

    # -- anything else

    async def request(
        self, method: str, params: Any = None, *, timeout: float | None = None, on_late: OnResult | None = None
    ) -> Any:
        """Send any request. Returns the parsed result as received. For the parameters see `Connection.request`. Also
        raises AgentExited."""
        return await self.link.request(method, params, timeout=timeout, on_late=on_late)

    def notify(self, method: str, params: Any = None) -> None:
        """Send any notification. Never waits. Raises ConnectionClosed."""
        self.link.connection.notify(method, params)

    async def _start_over(self) -> None:
        await self.link.aclose()
        self.link: Link = self._linked(await self._source.start())
        self.link.start()

    def _side(self) -> Side:
        return Side(
            link=self.link,
            routes=self._routes,
            sessions=self._live,
            is_cancelling=self._is_cancelling,
            receive=partial(self._router.receive, self.link.connection),
            speak=self._speak,
            start_over=self._start_over if self._source.can_start_anew else None,
        )

    def _speak(self, dialect: Dialect) -> None:
        self.link.dialect = dialect
        self._router.translate = dialect.updates
        self._questions.translate = dialect.question

    def _linked(self, stream: Stream) -> Link:
        link = Link(stream, self._routes, self._limits, self._source.explain, self._lost, self._dropped)
        if self.handlers.terminals is not None:
            link.connection.on_close(self.handlers.terminals.aclose)
        return link

    def _send_cancel(self, session_id: str) -> None:
        try:
            self.notify("session/cancel", CancelNotification(session_id=session_id))
        except ConnectionClosed:
            return
        for id in (session_id, *self.subagents.below(session_id)):
            self._questions.cancel(id)

    def _lost(self) -> None:
        if self.link.dialect is not None:
            self.link.dialect.lost()
        for session in self._live.values():
            session.lost()

    def _dropped(self, head: bytes) -> None:
        self._router.miss(f"a line of more than {self.link.connection.limits.line} bytes", *lost_update(head))

    def _is_cancelling(self, session_id: str) -> bool:
        session = self.sessions.get(self.subagents.root_of(session_id))
        turn = None if session is None else session.turn
        return turn is not None and turn.cancelled

    def _setup(
        self,
        method: str,
        mcp_servers: Sequence[McpServer],
        directories: Sequence[str | os.PathLike[str]],
        system_prompt: SystemPrompt | None,
        config: Mapping[str, str | bool] | None,
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {"mcp_servers": list(mcp_servers)}
        needed = [MEMBER_CAPABILITIES["McpServer"].get(server.type or "stdio") for server in mcp_servers]
        if isinstance(directories, (str, os.PathLike)):
            raise UsageError(f"additional_directories must be a list, as in [{os.fspath(directories)!r}], not one path")
        if directories:
            fields["additional_directories"] = [absolute(directory) for directory in directories]
            needed.append("agentCapabilities.sessionCapabilities.additionalDirectories")
        if system_prompt is not None:
            fields["system_prompt"] = system_prompt
            needed.append(_SYSTEM_PROMPT[system_prompt.mode == "override"])
        if config:
            fields["config_options"] = [
                InitialSessionConfigOption(
                    config_id=id, type="boolean" if isinstance(value, bool) else None, value=value
                )
                for id, value in config.items()
            ]
            needed.append(METHODS["session/options"].capability)
        for capability in needed:
            self.link.need(method, capability)
        return fields

    async def _take_up(
        self, method: str, request: LoadSessionRequest | ResumeSessionRequest, on_update: OnUpdate | None
    ) -> RemoteSession:
        session = LiveSession(self, request.session_id, request.cwd, on_update, self._send_cancel)
        with self._router.arriving(session):
            response = await self.link.call(method, request)
            self._router.arrived(session)
        session.opened(response)
        return session

    async def _end(
        self, method: str, request: ArchiveSessionRequest | CloseSessionRequest | DeleteSessionRequest
    ) -> Any:
        session = self._live.get(request.session_id)
        if session is None:
            return await self.link.call(method, request)
        session.ending = True
        try:
            response = await self.link.call(method, request)
        except (RpcError, CapabilityMissing):
            session.ending = False
            raise
        self._router.end(session)
        # Later updates of the agent in it are not read, so its turn must not look complete.
        session.miss("the end of the session")
        return response

    def _close_unwanted(self, response: Any) -> None:
        """Close a session that was opened for a caller that no longer waits. `response`: the result that opened it."""
        session_id = cast("dict[str, Any]", response).get("sessionId") if isinstance(response, dict) else None
        if not isinstance(session_id, str):
            return
        try:
            self._router.give(session_id)
        except SessionTaken as error:
            logger.warning("a session whose opening was cancelled stays open: %s", error)
            return
        if self.link.announced(_CLOSE):
            self.link.spawn(self._close_quietly, session_id)

    async def _close_quietly(self, session_id: str) -> None:
        try:
            await self.request("session/close", {"sessionId": session_id}, timeout=CLOSE_SECONDS)
        except AcpError as error:
            logger.info("a session whose opening was cancelled could not be closed: %s", error)

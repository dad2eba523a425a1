"""The agent's side of one connection: the table of the protocol's methods and their handlers.

This module connects negotiation, lifecycle, choosing and prompting to the routes that `acp_server.peer` serves. The
modules of sessions are imported by the first method that needs them, after `initialize` is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from acp_server.errors import InvalidRequest
from acp_server.peer.call import LiveCall, Notice, Route, Routes, serve_follower
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.peer.peer import Peer
from acp_server.peer.stream import Stream
from acp_server.session.definition import CATALOGUE, ENDING, NO_PROMPT_HANDLER, URGENT, AgentDefinition
from acp_server.session.negotiation import PROTOCOL_VERSION, ClientProfile, Negotiation, initialize
from acp_server.session.state import UNEXPLAINED, check_not_child, not_found
from acp_server.session.versions import Side, newest, uninitialized
from acp_server.tasks.cause import Cause

if TYPE_CHECKING:
    from acp_server.session.choosing import Choosing
    from acp_server.session.lifecycle import Lifecycle
    from acp_server.session.live_session import LiveSession
    from acp_server.session.prompting import Prompting


class AgentSide:
    """The methods and open sessions of one agent on the connection of one client."""

    def __init__(self, definition: AgentDefinition) -> None:
        self._definition = definition
        self._profile = ClientProfile()
        self._negotiation = Negotiation(definition, self._profile, self._speak_newest)
        self._sessions: dict[str, LiveSession] = {}
        self._routes = self.routes()

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Opens and ends sessions, in the protocol version of the connection."""
        from acp_server.session.lifecycle import Lifecycle

        return Lifecycle(self._definition, self._profile, self._sessions)

    @cached_property
    def _choosing(self) -> Choosing:
        from acp_server.session.choosing import Choosing

        return Choosing(self._definition, self.find)

    @cached_property
    def _prompting(self) -> Prompting:
        from acp_server.session.prompting import Prompting

        return Prompting(self._definition, self._sessions)

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """The connection over `stream`, ready to `run`."""
        connection = Connection(stream, self._routes, limits, self._definition.observers)
        connection.on_close(self._close)
        return connection

    def interrupt(self) -> bool:
        """Cancel all turns, with the cause INTERRUPT. Returns False if no turn was cancelled."""
        cancelled = [session.cancel(Cause.INTERRUPT) for session in list(self._sessions.values())]
        return any(cancelled)

    def find(self, session_id: str) -> LiveSession:
        """Return the open session with this id. Raises ResourceNotFound, and InvalidParams for a child session."""
        session = self._sessions.get(session_id)
        if session is None or session.parent is not None:
            check_not_child(session_id, self._sessions)
            raise not_found(session_id)
        return session

    def has(self, session_id: str) -> bool:
        """Whether a session is open on this connection."""
        return session_id in self._sessions

    def routes(self) -> Routes:
        """Return the methods that the client can call. A method without a handler in the agent is left out."""
        definition = self._definition
        if PROTOCOL_VERSION not in definition.versions:
            first = Route(initialize, register=self._speak_newest, direct=True)
            return Routes({"initialize": first}, missing=uninitialized, unexplained=UNEXPLAINED)
        routes = Routes(unexplained=UNEXPLAINED)
        requests = routes.requests
        requests["initialize"] = Route(initialize, register=self._negotiation.register, direct=True)
        if definition.prompt is not None:
            for name in ("new", "load", "resume", "list", "close", "delete"):
                if name == "new" or name in definition.sessions:
                    requests[f"session/{name}"] = self._session_route(name)
            for name in definition.session_methods:
                requests[f"session/{name}"] = self._session_route(name)
            requests["session/prompt"] = Route(serve_follower, register=self._first_prompt, direct=True)
            routes.on_notice("session/cancel", Notice(self._cancel, inline=True))
            if definition.steer is not None:
                requests["_session/steering"] = Route(lambda call: self._prompting.steer(call), direct=True)
        else:
            requests.update(NO_PROMPT_HANDLER)
        # A session handler may offer modes and options in its session alone, so none need be known here.
        own = bool(definition.auto_approve or definition.open_session)
        if own or definition.modes or definition.set_mode is not None:
            requests["session/set_mode"] = Route(lambda call: self._choosing.set_mode(call), direct=True)
        if own or definition.modes or definition.config_options or definition.set_config_option is not None:
            requests["session/set_config_option"] = Route(
                lambda call: self._choosing.set_config_option(call), direct=True
            )
            # Clients from before June 2026 set a model so, although no answer has told them of models in that form.
            requests["session/set_model"] = Route(lambda call: self._choosing.set_model(call), direct=True)
        if definition.authenticate:
            requests["authenticate"] = Route(lambda call: self.lifecycle.login.authenticate(call), direct=True)
        if definition.logout is not None:
            requests["logout"] = Route(lambda call: self.lifecycle.login.logout(call), urgent=True, direct=True)
        self._refuse_children(routes)
        requests.update(definition.methods)
        for method, notice in definition.notifications:
            routes.on_notice(method, notice)
        return routes

    def _refuse_children(self, routes: Routes) -> None:
        """Make the protocol's requests refuse the id of a child session. `session/prompt` checks the id itself, after
        it has found no session for the prompt."""

        def refusing(route: Route) -> Route:
            def register(call: LiveCall) -> None:
                check_not_child(call.params.get("sessionId"), self._sessions)
                if route.register is not None:
                    route.register(call)

            return replace(route, register=register)

        for name, route in routes.requests.items():
            if name not in ("initialize", "session/prompt") and name not in self._definition.methods:
                routes.requests[name] = refusing(route)

    def _session_route(self, name: str) -> Route:
        def register(call: LiveCall) -> None:
            self.lifecycle.register(name, call)

        def handler(call: LiveCall) -> Awaitable[Any]:
            owner = self.lifecycle.catalogue if name in CATALOGUE else self.lifecycle
            method: Callable[[LiveCall], Awaitable[Any]] = getattr(owner, name)
            return method(call)

        return Route(handler, register if name in ENDING else None, urgent=name in URGENT, direct=True)

    def _first_prompt(self, call: LiveCall) -> None:
        """Register the first prompt, which imports its modules. The route of later prompts leads straight there."""
        register = self._prompting.register
        self._routes.requests[call.method] = Route(serve_follower, register=register, direct=True)
        register(call)

    def _cancel(self, _connection: Peer, params: Any) -> None:
        """Handle `session/cancel`, which cancels the turns of a session. Without such a session or without turns it has
        no effect."""
        session_id = cast("dict[str, Any]", params).get("sessionId") if isinstance(params, dict) else None
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is not None:
            session.cancel(Cause.SESSION)

    def _speak_newest(self, call: LiveCall) -> None:
        """Negotiate a version other than 1, which may not exist. Raises InvalidRequest while sessions are open."""
        if self._sessions:
            raise InvalidRequest("The protocol version of a connection cannot change")
        definition, cancel = self._definition, Notice(self._cancel, inline=True)
        side = Side(definition, self._profile, self._sessions, self.find, self._routes, cancel, self._refuse_children)
        self.lifecycle = newest(definition.versions).speak(call, side)

    async def _close(self) -> None:
        if self._sessions:
            from acp_server.session.lifecycle import close_all

            await close_all(self._sessions)

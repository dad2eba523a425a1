"""The agent's side of one connection: which of the protocol's methods it has, and what answers them.

It joins negotiation, lifecycle and prompting into the routes that `acp_server.peer` serves; it decides nothing itself.
"""

from __future__ import annotations

from typing import Any

from acp_server.peer.connection import Connection, Limits
from acp_server.peer.context import Call
from acp_server.peer.route import Notice, Route, Routes
from acp_server.peer.stream import Stream
from acp_server.session.client import ClientProfile
from acp_server.session.hooks import Hooks
from acp_server.session.lifecycle import Lifecycle
from acp_server.session.negotiation import Negotiation
from acp_server.session.params import problem, read
from acp_server.session.prompting import Prompting
from acp_server.session.session import Session
from acp_server.tasks.cause import Cause


class Service:
    """One client, served by one agent."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.profile = ClientProfile()
        self._lifecycle = Lifecycle(hooks, self.profile)
        self._prompting = Prompting(hooks, self._lifecycle.sessions)
        self._negotiation = Negotiation(hooks, self.profile)

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """The connection over `stream`, ready to `run`."""
        connection = Connection(stream, self.routes(), limits)
        connection.on_close(self._lifecycle.close_all)
        return connection

    def interrupt(self) -> bool:
        """Cut all turns, as the user's interrupt at a terminal asks for. False if none ran."""
        cut = [session.cancel(Cause.INTERRUPT) for session in list(self._lifecycle.sessions.values())]
        return any(cut)

    def find(self, session_id: str) -> Session:
        """The open session with this id. Raises ResourceNotFound."""
        return self._lifecycle.find(session_id)

    def routes(self) -> Routes:
        """What the client can ask and tell. A method that the agent has nothing for is not there."""
        hooks, lifecycle, prompting = self._hooks, self._lifecycle, self._prompting
        routes = Routes()
        requests = routes.requests
        requests["initialize"] = Route(self._negotiation.initialize, admit=self._negotiation.admit, handshake=True)
        if hooks.prompt is not None:
            requests["session/new"] = Route(lifecycle.new)
            requests["session/load"] = Route(lifecycle.load)
            requests["session/resume"] = Route(lifecycle.resume)
            requests["session/list"] = Route(lifecycle.list)
            requests["session/close"] = Route(lifecycle.close)
            requests["session/delete"] = Route(lifecycle.delete)
            requests["session/prompt"] = Route(prompting.prompt, admit=prompting.admit)
            routes.on_notice("session/cancel", Notice(prompting.cancel, inline=True))
        if hooks.modes or hooks.set_mode is not None:
            requests["session/set_mode"] = Route(lifecycle.set_mode)
        if hooks.config_options or hooks.set_config_option is not None:
            requests["session/set_config_option"] = Route(lifecycle.set_config_option)
        if hooks.authenticate:
            requests["authenticate"] = Route(self._authenticate)
        if hooks.logout is not None:
            requests["logout"] = Route(self._logout)
        requests.update(hooks.methods)
        for method, notice in hooks.notifications:
            routes.on_notice(method, notice)
        return routes

    async def _authenticate(self, call: Call) -> dict[str, Any]:
        from acp_server.schema.authentication import AuthenticateRequest

        request = read(AuthenticateRequest, call)
        check = self._hooks.authenticate.get(request.method_id)
        if check is None:
            raise problem("methodId", "is not one of this agent's methods")
        await check(call)
        self._lifecycle.authenticated = True
        return {}

    async def _logout(self, call: Call) -> dict[str, Any]:
        assert self._hooks.logout is not None
        await self._hooks.logout(call)
        self._lifecycle.authenticated = not self._hooks.auth_required
        return {}

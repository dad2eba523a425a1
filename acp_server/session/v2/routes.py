"""The table of the methods of version 2 for one connection, with their handlers. This module only connects them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from acp_server.peer.call import Notice, Route, Routes, serve_follower
from acp_server.schema.reading import problem, read
from acp_server.session.choosing import Chooser
from acp_server.session.definition import CATALOGUE, ENDING, NO_PROMPT_HANDLER, URGENT, AgentDefinition
from acp_server.session.v2 import forms
from acp_server.session.v2.negotiation import Negotiation
from acp_server.session.v2.prompting import Prompting
from acp_server.session.v2.session import Lifecycle

if TYPE_CHECKING:
    from acp_server.peer.call import LiveCall
    from acp_server.session.live_session import LiveSession
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.v2.session import Session
    from acp_server.session.versions import Side


def speak(call: LiveCall, side: Side) -> Lifecycle:
    """See `Dialect.speak` of `acp_server.session.versions`."""
    methods = Methods(side.definition, side.profile, side.sessions, side.find)
    routes = methods.routes(side.cancel)
    side.refuse_children(routes)
    Negotiation(side.definition, side.profile, side.routes, routes).register(call)
    return methods.lifecycle


class Methods:
    """The methods of version 2. `sessions`: the open sessions, by id."""

    def __init__(
        self,
        definition: AgentDefinition,
        profile: ClientProfile,
        sessions: dict[str, LiveSession],
        find: Callable[[str], LiveSession],
    ) -> None:
        self._definition = definition
        self._find = find
        self.lifecycle: Lifecycle = Lifecycle(definition, profile, sessions)
        self._chooser = Chooser(definition)
        self._prompting = Prompting(definition, sessions)

    def routes(self, cancel: Notice) -> Routes:
        """Return all methods except `initialize`. `cancel` is the handler of `session/cancel`. Methods without a
        handler in the agent are left out."""
        definition, lifecycle = self._definition, self.lifecycle
        routes = Routes()
        requests = routes.requests
        if definition.prompt is not None:
            optional = ("delete",) if "delete" in definition.sessions else ()
            for name in ("new", "resume", "list", "close", *optional, *definition.session_methods):
                owner = lifecycle.catalogue if name in CATALOGUE else lifecycle
                register = partial(lifecycle.register, name) if name in ENDING else None
                requests[f"session/{name}"] = Route(
                    getattr(owner, name), register=register, urgent=name in URGENT, direct=True
                )
            requests["session/prompt"] = Route(serve_follower, register=self._prompting.register, direct=True)
            requests["session/set_config_option"] = Route(self._set_config_option, direct=True)
            requests["tool_call/cancel"] = Route(_nothing, register=self._cancel_tool_call, urgent=True, direct=True)
            requests["terminal/cancel"] = Route(_nothing, register=self._cancel_terminal, urgent=True, direct=True)
            routes.on_notice("session/cancel", cancel)
            if definition.steer is not None:
                requests["_session/steering"] = Route(self._prompting.steer, direct=True)
        else:
            requests.update(NO_PROMPT_HANDLER)
        if definition.auth_methods:
            requests["auth/login"] = Route(lifecycle.login.authenticate, direct=True)
            requests["auth/logout"] = Route(lifecycle.login.logout, urgent=True, direct=True)
        requests.update(definition.methods)
        for method, notice in definition.notifications:
            routes.on_notice(method, notice)
        return routes

    async def _set_config_option(self, call: LiveCall) -> dict[str, Any]:
        """`session/set_config_option`, also for the mode. The response has all options, because one option may change
        another."""
        from acp_server.schema.v2.session import SetSessionConfigOptionRequest, UnknownSessionConfigValue

        request = read(SetSessionConfigOptionRequest, call.params)
        if isinstance(request, UnknownSessionConfigValue):
            raise problem("type", "is not a kind of value that this agent knows")
        session = self._find(request.session_id)
        await self._chooser.choose(session, request.config_id, request.value, call)
        return {"configOptions": forms.offered(session.settings)}

    def _cancel_tool_call(self, call: LiveCall) -> None:
        """`tool_call/cancel`. It runs in the reader, so that it is never queued behind the call that it cancels."""
        from acp_server.schema.v2.tool_call import CancelToolCallRequest

        request = read(CancelToolCallRequest, call.params)
        session = cast("Session", self._find(request.session_id))
        if not session.cancel_tool_call(request.tool_call_id):
            raise problem("toolCallId", "is not a tool call that can be cancelled now")

    def _cancel_terminal(self, call: LiveCall) -> None:
        """`terminal/cancel`: ends the command. Its terminal stays."""
        from acp_server.schema.v2.tool_call import CancelTerminalRequest

        request = read(CancelTerminalRequest, call.params)
        terminal = cast("Session", self._find(request.session_id)).terminals.get(request.terminal_id)
        if terminal is None or not terminal.cancel():
            raise problem("terminalId", "is not a terminal whose command can be cancelled now")


async def _nothing(_call: LiveCall) -> dict[str, Any]:
    return {}

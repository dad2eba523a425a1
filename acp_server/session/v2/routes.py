"""The methods of version 2 for one connection, and what answers them. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from acp_server.peer.route import Notice, Route, Routes
from acp_server.session.v2.choosing import Choosing
from acp_server.session.v2.lifecycle import Lifecycle
from acp_server.session.v2.prompting import Prompting

if TYPE_CHECKING:
    from acp_server.peer.context import Call
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.session import Session as AnySession
    from acp_server.session.v2.session import Session


class Methods:
    """What a client of version 2 can ask. `sessions`: those that are open, by id."""

    def __init__(
        self,
        definition: AgentDefinition,
        profile: ClientProfile,
        sessions: dict[str, AnySession],
        find: Callable[[str], AnySession],
        cancel: Notice,
    ) -> None:
        self._definition = definition
        self._find = find
        self._cancel = cancel
        self._lifecycle = Lifecycle(definition, profile, sessions)
        self._choosing = Choosing(definition, find)
        self._prompting = Prompting(definition, sessions)

    def routes(self) -> Routes:
        """All but `initialize`. A method that the agent has nothing for is not there."""
        definition, lifecycle = self._definition, self._lifecycle
        routes = Routes()
        requests = routes.requests
        if definition.prompt is not None:
            requests["session/new"] = Route(lifecycle.new, direct=True)
            requests["session/list"] = Route(lifecycle.list, direct=True)
            requests["session/resume"] = Route(lifecycle.resume, register=self._register("resume"), direct=True)
            requests["session/close"] = Route(
                lifecycle.close, register=self._register("close"), urgent=True, direct=True
            )
            requests["session/delete"] = Route(
                lifecycle.delete, register=self._register("delete"), urgent=True, direct=True
            )
            requests["session/prompt"] = Route(
                lambda call: call.follower.serve(), register=self._prompting.register, direct=True
            )
            requests["session/set_config_option"] = Route(self._choosing.set_option, direct=True)
            requests["tool_call/cancel"] = Route(_nothing, register=self._cancel_tool_call, urgent=True, direct=True)
            requests["terminal/cancel"] = Route(_nothing, register=self._cancel_terminal, urgent=True, direct=True)
            routes.on_notice("session/cancel", self._cancel)
            if definition.steer is not None:
                requests["_session/steering"] = Route(self._prompting.steer, direct=True)
        if definition.auth_methods:
            requests["auth/login"] = Route(lifecycle.login.authenticate, direct=True)
            requests["auth/logout"] = Route(lifecycle.login.logout, urgent=True, direct=True)
        requests.update(definition.methods)
        for method, notice in definition.notifications:
            routes.on_notice(method, notice)
        return routes

    def _register(self, name: str) -> Callable[[Call], None]:
        return lambda call: self._lifecycle.register(name, call)

    def _cancel_tool_call(self, call: Call) -> None:
        """`tool_call/cancel`, in the reader, so that it is never queued behind what it is to cancel."""
        from acp_server.schema.params import problem, read
        from acp_server.schema.v2.tool_call import CancelToolCallRequest

        request = read(CancelToolCallRequest, call.params)
        session = cast("Session", self._find(request.session_id))
        if not session.cancel_tool_call(request.tool_call_id):
            raise problem("toolCallId", "is not a tool call that can be cancelled now")

    def _cancel_terminal(self, call: Call) -> None:
        """`terminal/cancel`: the command ends, and its terminal stays."""
        from acp_server.schema.params import problem, read
        from acp_server.schema.v2.terminal import CancelTerminalRequest

        request = read(CancelTerminalRequest, call.params)
        terminal = cast("Session", self._find(request.session_id)).terminals.get(request.terminal_id)
        if terminal is None or not terminal.cancel():
            raise problem("terminalId", "is not a terminal whose command can be cancelled now")


async def _nothing(_call: Call) -> dict[str, Any]:
    return {}

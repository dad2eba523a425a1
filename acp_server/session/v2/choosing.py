"""`session/set_config_option` of version 2, of which a session's mode is one (ACP v2, session config options)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp_server.schema.params import problem, read_as
from acp_server.session import settings as v1
from acp_server.session.v2 import options

if TYPE_CHECKING:
    from acp_server.peer.context import Call


class Choosing(v1.Choosing):
    """What the client chooses in the sessions of one connection."""

    async def set_option(self, call: Call) -> dict[str, Any]:
        """`session/set_config_option`: the answer has all options, for one may change another."""
        from acp_server.schema.v2.config_options import SetSessionConfigOptionRequest, UnknownSessionConfigValue

        request = read_as(SetSessionConfigOptionRequest, call.params)
        if isinstance(request, UnknownSessionConfigValue):
            raise problem("type", "is not a kind of value that this agent knows")
        session = self._find(request.session_id)
        settings = session.settings
        if settings.mode is not None and request.config_id == options.mode_id(settings):
            if not isinstance(request.value, str) or not settings.has_mode(request.value):
                raise problem("value", "is not one of this session's modes")
            await self.choose_mode(session, request.value)
        else:
            await self.choose_option(session, request.config_id, request.value)
        return {"configOptions": options.offered(settings)}

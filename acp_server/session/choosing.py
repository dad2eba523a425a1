"""`session/set_mode` and `session/set_config_option` (ACP, Session Modes and Session Config Options).

What there is to choose from, and what is chosen, is in `acp_server.session.settings`. A choice that cannot be saved is
not made.
"""

from __future__ import annotations

from collections.abc import Callable

from acp_server.peer.context import Call
from acp_server.schema.base import Model
from acp_server.session.hooks import Hooks
from acp_server.session.params import problem, read
from acp_server.session.session import Session
from acp_server.session.settings import choices


class Choosing:
    """What the client chooses in the sessions of one connection."""

    def __init__(self, hooks: Hooks, find: Callable[[str], Session]) -> None:
        self._hooks = hooks
        self._find = find

    async def set_mode(self, call: Call) -> Model:
        """`session/set_mode`."""
        from acp_server.schema.config_options import SetSessionModeRequest, SetSessionModeResponse

        request = read(SetSessionModeRequest, call)
        session = self._find(request.session_id)
        if not session.settings.has_mode(request.mode_id):
            raise problem("modeId", "is not one of this session's modes")
        hook, before = self._hooks.set_mode, session.mode
        if hook is not None:
            await hook(session, request.mode_id)
        session.touch()
        try:
            await session.change(lambda: session.settings.set_mode(request.mode_id))
        except Exception:
            if hook is not None and before is not None:
                await hook(session, before)
            raise
        return SetSessionModeResponse()

    async def set_config_option(self, call: Call) -> Model:
        """`session/set_config_option`: the answer has all options, for one may change another."""
        from acp_server.schema.config_options import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse

        request = read(SetSessionConfigOptionRequest, call)
        session = self._find(request.session_id)
        option = next((option for option in session.settings.shown() if option.id == request.config_id), None)
        if option is None:
            raise problem("configId", "is not one of this session's options")
        if request.value not in choices(option):
            raise problem("value", "is not one of this option's values")
        value = session.settings.taken(request.config_id, request.value)
        hook, before = self._hooks.set_config_option, session.config(request.config_id)
        if hook is not None:
            await hook(session, request.config_id, value)
        session.touch()
        try:
            await session.change(lambda: session.settings.choose(request.config_id, value))
        except Exception:
            if hook is not None and before is not None:
                await hook(session, request.config_id, before)
            raise
        return SetSessionConfigOptionResponse(config_options=list(session.settings.shown()))

"""`session/set_mode` and `session/set_config_option` (ACP, Session Modes and Session Config Options).

What there is to choose from, and what is chosen, is in `acp_server.session.settings`. A choice that cannot be saved is
not made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from acp_server.errors import ResourceNotFound, SessionClosed
from acp_server.peer.context import Call
from acp_server.schema.base import Model
from acp_server.schema.params import problem, read
from acp_server.session.hooks import Hooks
from acp_server.session.session import Session
from acp_server.session.settings import choices
from acp_server.tasks.grace import grace

T = TypeVar("T")


class Choosing:
    """What the client chooses in the sessions of one connection."""

    def __init__(self, hooks: Hooks, find: Callable[[str], Session]) -> None:
        self._hooks = hooks
        self._find = find

    async def set_mode(self, call: Call) -> Model:
        """`session/set_mode`."""
        from acp_server.schema.config_options import SetSessionModeRequest, SetSessionModeResponse

        request = read(SetSessionModeRequest, call.params)
        session = self._find(request.session_id)
        if not session.settings.has_mode(request.mode_id):
            raise problem("modeId", "is not one of this session's modes")
        await self.choose_mode(session, request.mode_id)
        return SetSessionModeResponse()

    async def set_config_option(self, call: Call) -> Model:
        """`session/set_config_option`: the answer has all options, for one may change another."""
        from acp_server.schema.config_options import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse

        request = read(SetSessionConfigOptionRequest, call.params)
        session = self._find(request.session_id)
        await self.choose_option(session, request.config_id, request.value)
        return SetSessionConfigOptionResponse(config_options=list(session.settings.shown()))

    async def choose_mode(self, session: Session, mode_id: str) -> None:
        """Enter a mode that the session has. Raises as `_choose`."""
        tell = self._hooks.set_mode and partial(self._hooks.set_mode, session)
        await self._choose(session, mode_id, lambda: session.mode, session.settings.set_mode, tell)

    async def choose_option(self, session: Session, config_id: str, value: str | bool) -> None:
        """Change an option. Raises InvalidParams if the client was not shown it, or this value of it, and as
        `_choose`."""
        option = next((option for option in session.settings.shown() if option.id == config_id), None)
        if option is None:
            raise problem("configId", "is not one of this session's options")
        if value not in choices(option):
            raise problem("value", "is not one of this option's values")
        value = session.settings.taken(config_id, value)
        tell = self._hooks.set_config_option and partial(self._hooks.set_config_option, session, config_id)
        choose = partial(session.settings.choose, config_id)
        await self._choose(session, value, lambda: session.config(config_id), choose, tell)

    async def _choose(
        self,
        session: Session,
        value: T,
        now: Callable[[], T | None],
        choose: Callable[[T], Callable[[], None]],
        tell: Callable[[T], Awaitable[None]] | None,
    ) -> None:
        """Make a choice, of which the agent's own function is told before; and, if it cannot be made, that it was not.

        Raises what that function does, what saving the session does, InvalidRequest while the session is ending, and
        ResourceNotFound if it was closed meanwhile.
        """
        async with session.choosing:
            # A session that is opened anew has been read from the store by now, so the choice would be lost.
            session.check_not_ending()
            before = now()
            if tell is not None:
                await tell(value)
            session.touch()
            try:
                await session.change(lambda: choose(value))
            except BaseException as error:
                if tell is not None and before is not None:
                    with grace():
                        await tell(before)
                if isinstance(error, SessionClosed):
                    raise ResourceNotFound("Session not found", data={"sessionId": session.id}) from None
                raise

"""How the client sets modes and config options: `session/set_mode` and `session/set_config_option`.

A choice that cannot be saved is not made. What there is to choose from is in `acp_server.session.settings`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

from acp_server.errors import SessionClosed
from acp_server.schema.reading import problem, read
from acp_server.session.settings import AUTO_APPROVE, choices
from acp_server.session.state import not_found
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from acp_server.peer.call import Call
    from acp_server.schema.base import Model
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.live_session import LiveSession

T = TypeVar("T")


async def _tell(session: LiveSession, changed: str | None, before: dict[str, Any]) -> None:
    if session.settings.state() == before:
        return
    for update in session.settings.in_step(changed):
        await session.update(update)


class Choosing:
    """What the client chooses in the sessions of one connection."""

    def __init__(self, definition: AgentDefinition, find: Callable[[str], LiveSession]) -> None:
        self._definition = definition
        self._find = find

    async def set_mode(self, call: Call) -> Model:
        """`session/set_mode`."""
        from acp_server.schema.config_options import SetSessionModeRequest, SetSessionModeResponse

        request = read(SetSessionModeRequest, call.params)
        session = self._find(request.session_id)
        settings = session.settings
        before = settings.state()
        if not any(mode.id == request.mode_id for mode in settings.shown_modes()):
            raise problem("modeId", "is not one of this session's modes")
        if settings.modes:
            await self.choose_mode(session, request.mode_id, call)
        else:
            is_on = request.mode_id == AUTO_APPROVE
            await self._choose_value(session, AUTO_APPROVE, is_on, call, settings.choose)
        await _tell(session, None, before)
        return SetSessionModeResponse()

    async def set_config_option(self, call: Call) -> Model:
        """`session/set_config_option`: the answer has all options, for one may change another."""
        from acp_server.schema.config_options import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse

        request = read(SetSessionConfigOptionRequest, call.params)
        session = self._find(request.session_id)
        settings = session.settings
        before = settings.state()
        if settings.modes and settings.modes_as_option and request.config_id == settings.mode_option:
            if not (isinstance(request.value, str) and settings.has_mode(request.value)):
                raise problem("value", "is not one of this option's values")
            await self.choose_mode(session, request.value, call)
        else:
            await self.choose_option(session, request.config_id, request.value, call)
        await _tell(session, request.config_id, before)
        return SetSessionConfigOptionResponse(config_options=settings.shown())

    async def choose_mode(self, session: LiveSession, mode_id: str, call: Call) -> None:
        """Enter a mode that the session has. Raises as `_choose`."""
        tell = self._definition.set_mode and partial(self._definition.set_mode, session)
        await self._choose(session, call, mode_id, lambda: session.mode, session.settings.set_mode, tell)

    async def choose_option(self, session: LiveSession, config_id: str, value: str | bool, call: Call) -> None:
        """Change an option. Raises InvalidParams if the client was not shown it, or this value of it, unless the
        agent takes those as well; and as `_choose`."""
        option = next((option for option in session.settings.offered() if option.id == config_id), None)
        choose = session.settings.choose
        if option is not None and value in choices(option):
            value = session.settings.taken(config_id, value)
        elif self._definition.takes_unlisted and config_id != AUTO_APPROVE:
            choose = session.settings.choose_if_offered
        elif option is None:
            raise problem("configId", "is not one of this session's options")
        else:
            raise problem("value", "is not one of this option's values")
        await self._choose_value(session, config_id, value, call, choose)

    async def _choose_value(
        self,
        session: LiveSession,
        config_id: str,
        value: str | bool,
        call: Call,
        choose: Callable[[str, str | bool], Callable[[], None]],
    ) -> None:
        tell = self._definition.set_config_option and partial(self._definition.set_config_option, session, config_id)
        now = partial(session.config, config_id, None)
        await self._choose(session, call, value, now, partial(choose, config_id), tell)

    async def _choose(
        self,
        session: LiveSession,
        call: Call,
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
                with session.answering(call):
                    await tell(value)
            session.record.updated_at = time()
            try:
                await session.change(lambda: choose(value))
            except BaseException as error:
                if tell is not None and before is not None:
                    with grace():
                        await tell(before)
                if isinstance(error, SessionClosed):
                    raise not_found(session.id) from None
                raise

"""Applies the client's choices of modes and config options, from `session/set_mode` and `session/set_config_option`,
and the values that a session begins with.

A choice that cannot be saved is undone. `acp_server.session.settings` has the modes and options on offer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.lowlevel import checkpoint

from acp_server.errors import InvalidParams, SessionClosed
from acp_server.schema.reading import problem, read
from acp_server.session.settings import AUTO_APPROVE, choices
from acp_server.session.state import not_found
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from acp_server.peer.call import LiveCall
    from acp_server.schema.base import Model
    from acp_server.schema.config_options import InitialSessionConfigOption
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.live_session import LiveSession

T = TypeVar("T")


async def _tell(session: LiveSession, changed: str | None, before: dict[str, Any]) -> None:
    if session.settings.state() == before:
        return
    for update in session.settings.in_step(changed):
        await session.update(update)


class Choosing:
    """The requests of version 1 that change the settings of a session."""

    def __init__(self, definition: AgentDefinition, find: Callable[[str], LiveSession]) -> None:
        self._chooser = Chooser(definition)
        self._find = find

    async def set_mode(self, call: LiveCall) -> Model:
        """`session/set_mode`."""
        from acp_server.schema.config_options import SetSessionModeRequest, SetSessionModeResponse

        request = read(SetSessionModeRequest, call.params)
        session = self._find(request.session_id)
        settings = session.settings
        before = settings.state()
        if not any(mode.id == request.mode_id for mode in settings.shown_modes()):
            raise problem("modeId", "is not one of this session's modes")
        if settings.modes:
            await self._chooser.choose_mode(session, request.mode_id, call)
        else:
            is_on = request.mode_id == AUTO_APPROVE
            await self._chooser.choose_value(session, AUTO_APPROVE, is_on, call, settings.choose)
        await _tell(session, None, before)
        return SetSessionModeResponse()

    async def set_config_option(self, call: LiveCall) -> Model:
        """`session/set_config_option`. The response has all options, because one option may change another."""
        from acp_server.schema.config_options import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse

        request = read(SetSessionConfigOptionRequest, call.params)
        session = self._find(request.session_id)
        settings = session.settings
        before = settings.state()
        await self._chooser.choose(session, request.config_id, request.value, call)
        await _tell(session, request.config_id, before)
        return SetSessionConfigOptionResponse(config_options=settings.shown())

    async def set_model(self, call: LiveCall) -> dict[str, Any]:
        """`session/set_model`, a method of the protocol until June 2026. It sets the option of the category `model`."""
        params = call.params
        session_id, model_id = params.get("sessionId"), params.get("modelId")
        if not isinstance(session_id, str) or not isinstance(model_id, str):
            raise problem("sessionId" if not isinstance(session_id, str) else "modelId", "is not a string")
        session = self._find(session_id)
        settings = session.settings
        option = next((option for option in settings.offered() if option.category == "model"), None)
        if option is None:
            raise problem("modelId", "this session has no choice of models")
        before = settings.state()
        if model_id not in choices(option):
            raise problem("modelId", "is not one of this session's models")
        await self._chooser.choose(session, option.id, model_id, call)
        if settings.state() != before:
            await session.update(settings.as_update())
        return {}


class Chooser:
    """Applies the client's choices to sessions, and calls the author's handlers for them."""

    def __init__(self, definition: AgentDefinition) -> None:
        self._definition = definition

    async def begin_with(
        self, session: LiveSession, values: Sequence[InitialSessionConfigOption], call: LiveCall
    ) -> None:
        """Choose the values that a session begins with. Values that cannot be chosen are ignored, and of several values
        for one option only the last counts."""
        wanted = {each.config_id: each.value for each in values}
        if not self._definition.takes_unlisted:
            # A client can name thousands of options that do not exist.
            offered = {session.settings.mode_option, *(option.id for option in session.settings.options)}
            wanted = {config_id: value for config_id, value in wanted.items() if config_id in offered}
        for config_id, value in wanted.items():
            with suppress(InvalidParams):
                await self.choose(session, config_id, value, call)
            await checkpoint()

    async def choose(self, session: LiveSession, config_id: str, value: str | bool, call: LiveCall) -> None:
        """Change an option, perhaps the option for the mode. Raises as `choose_mode` and `choose_option`."""
        if not session.is_mode_option(config_id):
            await self.choose_option(session, config_id, value, call)
            return
        if not isinstance(value, str) or not session.settings.has_mode(value):
            raise problem("value", "is not one of this option's values")
        await self.choose_mode(session, value, call)

    async def choose_mode(self, session: LiveSession, mode_id: str, call: LiveCall) -> None:
        """Change to a mode on offer. Raises as `_choose`."""
        tell = self._definition.set_mode and partial(self._definition.set_mode, session)
        await self._choose(session, call, mode_id, lambda: session.mode, session.settings.set_mode, tell)

    async def choose_option(self, session: LiveSession, config_id: str, value: str | bool, call: LiveCall) -> None:
        """Change an option. Raises InvalidParams for an option or a value that the client was not shown, unless the
        agent accepts unlisted options (`AgentDefinition.takes_unlisted`). Also raises like `_choose`."""
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
        await self.choose_value(session, config_id, value, call, choose)

    async def choose_value(
        self,
        session: LiveSession,
        config_id: str,
        value: str | bool,
        call: LiveCall,
        choose: Callable[[str, str | bool], Callable[[], None]],
    ) -> None:
        """Change an option by `choose`, without a check against the options on offer. Raises like `_choose`."""
        tell = self._definition.set_config_option and partial(self._definition.set_config_option, session, config_id)
        now = partial(session.config, config_id, None)
        await self._choose(session, call, value, now, partial(choose, config_id), tell)

    async def _choose(
        self,
        session: LiveSession,
        call: LiveCall,
        value: T,
        now: Callable[[], T | None],
        choose: Callable[[T], Callable[[], None]],
        tell: Callable[[T], Awaitable[None]] | None,
    ) -> None:
        """Call the author's handler with a choice, then make the choice and save it. If that fails, call the handler
        with the value before.

        Raises the exceptions of the handler and of saving, InvalidRequest while the session is ending, and
        ResourceNotFound if it was closed meanwhile.
        """
        async with session.choosing:
            # A request that opens the session again has read it from the store by now, so the choice would be lost.
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

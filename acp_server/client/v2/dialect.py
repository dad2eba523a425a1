"""Version 2 on one connection, for a program that uses the types of version 1.

Requests are sent in the form of version 2, and their results returned in the form of version 1. Updates and questions
of the agent are translated before the rest of the client reads them.

`Version2.prompt` returns when the work for the prompt has ended. `acp_server.client.v2.foreground` determines when that
is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from acp_server.client.v2.foreground import Foreground
from acp_server.client.v2.updates import MODE, Translator, Wire, config_options, modes, permission
from acp_server.errors import CapabilityMissing, EncodeError, InternalError, InvalidParams, MalformedResponse, RpcError
from acp_server.peer.outbound import OnOver, OnResult
from acp_server.schema import (
    PromptRequest,
    PromptResponse,
    ResumeSessionResponse,
    SessionConfigSelect,
    SessionOptionsRequest,
    SetSessionConfigOptionRequest,
    SetSessionModeRequest,
    from_wire,
    v2,
)
from acp_server.schema.base import Record
from acp_server.schema.methods import METHODS as METHODS_V1
from acp_server.schema.methods import is_announced
from acp_server.schema.reading import read, read_result
from acp_server.schema.v2.methods import MEMBER_CAPABILITIES, METHODS

if TYPE_CHECKING:
    from acp_server.client.dialect import Hearer
    from acp_server.client.versions import Side

logger: logging.Logger = logging.getLogger("acp_server.client")

_NAMES: Final = {"authenticate": "auth/login", "logout": "auth/logout", "session/load": "session/resume"}
"""The methods of version 1 that have another name in version 2."""


class Version2:
    """The `Dialect` of one connection. `told`: the agent's response to `initialize`."""

    def __init__(self, side: Side, told: v2.InitializeResponse) -> None:
        self._link = side.link
        self._capabilities: Any = told.capabilities
        self._sessions = side.sessions
        self._is_cancelling = side.is_cancelling
        self._on_update = side.receive
        # The routes of requests that version 2 does not have: files and terminals.
        for name in METHODS_V1.keys() - METHODS.keys():
            side.routes.requests.pop(name, None)
        self._states: WeakKeyDictionary[Hearer, tuple[Foreground, Translator]] = WeakKeyDictionary()

    # -- what the client asks

    async def call(self, method: str, params: Record, timeout: float | None, on_late: OnResult | None) -> Any:
        """See `Link.call`."""
        if isinstance(params, SetSessionModeRequest):
            method, params = "session/set_config_option", self._as_option(params)
        name = _NAMES.get(method, method)
        self._need(name)
        wire = params.to_wire()
        for server in wire.get("mcpServers", ()):
            server.setdefault("type", "stdio")
            self._need(name, MEMBER_CAPABILITIES["McpServer"].get(server["type"]))
        if method == "session/load":
            wire["replayFrom"] = {"type": "start"}
        elif method == "session/set_config_option":
            wire.setdefault("type", "id")
        for value in wire.get("configOptions", ()):
            value.setdefault("type", "id")
        result = await self.request(name, wire, timeout, on_late)
        if isinstance(params, SessionOptionsRequest):
            # No session has these commands yet.
            result.pop("availableCommands", None)
        plain = await self._opened(result, wire.get("sessionId"))
        if isinstance(params, SetSessionConfigOptionRequest) and params.session_id in self._sessions:
            # The mode may have changed with it.
            self._sessions[params.session_id].changed(read_result(ResumeSessionResponse, method, plain))
        return read_result(METHODS_V1[method].result_type, method, plain)

    async def open(self, method: str, wire: Wire, on_late: OnResult | None) -> Wire:
        """Send a request whose result opens a session; `wire` is sent unchanged."""
        result = await self._link.request(method, wire, on_late=on_late)
        return await self._opened(
            read_result(v2.ResumeSessionResponse, method, result).to_wire(), wire.get("sessionId")
        )

    async def request(
        self, name: str, wire: Wire, timeout: float | None = None, on_late: OnResult | None = None
    ) -> Wire:
        """Send a request in the form of version 2. Returns its validated result."""
        self._need(name)
        result = await self._link.request(name, wire, timeout=timeout, on_late=on_late)
        return read_result(METHODS[name].result_type, name, result).to_wire()

    async def prompt(self, request: PromptRequest, on_over: OnOver | None) -> PromptResponse:
        """Send `session/prompt` and wait until the work for the prompt has ended. Also raises RpcError if the work
        fails."""
        self._need("session/prompt")
        foreground, _ = self._state(self._sessions[request.session_id])
        work = foreground.begin(on_over)

        def answered(result: Any) -> None:
            # Before the next update, which may be another message of the user. The caller raises MalformedResponse.
            with suppress(MalformedResponse):
                work.answered(read_result(v2.PromptResponse, "session/prompt", result).message_id)

        try:
            result = await self._link.request(
                "session/prompt", request.to_wire(), on_result=answered, on_over=work.refused
            )
            read_result(v2.PromptResponse, "session/prompt", result)
            with work.waiting:
                await work.done.wait()
        except (RpcError, MalformedResponse):
            # While it waits for a response, every message of the user may be its echo.
            foreground.forget(work)
            raise
        except BaseException:
            work.left()
            raise
        if work.waiting.cancelled_caught:
            logger.warning(
                "the agent reported the state idle without having reported running; the turn counts as ended"
            )
            work.end(work.unbegun)
        if work.ended is None:
            raise await self._link.loss("session/prompt")
        return _outcome(work.ended, work.message_id, is_cancelled=self._is_cancelling(request.session_id))

    def lost(self) -> None:
        """Record that the connection has ended."""
        for foreground, _ in self._states.values():
            if foreground.work is not None:
                foreground.work.lost()

    # -- what the agent says and asks

    def updates(self, session: Hearer, params: Any) -> Iterable[Any]:
        """Yield the parameters of version 1 updates with the same content as the update in `params`."""
        try:
            update = v2.UpdateSessionNotification.from_wire(params).update
        except ValidationError:
            logger.warning("dropped a session/update that is not valid in version 2")
            return
        foreground, translate = self._state(session)
        if isinstance(update, v2.StateUpdate):
            foreground.snapshot(update, is_cancelling=self._is_cancelling(session.id))
        work = foreground.work
        user = update.message_id if isinstance(update, v2.UserMessage | v2.UserMessageChunk) else None
        if work is not None and user is not None and work.is_echo(user):
            return
        try:
            plain = translate(update.to_wire())
        except (ValueError, EncodeError):
            logger.warning("dropped a session/update that is nested too deep")
            return
        for one in plain:
            yield {**params, "update": one}

    def question(self, params: Any, name: str) -> Wire:
        """Return a permission request as the parameters of version 1. `name` becomes the id of the tool call if the
        request names no tool call. Raises InvalidParams."""
        question = read(v2.RequestPermissionRequest, params)
        if len({option.option_id for option in question.options}) < len(question.options):
            raise InvalidParams("Invalid params: two options have the same id")
        return permission(question, name)

    def _state(self, session: Hearer) -> tuple[Foreground, Translator]:
        state = self._states.get(session)
        if state is None:
            state = self._states[session] = Foreground(self._link.time), Translator()
        return state

    def _as_option(self, request: SetSessionModeRequest) -> SetSessionConfigOptionRequest:
        """Convert a mode to the value of a config option. Raises CapabilityMissing if the session has no such
        option."""
        for option in self._sessions[request.session_id].config_options:
            if isinstance(option, SessionConfigSelect) and option.category == MODE:
                return SetSessionConfigOptionRequest(
                    session_id=request.session_id, config_id=option.id, value=request.mode_id, meta=request.meta
                )
        raise CapabilityMissing("session/set_mode", "configuration option of the category mode")

    def _need(self, name: str, capability: str | None = None) -> None:
        if name not in METHODS:
            raise CapabilityMissing(name, "version 1 of the protocol")
        for needed in (METHODS[name].capability, capability):
            if not is_announced(needed, agent=self._capabilities, client=None):
                raise CapabilityMissing(name, str(needed).replace("agentCapabilities", "capabilities"))

    async def _opened(self, told: Wire, session_id: str | None) -> Wire:
        """Return a result about a session with its settings in the form of version 1. The commands in it are sent as an
        update."""
        plain = dict(told)
        if "configOptions" in plain:
            plain["configOptions"] = config_options(plain["configOptions"])
            plain["modes"] = modes(plain["configOptions"])
        if "availableCommands" in plain:
            await self._offer(plain.get("sessionId") or session_id, plain.pop("availableCommands"))
        return plain

    async def _offer(self, session_id: str | None, commands: list[Wire]) -> None:
        """Deliver the commands of a session that was just opened as an update, because version 1 has no other form for
        them."""
        update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        pending = self._on_update({"sessionId": session_id, "update": update})
        if pending is not None:
            await pending


def _outcome(state: v2.StateUpdate, message_id: str | None, *, is_cancelled: bool) -> PromptResponse:
    reason = state.stop_reason or ("cancelled" if is_cancelled else "end_turn")
    if reason == "error":
        told = state.error
        error = InternalError()
        if told is not None:
            error = RpcError.from_wire({"code": told.code, "message": told.message, "data": told.data})
        error.received = True
        raise error
    told = {**(state.model_extra or {}), "_meta": state.meta}
    if state.usage is not None:
        told["usage"] = state.usage.to_wire()
    return from_wire(PromptResponse, {**told, "stopReason": reason, "messageId": message_id})

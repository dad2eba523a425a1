"""Version 2 as it is spoken on one connection, for a program that gives and takes the types of version 1.

The offer of it has both forms: an agent that answers 1 finds in it what version 1 wants to know, and the same
connection goes on (`ask`; ACP v2, initialization). After that, requests go out as version 2 has them, and their results
come back as version 1 has them (`Version2`). Updates and questions of the agent are translated before the rest of the
client reads them. A prompt is answered when its work is over.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from acp_server.client.v2.foreground import Foreground
from acp_server.client.v2.updates import MODE, Translator, Wire, config_options, modes, permission
from acp_server.errors import CapabilityMissing, ConnectionClosed, EncodeError, InternalError, InvalidParams, RpcError
from acp_server.peer.call import Routes
from acp_server.peer.outbound import OnLate, OnOver
from acp_server.schema import (
    InitializeRequest,
    InitializeResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionResponse,
    SessionConfigSelect,
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
    from acp_server.client.link import Link
    from acp_server.client.remote import RemoteAgent
    from acp_server.client.session import RemoteSession

logger = logging.getLogger("acp_server.client")


def offer(request: InitializeRequest) -> dict[str, Any]:
    """The parameters of `initialize` that ask for version 2, out of those that ask for version 1."""
    told = request.to_wire()
    capabilities: dict[str, Any] = {}
    if request.client_capabilities.auth.terminal:
        capabilities["auth"] = {"terminal": {}}
    if (elicitation := request.client_capabilities.elicitation) is not None:
        capabilities["elicitation"] = elicitation.to_wire()
    # Version 2 wants a name.
    info = told.get("clientInfo") or {"name": "acp_server", "version": version("acp_server")}
    return {**told, "protocolVersion": 2, "info": info, "capabilities": capabilities}


async def ask(agent: RemoteAgent, request: InitializeRequest, timeout: float | None) -> InitializeResponse | None:
    """Ask for version 2: the answer as version 1 has it, whichever version the agent has chosen.

    None if version 1 is to be asked for, since the agent refuses, has ended and was started anew, or only repeats the
    number. Raises ConnectionClosed if it cannot be started anew, MalformedResponse and RequestTimeout.
    """
    try:
        answer = await agent.link.request("initialize", offer(request), timeout=timeout)
    except RpcError as error:
        logger.info("the agent refuses version 2; it is asked for version 1: %s", error)
        return None
    except ConnectionClosed as error:
        if agent.renew is None:
            raise
        logger.info("the agent ended when it was asked for version 2; it is started anew: %s", error)
        await agent.start_over()
        return None
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if told.get("protocolVersion") != v2.PROTOCOL_VERSION:
        return read_result(InitializeResponse, "initialize", answer)
    if "info" not in told:
        # Version 2 demands it. Agents that know version 1 alone and say every number back are common.
        logger.info("the agent repeats the number 2, and its answer is not of version 2; it is asked for version 1")
        return None
    said: v2.InitializeResponse = read_result(v2.InitializeResponse, "initialize", answer)
    agent.speak_2(said)
    return _as_v1(said)


def _as_v1(told: v2.InitializeResponse) -> InitializeResponse:
    plain = {
        "protocolVersion": told.protocol_version,
        "agentInfo": told.info.to_wire(),
        "agentCapabilities": _capabilities(told),
        # A method has another name for its id, and all the rest alike.
        "authMethods": [{**method, "id": method["methodId"]} for method in (m.to_wire() for m in told.auth_methods)],
        "_meta": told.meta,
    }
    return InitializeResponse.from_wire(plain)


def _capabilities(told: v2.InitializeResponse) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    session = told.capabilities.session
    if session is not None:
        prompt, mcp = session.prompt or v2.PromptCapabilities(), session.mcp or v2.McpCapabilities()
        optional = {"delete": session.delete, "additionalDirectories": session.additional_directories}
        plain = {
            "loadSession": True,
            "promptCapabilities": {
                "image": prompt.image is not None,
                "audio": prompt.audio is not None,
                "embeddedContext": prompt.embedded_context is not None,
            },
            "mcpCapabilities": {"http": mcp.http is not None},
            "sessionCapabilities": {
                **{name: {} for name in ("list", "resume", "close")},
                **{name: {} for name, announced in optional.items() if announced is not None},
            },
        }
    if told.auth_methods:
        plain["auth"] = {"logout": {}}
    if told.capabilities.meta is not None:
        plain["_meta"] = told.capabilities.meta
    return plain


_NAMES: Final = {"authenticate": "auth/login", "logout": "auth/logout", "session/load": "session/resume"}
"""What the requests of version 1 are called that have another name."""


class Version2:
    """One connection. `sessions` are those that are open; `is_cancelling` tells whether a session's turn is ending."""

    def __init__(
        self,
        link: Link,
        told: v2.InitializeResponse,
        sessions: Mapping[str, RemoteSession],
        is_cancelling: Callable[[str], bool],
        on_update: Callable[[Any], Awaitable[None] | None],
    ) -> None:
        """`told` is what the agent said of itself. `on_update` takes the parameters of an update that it did not
        send."""
        self._link = link
        self._capabilities: Any = told.capabilities
        self._sessions = sessions
        self._is_cancelling = is_cancelling
        self._on_update = on_update
        self._states: WeakKeyDictionary[RemoteSession, tuple[Foreground, Translator]] = WeakKeyDictionary()

    def restrict(self, routes: Routes) -> None:
        """Forget the requests of version 1 that version 2 does not have: files and terminals."""
        for name in METHODS_V1.keys() - METHODS.keys():
            routes.requests.pop(name, None)

    # -- what the client asks

    async def call(self, method: str, params: Record, timeout: float | None, on_late: OnLate | None) -> Any:
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
        plain = await self.request(name, wire, timeout, on_late)
        if "configOptions" in plain:
            plain["configOptions"] = config_options(plain["configOptions"])
            plain["modes"] = modes(plain["configOptions"])
        if "availableCommands" in plain:
            await self._offer(wire.get("sessionId") or plain["sessionId"], plain.pop("availableCommands"))
        if isinstance(params, SetSessionConfigOptionRequest) and params.session_id in self._sessions:
            # The mode may be another one by now.
            self._sessions[params.session_id].changed(read_result(ResumeSessionResponse, method, plain))
        return read_result(METHODS_V1[method].result_type, method, plain)

    async def request(self, name: str, wire: Wire, timeout: float | None = None, on_late: OnLate | None = None) -> Wire:
        """A request in the words of version 2, and its result, which was read."""
        self._need(name)
        result = await self._link.request(name, wire, timeout=timeout, on_late=on_late)
        return read_result(METHODS[name].result_type, name, result).to_wire()

    async def prompt(self, request: PromptRequest, on_over: OnOver | None) -> PromptResponse:
        """`session/prompt`, and the work for it. Raises RpcError, too, if the work fails."""
        self._need("session/prompt")
        foreground, _ = self._state(self._sessions[request.session_id])
        work = foreground.begin(on_over)

        def answered(result: Any) -> None:
            work.answered(read_result(v2.PromptResponse, "session/prompt", result).message_id)

        try:
            wire = request.to_wire()
            answered(await self._link.request("session/prompt", wire, on_late=answered, on_over=work.refused))
            await work.done.wait()
        except RpcError:
            foreground.forget(work)
            raise
        except BaseException:
            work.left()
            raise
        if work.ended is None:
            raise await self._link.loss("session/prompt")
        return _outcome(work.ended, work.message_id, is_cancelled=self._is_cancelling(request.session_id))

    def lost(self) -> None:
        """The connection has ended."""
        for foreground, _ in self._states.values():
            if foreground.work is not None:
                foreground.work.lost()

    # -- what the agent says and asks

    def updates(self, session: RemoteSession, params: Any) -> Iterable[Any]:
        """The parameters of the updates that say the same as the one in `params`."""
        try:
            update = v2.UpdateSessionNotification.from_wire(params).update
        except ValidationError:
            logger.warning("dropped a session/update that is not as version 2 has it")
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
        """The parameters of a permission request, which is about a tool call `name` if it is about no other. Raises
        InvalidParams."""
        question = read(v2.RequestPermissionRequest, params)
        if len({option.option_id for option in question.options}) < len(question.options):
            raise InvalidParams("Invalid params: two options have the same id")
        return permission(question, name)

    def _state(self, session: RemoteSession) -> tuple[Foreground, Translator]:
        state = self._states.get(session)
        if state is None:
            state = self._states[session] = Foreground(), Translator()
        return state

    def _as_option(self, request: SetSessionModeRequest) -> SetSessionConfigOptionRequest:
        """A mode is a value of an option. Raises CapabilityMissing if the session has no such option."""
        for option in self._sessions[request.session_id].config_options:
            if isinstance(option, SessionConfigSelect) and option.category == MODE:
                return SetSessionConfigOptionRequest(
                    session_id=request.session_id, config_id=option.id, value=request.mode_id
                )
        raise CapabilityMissing("session/set_mode", "configuration option of the category mode")

    def _need(self, name: str, capability: str | None = None) -> None:
        if name not in METHODS:
            raise CapabilityMissing(name, "version 1 of the protocol")
        for needed in (METHODS[name].capability, capability):
            if not is_announced(needed, agent=self._capabilities, client=None):
                raise CapabilityMissing(name, str(needed).replace("agentCapabilities", "capabilities"))

    async def _offer(self, session_id: str, commands: list[Wire]) -> None:
        """Show the commands of a session that was just opened, which version 1 has as an update only."""
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
    return from_wire(PromptResponse, {**told, "stopReason": reason, "messageId": message_id})

"""Answers `initialize` for a client that requests version 2 or later (ACP v2, version negotiation).

The version of a connection never changes. Only the response reveals the version, so no other request is accepted before
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from acp_server.errors import InvalidRequest, UnsupportedProtocolVersion
from acp_server.peer.call import Register, Route, Routes
from acp_server.schema.reading import problem, read
from acp_server.session.negotiation import Greeting, as_v1, initialize
from acp_server.session.versions import uninitialized

if TYPE_CHECKING:
    from acp_server.peer.call import LiveCall
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.negotiation import ClientProfile

PROTOCOL_VERSION: Final = 2

_ALL_SESSIONS: Final[dict[str, Any]] = {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}}
"""The capabilities of every client of version 2, in the form of version 1."""

_SHARED: Final = ("auth", "elicitation", "_meta")
"""The client capabilities that both versions have."""


def requested(params: dict[str, Any], supported: tuple[int, ...]) -> int:
    """Return the version that a client requests. Raises InvalidParams for a malformed version, and
    UnsupportedProtocolVersion for a version below all supported versions."""
    version = params.get("protocolVersion")
    if type(version) is not int or not 0 <= version <= 0xFFFF:
        raise problem("protocolVersion", "Input should be a version of the protocol, an integer from 0 to 65535")
    if version < min(supported):
        raise UnsupportedProtocolVersion(data={"requested": version, "supported": list(supported)})
    return version


class Negotiation:
    """Negotiates with a client that requests version 2 or later. `live`: the present methods of the connection, which
    each step replaces. `routes`: the methods of version 2."""

    def __init__(self, definition: AgentDefinition, profile: ClientProfile, live: Routes, routes: Routes) -> None:
        self._definition = definition
        self._profile = profile
        self._live = live
        self._waiting = Routes(
            {"initialize": Route(initialize, register=self.register, direct=True)}, missing=uninitialized
        )
        again = {"initialize": Route(initialize, register=_refuse, direct=True)}
        self._used = Routes(again | routes.requests, routes.notices)
        # Until its first other request, the client may send `initialize` again.
        fresh = {name: replace(route, register=self._first(route.register)) for name, route in routes.requests.items()}
        self._fresh = Routes(self._waiting.requests | fresh, routes.notices)

    def register(self, call: LiveCall) -> None:
        """Store the client's announcements. Raises InvalidParams, InvalidRequest and UnsupportedProtocolVersion."""
        from acp_server.schema.v2.initialization import InitializeRequest

        request = call.request
        if request.id is None or request.slot is not None:
            raise InvalidRequest("Version 2 allows no batches, and no null as the id of a request")
        version = requested(call.params, self._definition.versions)
        if version < PROTOCOL_VERSION:
            raise InvalidRequest("The protocol version of a connection cannot change")
        if version == PROTOCOL_VERSION:
            # The parameters of a later version are unknown and not validated. Members that version 2 knows are used.
            read(InitializeRequest, call.params)
        self._profile.learn(_known(call.params))
        call.connection.endpoint.strict = True
        self._live.become(self._waiting)
        call.follower = _Greeting(self._answer, self._definition, self._profile, lambda: self._live.become(self._fresh))

    def _answer(self) -> dict[str, Any]:
        definition = self._definition
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "info": definition.info,
            "capabilities": _capabilities(definition),
            "authMethods": self._auth_methods(),
            **definition.offers,
        }

    def _first(self, register: Register | None) -> Register:
        def first(call: LiveCall) -> None:
            self._live.become(self._used)
            if register is not None:
                register(call)

        return first

    def _auth_methods(self) -> list[dict[str, Any]]:
        methods = [_auth_method(method) for method in self._definition.auth_methods]
        if not self._profile.capabilities.auth.terminal:
            methods = [method for method in methods if method["type"] != "terminal"]
        return methods


class _Greeting(Greeting):
    """Calls `ready` once its result is buffered. After an error response, for example to a cancel, `ready` is not
    called."""

    __slots__ = ("_is_good", "_ready")

    def __init__(
        self,
        make: Callable[[], dict[str, Any]],
        definition: AgentDefinition,
        profile: ClientProfile,
        ready: Callable[[], None],
    ) -> None:
        super().__init__(make, definition, profile)
        self._ready = ready
        self._is_good = False

    async def serve(self, call: LiveCall) -> dict[str, Any]:
        """See `acp_server.session.negotiation.Greeting`."""
        answer = await super().serve(call)
        self._is_good = True
        return answer

    def answered(self) -> None:
        """See `Follower`."""
        if self._is_good:
            self._ready()


def _refuse(_call: LiveCall) -> None:
    raise InvalidRequest("The connection is already initialized")


def _known(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `initialize` in the form of version 1, without members that have no meaning in version
    2."""
    told = as_v1({key: params[key] for key in ("protocolVersion", "info", "capabilities", "_meta") if key in params})
    announced = told.get("clientCapabilities")
    if not isinstance(announced, dict):
        announced = {}
    shared = {key: value for key, value in cast("dict[str, Any]", announced).items() if key in _SHARED}
    return {**told, "clientCapabilities": {**shared, "session": _ALL_SESSIONS, "subagents": {}}}


def _capabilities(definition: AgentDefinition) -> dict[str, Any]:
    """Return the capabilities of the agent: `AgentCapabilities` in its wire form."""
    capabilities: dict[str, Any] = {}
    if definition.prompt is not None:
        # The other methods of sessions are required of every agent.
        optional = {"delete": "delete", "additional_directories": "additionalDirectories"}
        session: dict[str, Any] = {told: {} for name, told in optional.items() if name in definition.sessions}
        names = {"image": "image", "audio": "audio", "embedded_context": "embeddedContext"}
        if definition.accepts:
            session["prompt"] = {names[kind]: {} for kind in definition.accepts}
        session["mcp"] = {kind: {} for kind in ("stdio", *definition.mcp) if kind != "sse"}
        capabilities["session"] = session | definition.session_features
    if definition.extensions:
        capabilities["_meta"] = definition.extensions
    return capabilities


def _auth_method(method: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "agent"}
    told.update((("methodId" if key == "id" else key), value) for key, value in method.items())
    if "env" in told:
        told["env"] = [{"name": name, "value": value} for name, value in told["env"].items()]
    return told

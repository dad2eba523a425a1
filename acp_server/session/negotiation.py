"""The client of one connection: its name, its capabilities, and whether it has logged in (ACP, Initialization and
Authentication).

The client's parameters are stored as received. They are read into the types of the schema only when a handler needs
them, so that importing those types does not delay the response to `initialize`. A client that offers version 2 sends
its parameters in another form, because it does not know yet that the agent will answer with version 1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, cast

from acp_server.errors import AuthRequired
from acp_server.peer.call import Follower, LiveCall
from acp_server.session.definition import AgentDefinition

if TYPE_CHECKING:
    from acp_server.schema.initialization import ClientCapabilities, Implementation, InitializeRequest


class ClientProfile:
    """The name and capabilities of one client. Before `initialize` it has no capabilities."""

    __slots__ = ("_params", "_read")

    def __init__(self) -> None:
        self.learn({"protocolVersion": 1})

    def learn(self, params: dict[str, Any]) -> None:
        """Store the parameters of an `initialize`. They must have been validated."""
        self._params = params
        self._read: InitializeRequest | None = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities of the client."""
        return self._request().client_capabilities

    @property
    def info(self) -> Implementation | None:
        """The client's name and version, if it sent them."""
        return self._request().client_info

    def _request(self) -> InitializeRequest:
        if self._read is None:
            from acp_server.schema.initialization import InitializeRequest

            self._read = InitializeRequest.from_wire(self._params)
        return self._read


PROTOCOL_VERSION: Final = 1

_WIRE: Final = {"additional_directories": "additionalDirectories"}


class Initialization:
    """One `initialize`, for a function registered by `Agent.initialize`. It has the client's announcements and the
    response (ACP, Initialization)."""

    __slots__ = ("_profile", "answer", "call")

    def __init__(self, call: LiveCall, profile: ClientProfile, answer: dict[str, Any]) -> None:
        self.call: Final = call
        """The request. `call.params` has all members as received."""
        self.answer: Final = answer
        """The response in its wire form, in the negotiated version. The function may change it."""
        self._profile = profile

    @property
    def version(self) -> int:
        """The negotiated version of the protocol."""
        return self.answer["protocolVersion"]

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version, if it sent them."""
        return self._profile.info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The capabilities of the client, in the form of version 1."""
        return self._profile.capabilities

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities of the agent in the response, `AgentCapabilities`. Members may be added."""
        return self.answer["agentCapabilities" if self.version == PROTOCOL_VERSION else "capabilities"]

    @property
    def auth_methods(self) -> list[dict[str, Any]]:
        """The login methods in the response. Each has `id` and `name`, and `_meta` if you add it."""
        return self.answer["authMethods"]

    @property
    def meta(self) -> dict[str, Any]:
        """The response's `_meta`."""
        return self.answer.setdefault("_meta", {})


class Negotiation:
    """Answers `initialize` for version 1, and stores the client's announcements."""

    def __init__(
        self, definition: AgentDefinition, profile: ClientProfile, speak_other: Callable[[LiveCall], None]
    ) -> None:
        """`speak_other` handles an `initialize` that requests another version."""
        self._definition = definition
        self._profile = profile
        self._speak_other = speak_other
        self._others = definition.versions != (PROTOCOL_VERSION,)
        """Whether another version can still be negotiated."""

    def register(self, call: LiveCall) -> None:
        """Store the client's announcements, before later messages are processed. Raises InvalidParams and the
        exceptions of `speak_other`."""
        version = call.params.get("protocolVersion")
        if self._others and type(version) is int and version != PROTOCOL_VERSION:
            self._speak_other(call)
            return
        if type(version) is not int or not 0 <= version <= 0xFFFF:
            # The schema reads every other member leniently; it may refuse this one.
            from acp_server.schema.initialization import InitializeRequest
            from acp_server.schema.reading import read

            read(InitializeRequest, call.params)
        elif version > PROTOCOL_VERSION:
            self._learn(call, as_v1(call.params))
            return
        self._learn(call, call.params)

    def _learn(self, call: LiveCall, params: dict[str, Any]) -> None:
        self._profile.learn(params)
        self._others = False
        call.follower = Greeting(self._answer, self._definition, self._profile)

    def _answer(self) -> dict[str, Any]:
        """Return the response to `initialize`. It has version 1, whichever version the client requested (ACP, Version
        Negotiation)."""
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": self.capabilities(),
            "authMethods": self._auth_methods(),
            "agentInfo": self._definition.info,
            **self._definition.offers,
        }

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities of the agent: `AgentCapabilities` in its wire form."""
        definition = self._definition
        capabilities: dict[str, Any] = {}
        if definition.prompt is not None:
            if "load" in definition.sessions:
                capabilities["loadSession"] = True
            names = ("list", "delete", "additional_directories", "resume", "close")
            supported = [_WIRE.get(name, name) for name in names if name in definition.sessions]
            capabilities["sessionCapabilities"] = {name: {} for name in supported} | definition.session_features
        if definition.accepts:
            names = {"image": "image", "audio": "audio", "embedded_context": "embeddedContext"}
            capabilities["promptCapabilities"] = {names[kind]: True for kind in definition.accepts}
        if definition.mcp:
            capabilities["mcpCapabilities"] = dict.fromkeys(definition.mcp, True)
        if definition.logout is not None:
            capabilities["auth"] = {"logout": {}}
        if definition.extensions:
            capabilities["_meta"] = definition.extensions
        return capabilities

    def _auth_methods(self) -> list[dict[str, Any]]:
        methods = self._definition.auth_methods
        # Terminal methods are only for clients that can run them (ACP, Authentication).
        if any(_is_terminal(method) for method in methods) and not self._profile.capabilities.auth.terminal:
            methods = [method for method in methods if not _is_terminal(method)]
        return methods


class Greeting(Follower):
    """The response to one `initialize`. `answer` makes the response, in the version that was chosen when the request
    arrived."""

    __slots__ = ("_change", "_profile", "answer")

    def __init__(
        self, answer: Callable[[], dict[str, Any]], definition: AgentDefinition, profile: ClientProfile
    ) -> None:
        self.answer: Callable[[], dict[str, Any]] = answer
        self._change: Callable[[Initialization], Awaitable[None]] | None = definition.initialize
        self._profile = profile

    async def serve(self, call: LiveCall) -> dict[str, Any]:
        """Return the response, with the changes of the author's function."""
        answer = self.answer()
        if self._change is not None:
            # A copy, because capabilities and login methods belong to the definition, which all connections share.
            answer = deepcopy(answer)
            await self._change(Initialization(call, self._profile, answer))
        return answer


async def initialize(call: LiveCall) -> dict[str, Any]:
    """Answer `initialize`."""
    return await call.follower.serve(call)


def _is_terminal(method: dict[str, Any]) -> bool:
    return method.get("type") == "terminal"


def as_v1(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an `initialize` for a version above 1, in the form of version 1.

    Members that the client also sent in the form of version 1 take precedence. Nothing is validated, because the types
    of version 1 are lenient. `params` is not changed.
    """
    told = dict(params)
    if "info" in told:
        told.setdefault("clientInfo", told["info"])
    if isinstance(told.get("capabilities"), dict):
        told.setdefault("clientCapabilities", _capabilities(told["capabilities"]))
    return told


def _capabilities(told: dict[str, Any]) -> dict[str, Any]:
    """Return the capabilities in the form of version 1. Only `auth.terminal` differs: it is an object in version 2."""
    auth = told.get("auth")
    if not isinstance(auth, dict) or not isinstance(cast("dict[str, Any]", auth).get("terminal"), dict):
        return told
    return {**told, "auth": {**auth, "terminal": True}}


class Login:
    """The login of one connection. If credentials are valid for longer than a connection, the author must handle
    that."""

    def __init__(self, definition: AgentDefinition) -> None:
        self._definition = definition
        self._passed = not definition.auth_required

    def check(self) -> None:
        """Raise AuthRequired if the client has to log in first."""
        if not self._passed:
            raise AuthRequired

    async def authenticate(self, call: LiveCall) -> dict[str, Any]:
        """Answer `authenticate`, which is `auth/login` in version 2. Raises InvalidParams."""
        from acp_server.schema.initialization import AuthenticateRequest
        from acp_server.schema.reading import problem, read

        request = read(AuthenticateRequest, call.params)
        check = self._definition.authenticate.get(request.method_id)
        if check is None:
            raise problem("methodId", "is not one of this agent's methods")
        await check(call)
        self._passed = True
        return {}

    async def logout(self, call: LiveCall) -> dict[str, Any]:
        """Answer `logout`, which is `auth/logout` in version 2."""
        if self._definition.logout is not None:
            await self._definition.logout(call)
        self._passed = not self._definition.auth_required
        return {}

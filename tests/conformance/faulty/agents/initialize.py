"""Faults in the negotiation."""

from __future__ import annotations

from clean import Clean
from rpc import Json, Request, RpcError


class VersionAsText(Clean):
    """Writes the version of the protocol as a string."""

    def negotiated(self, version: int) -> Json:
        return "1"


class EveryVersion(Clean):
    """Agrees to a version of the protocol that does not exist."""

    def negotiated(self, version: int) -> int:
        return version


class OnlyItsVersion(Clean):
    """Answers an error to a client that is newer."""

    def negotiated(self, version: int) -> int:
        if version != 1:
            raise RpcError(-32602, "Unsupported version")
        return 1


class OlderVersion(Clean):
    """Answers version 0 to a client that speaks version 1 as well as it does."""

    def negotiated(self, version: int) -> int:
        return 0


class NoVersion(Clean):
    """Does not say which version it speaks."""

    async def initialize(self, request: Request) -> Json:
        result = await super().initialize(request)
        del result["protocolVersion"]
        return result


class NeedsCapabilities(Clean):
    """Refuses a client that lists no capabilities."""

    async def initialize(self, request: Request) -> Json:
        self.param(request, "clientCapabilities", dict)
        return await super().initialize(request)


class NeedsClientInfo(Clean):
    """Refuses a client that does not say its name."""

    async def initialize(self, request: Request) -> Json:
        self.param(request, "clientInfo", dict)
        return await super().initialize(request)


class NoStrangers(Clean):
    """Refuses parameters that it does not know."""

    async def initialize(self, request: Request) -> Json:
        if request.params.keys() - {"protocolVersion", "clientCapabilities", "clientInfo", "_meta"}:
            raise RpcError(-32602, "Unknown parameter")
        if request.params.get("clientCapabilities", {}).keys() - {"fs", "terminal", "_meta"}:
            raise RpcError(-32602, "Unknown capability")
        return await super().initialize(request)


class LoginWithoutEffect(Clean):
    """Wants the user to authenticate, also after that was done."""

    async def new_session(self, request: Request) -> Json:
        raise RpcError(-32000, "Authentication required")


class OffersAnotherWay(Clean):
    """Takes a way to authenticate that it does not offer."""

    def ways(self) -> list[Json]:
        return [{"id": "token", "name": "With a token"}]


class AnyWayIsFine(Clean):
    """Takes every way to authenticate."""

    async def authenticate(self, request: Request) -> Json:
        return {}

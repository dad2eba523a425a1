"""Faults of the beginning: initialize, the session, the prompt."""

import asyncio
from typing import Any

from clean import Client


class SkipsInitialize(Client):
    """Opens a session at once."""

    async def work(self) -> None:
        await self.new_session()
        await self.prompt()


class DoesNotWait(Client):
    """Sends session/new right behind initialize."""

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.initialize())
            group.create_task(self.new_session())
        await self.prompt()


class PromptsBeforeTheSession(Client):
    """Sends session/prompt right behind session/new, with an id that it hopes for."""

    async def work(self) -> None:
        await self.initialize()
        self.session_id = "sess_Ü/1"
        async with asyncio.TaskGroup() as group:
            group.create_task(self.new_session())
            group.create_task(self.prompt())


class _Asks(Client):
    """Says something else in initialize."""

    said: Any = None

    async def initialize(self) -> dict[str, Any]:
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities, "clientInfo": None, **self.said}
        return await self.request("initialize", params)


class VersionIsAString(_Asks):
    """Asks for version "1"."""

    said = {"protocolVersion": "1.0"}  # noqa: RUF012


class NamesNothing(_Asks):
    """Has no name."""

    said: dict[str, Any] = {}  # noqa: RUF012


class TakesAnyVersion(Client):
    """Does not look at the version that it gets."""

    async def initialize(self) -> dict[str, Any]:
        return {**await super().initialize(), "protocolVersion": 1}


class NeedsEverything(Client):
    """Reads what the agent may leave out."""

    async def initialize(self) -> dict[str, Any]:
        answer = await super().initialize()
        if "agentCapabilities" not in answer:
            raise RuntimeError("an agent without capabilities")
        return answer


class KnowsAllCapabilities(Client):
    """Takes no capability that it does not know."""

    async def initialize(self) -> dict[str, Any]:
        answer = await super().initialize()
        unknown = set(answer.get("agentCapabilities") or ()) - {"loadSession", "promptCapabilities"}
        if unknown:
            raise RuntimeError(f"unknown capabilities: {unknown}")
        return answer


class _Opens(Client):
    """Opens its session with other params."""

    opened: Any = None

    async def new_session(self) -> None:
        self.session_id = (await self.request("session/new", self.opened))["sessionId"]


class RelativeCwd(_Opens):
    """Names its folder by a relative path."""

    opened = {"cwd": ".", "mcpServers": []}  # noqa: RUF012


class NoMcpServers(_Opens):
    """Leaves the MCP servers out."""

    opened = {"cwd": "/tmp"}  # noqa: RUF012


class UnannouncedTransport(_Opens):
    """Names an MCP server by HTTP, whatever the agent announces."""

    opened = {  # noqa: RUF012
        "cwd": "/tmp",
        "mcpServers": [{"type": "http", "name": "web", "url": "https://localhost/mcp", "headers": []}],
    }


class UnannouncedDirectories(_Opens):
    """Names a further folder, whatever the agent announces."""

    opened = {"cwd": "/tmp", "mcpServers": [], "additionalDirectories": ["/"]}  # noqa: RUF012


class InventsALogin(Client):
    """Authenticates by a method that nobody offers."""

    async def work(self) -> None:
        await self.initialize()
        await self.request("authenticate", {"methodId": "default"})
        await super().work()


class LogsInByTerminal(Client):
    """It announces logins in a terminal, and sends `authenticate` for one, which it must not."""

    capabilities = {**Client.capabilities, "auth": {"terminal": True}}  # noqa: RUF012

    async def initialize(self) -> dict[str, Any]:
        answer = await super().initialize()
        for way in answer["authMethods"][:1]:
            await self.request("authenticate", {"methodId": way["id"]})
        return answer


class _Prompts(Client):
    """Prompts with other params."""

    def params(self) -> dict[str, Any]:
        raise NotImplementedError

    async def prompt(self) -> None:
        await self.request("session/prompt", self.params())


class ChangesTheSessionId(_Prompts):
    """Writes the session's id in ASCII."""

    def params(self) -> dict[str, Any]:
        id = self.session_id.encode("ascii", "ignore").decode()
        return {"sessionId": id, "prompt": [{"type": "text", "text": "hello"}]}


class SendsAnImage(_Prompts):
    """Sends an image, whatever the agent announces."""

    def params(self) -> dict[str, Any]:
        image = {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}
        return {"sessionId": self.session_id, "prompt": [image]}


class PromptIsAString(_Prompts):
    """Sends a text instead of a list of content."""

    def params(self) -> dict[str, Any]:
        return {"sessionId": self.session_id, "prompt": "hello"}


class ListsSessions(Client):
    """Asks for the agent's sessions, whatever the agent announces."""

    async def new_session(self) -> None:
        try:
            await self.request("session/list", {})
        except RuntimeError:
            pass
        await super().new_session()


class MethodOfItsOwn(Client):
    """Calls a method of its own by a name that the protocol may want one day."""

    async def new_session(self) -> None:
        self.notify("session/hello", {})
        await super().new_session()


class AddsMembers(_Asks):
    """Has members of its own at the root of a type of the protocol."""

    said = {"apiKey": "none"}  # noqa: RUF012

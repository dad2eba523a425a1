"""No faults, but ways of their own."""

import asyncio
from collections.abc import Callable
from typing import Any

from clean import Client


class LooksFirst(Client):
    """Starts the agent to see what it can do, ends it, and starts it again for the work."""

    looked = False

    async def work(self) -> None:
        if self.looked:
            return await super().work()
        self.looked = True
        await self.initialize()
        return None

    async def run(self) -> int:
        await super().run()
        return await super().run()


class DeclinesForms(Client):
    """Shows forms, which its user declines."""

    capabilities = {**Client.capabilities, "elicitation": {"form": {}}}  # noqa: RUF012

    def handlers(self) -> dict[str, Callable[[Any], Any]]:
        return {**super().handlers(), "elicitation/create": self.form}

    async def form(self, params: Any) -> Any:
        return {"action": "decline"}


class StripsTheEnvironment(Client):
    """Starts its agent with an empty environment, in another folder."""

    async def start(self, **options: Any) -> None:
        await super().start(env={}, cwd="/")


class PromptsTwice(Client):
    """Has a second prompt."""

    async def prompt(self) -> None:
        await super().prompt()
        await super().prompt()


class KillsItsAgent(Client):
    """Does not ask its agent to go."""

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class StartsAnotherAgent(Client):
    """Starts its agent again when it dies, once."""

    async def run(self) -> int:
        status = await super().run()
        return await super().run() if status else 0


class TakesItsTime(Client):
    """Takes long for everything."""

    async def request(self, method: str, params: Any) -> Any:
        await asyncio.sleep(0.7)
        return await super().request(method, params)

    async def serve(self, message: dict[str, Any]) -> None:
        await asyncio.sleep(0.7)
        await super().serve(message)

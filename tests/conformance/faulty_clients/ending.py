"""Faults of the end."""

import asyncio
from typing import Any

from clean import Client


class HangsWithoutItsAgent(Client):
    """Waits for the answer of an agent that is gone."""

    def lost(self) -> None:
        pass


class HangsAtTheStart(Client):
    """Waits for an agent that was gone at once."""

    def lost(self) -> None:
        if self.session_id:
            super().lost()


class WaitsForTheExit(Client):
    """Watches the agent's process, and not its output."""

    def lost(self) -> None:
        self.watching = asyncio.create_task(self.watch())

    async def watch(self) -> None:
        await self.process.wait()
        super().lost()


class StaysAfterItsTurn(Client):
    """Does not end, with nothing left to do."""

    async def prompt(self) -> None:
        await super().prompt()
        await asyncio.get_running_loop().create_future()


class LeavesItsAgent(Client):
    """Ends without an eye to its agent."""

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


class HangsOnAnError(Client):
    """Waits for ever for a prompt that has failed."""

    def message(self, message: dict[str, Any]) -> None:
        if "error" in message:
            self.line = self.deaf
            return
        super().message(message)

    def deaf(self, line: bytes) -> None:
        """Hear nothing."""


class ForgetsItsSession(Client):
    """Opens another session when a prompt has failed, and goes on in that one."""

    async def prompt(self) -> None:
        try:
            await super().prompt()
        except RuntimeError:
            await self.new_session()
            raise


class StaysBusy(Client):
    """Holds a turn that has failed for one that runs, and sends no other."""

    async def prompt(self) -> None:
        if self.in_turn:
            await asyncio.get_running_loop().create_future()
        self.in_turn = True
        params = {"sessionId": self.session_id, "prompt": [{"type": "text", "text": "hello"}]}
        await self.request("session/prompt", params)
        self.in_turn = False


class PromptsMeanwhile(Client):
    """Sends what is typed at once, also while a turn runs."""

    async def prompt(self) -> None:
        self.typing = asyncio.create_task(self.type_on())
        await super().prompt()

    async def type_on(self) -> None:
        await self.typed()
        if self.meanwhile():
            await super().prompt()

    def meanwhile(self) -> bool:
        return True


class PromptsWhileItStops(PromptsMeanwhile):
    """Sends what is typed without waiting for the end of a turn that was cancelled."""

    def meanwhile(self) -> bool:
        return self.cancelling

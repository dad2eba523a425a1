"""What sessions of tests have open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from acp_server import Agent, Session, Turn, grace


class Server:
    """What the tests open: it notes what happens to it, and has a task group open, which only one task may leave."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.tasks: list[int] = []
        self.opening = anyio.Event()
        self.may_open = anyio.Event()
        self.may_open.set()
        self.broken = anyio.Event()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        self.log.append("opening")
        self.tasks.append(anyio.get_current_task().id)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._work)
                self.opening.set()
                await self.may_open.wait()
                self.log.append("open")
                yield "the server"
                group.cancel_scope.cancel()
        finally:
            with grace(1):
                await anyio.lowlevel.checkpoint()
            self.tasks.append(anyio.get_current_task().id)
            self.log.append("closed")

    async def _work(self) -> None:
        await self.broken.wait()
        raise ValueError("the server broke")


def served(server: Server) -> Agent:
    """An agent whose sessions each have a server of their own open."""
    agent = Agent("served")

    @agent.session
    async def prepare(_session: Session) -> AsyncIterator[str]:
        async with server.serve() as name:
            yield name

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return f"{turn.session.data} is {server.log[-1]}"

    return agent

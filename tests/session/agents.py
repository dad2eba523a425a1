"""Agents for tests."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio

from acp_server import Agent, Session, Turn, grace, schema
from acp_server.store.memory import MemoryStore
from tests.store.stores import TestStore


def listener() -> tuple[Agent, list[str], list[Turn]]:
    """An agent that says that it is here and hangs if told so, and what it saw."""
    agent = Agent("listener")
    seen: list[str] = []
    turns: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        turns.append(turn)
        seen.append(turn.text)
        yield f"{turn.text} begun"
        if turn.text.startswith("hang"):
            await anyio.sleep_forever()

    return agent, seen, turns


def keeping(handler: Callable[[Turn], Any], store: MemoryStore | None = None) -> tuple[Agent, list[Turn]]:
    """An agent with this handler, and its turns."""
    agent = Agent("lives", store=store)
    turns: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        await handler(turn)

    return agent, turns


def talker(store: TestStore | None = None) -> tuple[Agent, list[Session]]:
    """An agent that echoes, hangs if told so, and the sessions it was asked to prepare."""
    agent = Agent("talker", store=store)
    sessions: list[Session] = []

    @agent.session
    async def prepare(session: Session) -> None:
        sessions.append(session)
        await session.set_commands([schema.AvailableCommand(name="x", description="y")])

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        yield f"re: {turn.text}"
        if turn.text == "hang":
            await anyio.sleep_forever()
        if turn.text == "outstay":
            try:
                await anyio.sleep_forever()
            finally:
                with grace(60):
                    await turn.session.data.wait()

    return agent, sessions


def setup(session: str | None = None, **params: Any) -> dict[str, Any]:
    return {"cwd": "/project", "mcpServers": [], **({"sessionId": session} if session else {}), **params}

"""Agents with child sessions, and editors that show them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_server import Agent, Limits, Turn
from acp_server.schema.features import Unstable
from tests.session import editor as v1
from tests.session.editor import CALM, EVERYTHING, Editor
from tests.session.v2 import editor as v2

SHOWS = {**EVERYTHING, "subagents": {}}
"""What a client of version 1 announces that shows child sessions."""
KINDS = ["version 1", "version 2"]


def delegating(
    work: Callable[[Turn], Awaitable[None]], unstable: Iterable[Unstable] = ("subagents",), **options: Any
) -> Agent:
    """An agent that has child sessions, and this for a prompt handler."""
    agent = Agent("boss", unstable=unstable, **options)

    @agent.tool
    async def look() -> str:
        return "seen"

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await work(turn)

    return agent


@asynccontextmanager
async def showing(agent: Agent, kind: str, limits: Limits = CALM, *, leaks: int = 0) -> AsyncGenerator[Editor]:
    """An editor that shows child sessions."""
    if kind == "version 2":
        async with v2.editing(agent, limits, leaks=leaks) as editor:
            yield editor
    else:
        async with v1.editing(agent, limits, SHOWS, leaks=leaks) as editor:
            yield editor


async def child_of(editor: Editor, session: str, title: str) -> str:
    """The id of a child, once it is announced."""
    found: list[str] = []

    def is_there() -> bool:
        found[:] = [each["sessionId"] for each in announced(editor, session) if each.get("title") == title]
        return bool(found)

    await editor.client._wait_for(is_there, f"there is no child {title}")
    return found[-1]


def announced(editor: Editor, session: str | None = None) -> list[dict[str, Any]]:
    """What was said of the children of a session."""
    return [each for each in editor.client.updates(session) if each["sessionUpdate"] == "subagent_update"]


def states(editor: Editor, child: str) -> list[dict[str, Any]]:
    """The states of a child so far, as its parent's client is told."""
    return [each["state"] for each in announced(editor) if each["sessionId"] == child and each.get("state")]


def words(editor: Editor, session: str) -> str:
    """What was said in one session by its agent."""
    return "".join(editor.said(session))


async def begin(editor: Editor, session: str, text: str = "go") -> Any:
    """Send a prompt, and wait for no end of it: its id."""
    return await editor.prompt(session, text)


async def end(editor: Editor, session: str, id: Any) -> str:
    """Why a turn has ended."""
    answer = await editor.answer(id)
    if isinstance(editor, v2.Editor):
        return (await editor.idle(session))["stopReason"]
    return answer["stopReason"]


async def reviewing(turn: Turn) -> None:
    """Has a child, which hangs if told so."""
    await turn.say("before ")
    async with turn.subagent("Reviewer", task="Look at the diff", description="Looks", cwd="/other") as child:
        assert child.text == "Look at the diff"
        assert child.session.cwd == "/other"
        assert [message.text for message in child.context()] == ["Look at the diff"]
        await child.say("inside")
        await child.run_tool("look")
        if turn.text == "hang":
            await anyio.sleep_forever()
    await turn.say("cancelled" if child.is_cancelled else "after")

"""Tools that are generators: what they yield goes out, they wait for slow clients, and let others have their turn."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Turn
from acp_server.peer.writer import HIGH_WATER
from acp_server.schema import AgentMessageChunk, TextContent
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.tools.calls import shown

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("piece", ["word ", "", TextContent(text="word")], ids=["text", "nothing", "content"])
@pytest.mark.parametrize("reads", [True, False])
async def test_a_generator_that_never_waits_is_cancelled_soon_and_lets_others_work(piece: Any, reads: bool) -> None:
    agent = Agent("a")
    count = 0

    @agent.tool
    async def flood() -> AsyncGenerator[Any]:
        nonlocal count
        for _ in range(10_000_000):
            count += 1
            yield piece

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text != "short":
            await turn.run_tool("flood", id="c1")

    async with editing(agent) as editor:
        session, other = await editor.open(), await editor.open()
        if not reads:
            editor.stream.stall_sending()
        id = await editor.prompt(session)
        short = await editor.prompt(other, "short")
        await editor.cancel(session)
        if not reads:
            await editor.stream.stalled.wait()
            editor.stream.release()
        with anyio.fail_after(10):
            assert await editor.answer(short) == END_TURN
            assert await editor.answer(id) == CANCELLED
        assert shown(editor)[-1]["status"] == "failed"
    assert count < 1_000_000


async def test_a_generator_waits_for_a_client_that_does_not_read() -> None:
    agent = Agent("a")
    count = 0

    @agent.tool
    async def pieces() -> AsyncGenerator[str]:
        nonlocal count
        for _ in range(3):
            count += 1
            yield "piece "

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.put(AgentMessageChunk(content=TextContent(text="x" * 2 * HIGH_WATER)))
        await turn.run_tool("pieces")

    async with editing(agent) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await editor.stream.stalled.wait()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert count == 1
        editor.stream.release()
        assert await editor.answer(id) == END_TURN
    assert count == 3


async def test_a_generator_that_yields_what_cannot_be_shown_fails_and_is_closed_by_then() -> None:
    agent = Agent("a")
    closed: list[bool] = []

    @agent.tool
    async def odd() -> AsyncGenerator[Any]:
        try:
            yield object()
        finally:
            closed.append(True)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        result = await turn.run_tool("odd")
        assert closed == [True]
        return result.status

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["failed"]

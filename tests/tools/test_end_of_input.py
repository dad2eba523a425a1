"""The client ends its output while a tool waits for it: the call fails, and the turn has the drain."""

import pytest

from acp_server import Agent, ConnectionClosed, Limits, ToolContext, Turn
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio


def reading(told: list[str], *, goes_on: bool) -> Agent:
    agent = Agent("reader")

    @agent.tool
    async def read(call: ToolContext) -> str:
        return await call.client.read_text_file("/a")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        result = await turn.run_tool("read", {})
        told.append(f"{result.status}: {result.message}")
        if isinstance(result.error, ConnectionClosed) and not goes_on:
            raise result.error
        await turn.say("Without it.")

    return agent


@pytest.mark.parametrize("goes_on", [True, False])
async def test_the_tool_fails_and_the_turn_ends_as_its_author_says(goes_on: bool) -> None:
    told: list[str] = []
    # It still reads, and a drain that does not end by itself holds the turn.
    async with editing(reading(told, goes_on=goes_on), Limits(drain=20)) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("fs/read_text_file")
        editor.stream.end_input()
        answer = await editor.answer(id)
        assert told == ["failed: The client is gone."]
        assert (answer == END_TURN) is goes_on
        assert editor.said() == (["Without it."] if goes_on else [])

"""Functions of tools that do not care whether they were cancelled: nobody cares for what they do then."""

from collections.abc import Callable

import anyio
import pytest

from acp_server import Agent, RequestCancelled, ToolContext
from acp_server.tasks.threads import in_loop
from tests.session.editor import END_TURN, editing
from tests.tools.stage import OWN, Stage, running_one, status_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["plain", "plain assistant"])
async def test_a_function_that_goes_on_in_its_thread_is_ignored(kind: str) -> None:
    stage = Stage(kind, lambda stage: "partial")
    refused: list[str] = []

    def go_on(is_cancelled: Callable[[], bool]) -> str:
        in_loop(stage.running.set)
        stage.release.wait(10)
        if stage.call is not None:
            stage.call.progress("late")
            stage.call.raw_output = "late"
        try:
            in_loop(stage.turn.say, "late")
        except RequestCancelled:
            refused.append(kind)
        stage.left.set()
        return "late"

    stage.wait_in_thread = go_on
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.release.set()
        stage.left.wait(5)
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome == ("cancelled", "partial")
    assert refused == [kind]


@pytest.mark.parametrize("ends", ["returns", "raises"])
async def test_a_function_that_catches_its_cancel_is_ignored(ends: str) -> None:
    stage = Stage("async", lambda stage: "partial")
    body = stage.body

    async def caught(call: ToolContext) -> str:
        try:
            return await body(call)
        except anyio.get_cancelled_exc_class():
            if ends == "raises":
                raise ValueError("late") from None
            return "late"

    other = Stage("async")
    other.agent = Agent("catching")
    other.agent.tool(name="search")(caught)
    other.agent.prompt(running_one(stage))
    async with editing(other.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await stage.running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        assert await editor.answer(prompt) == END_TURN
        assert "late" not in str(editor.client.received)
    assert stage.outcome == ("cancelled", "partial")

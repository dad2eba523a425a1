"""`is_cancelled` and `on_cancel` of an `AssistantTool` in threads that its author has started."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from acp_server import Agent, ToolResult, Turn
from acp_server.apps.assistant import AssistantTool
from acp_server.tasks.threads import in_loop
from tests.apps.assistant.assistants import PLAIN, Case
from tests.session.editor import editing

pytestmark = pytest.mark.anyio


async def test_is_cancelled_can_be_read_in_a_thread_of_the_authors_while_one_execution_runs() -> None:
    case = Case(PLAIN)
    running, seen = anyio.Event(), threading.Event()
    texts: list[str] = []

    def work() -> None:
        assert not case.tool.is_cancelled
        case.tool.on_cancel = lambda: "what there is"
        assert case.tool.on_cancel is not None
        for _ in range(2_000):
            if case.tool.is_cancelled:
                texts.append("cancelled")
                return
            seen.wait(0.005)

    def execute() -> dict[str, Any]:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            in_loop(running.set)
            future.result()
        seen.set()
        return {"success": True, "message": "ignored"}

    case.tool.register_execute_tool(execute)
    async with case.running() as (editor, session, prompt):
        with anyio.fail_after(10):
            await running.wait()
        # What the thread sets is there before it is cancelled.
        with anyio.fail_after(10):
            while not any(each.on_cancel for each in case.tool._executions):
                await anyio.lowlevel.checkpoint()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})
        await editor.answer(prompt)
        await anyio.to_thread.run_sync(seen.wait, 10)
    assert texts == ["cancelled"]
    assert case.outcome == ("cancelled", "what there is")


async def test_where_several_run_a_thread_of_the_authors_is_told_once_what_to_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("a")
    tool = AssistantTool(PLAIN, agent)
    begun = [anyio.Event(), anyio.Event()]
    go_on = anyio.Event()
    results: list[ToolResult] = []

    async def execute(params: dict[str, Any]) -> dict[str, Any]:
        begun[int(params["query"])].set()
        await go_on.wait()
        return {"success": True, "message": "done"}

    def ask() -> None:
        for _ in range(3):
            assert tool.is_cancelled is False
        tool.on_cancel = lambda: "nobody's"

    async def run(turn: Turn, number: int) -> None:
        results.append(await turn.run_tool("search", {"query": str(number)}))

    tool.register_execute_tool(execute)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run, turn, 0)
            group.start_soon(run, turn, 1)
            with anyio.fail_after(10):
                await begun[0].wait()
                await begun[1].wait()
            thread = threading.Thread(target=ask)
            thread.start()
            await anyio.to_thread.run_sync(thread.join, 10)
            go_on.set()

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
    assert [result.status for result in results] == ["completed", "completed"]
    assert caplog.text.count("cannot tell which of 2 running executions this thread belongs to") == 1
    assert "call: ToolContext" in caplog.text
    assert "on_cancel of search was set while the tool was not running" in caplog.text

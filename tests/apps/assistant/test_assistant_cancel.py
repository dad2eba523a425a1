"""`AssistantTool` and cancelling: `on_cancel` and `is_cancelled` mean the execution that they are asked in."""

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from acp_server import Agent, Turn
from acp_server.apps.assistant import AssistantTool
from acp_server.store.records import ToolResult
from acp_server.tasks.threads import in_loop
from tests.apps.assistant.assistants import PLAIN, Case, statuses
from tests.session.editor import editing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_on_cancel_returns_the_partial_results_and_what_comes_later_is_ignored(plain: bool):
    case = Case(PLAIN)
    running, ended, never = anyio.Event(), threading.Event(), threading.Event()
    seen: list[Any] = []

    def partial() -> str:
        seen.append(("on_cancel", case.tool.is_cancelled))
        return "Cancelled by the user.\nPartial results:\none"

    async def search() -> None:
        assert not case.tool.is_cancelled
        case.tool.on_cancel = partial
        assert case.tool.on_cancel is partial
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(("after", case.tool.is_cancelled))
            ended.set()

    async def tell() -> None:
        running.set()

    def search_plainly() -> dict[str, Any]:
        case.tool.on_cancel = partial
        in_loop(tell)
        while not case.tool.is_cancelled:
            never.wait(0.001)
        seen.append(("after", case.tool.is_cancelled))
        ended.set()
        return {"success": True, "message": "all of it"}

    case.tool.register_execute_tool(search_plainly if plain else search)
    async with case.running() as (editor, session, prompt):
        with anyio.fail_after(5):
            await running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})
        assert await editor.answer(prompt) == {"stopReason": "end_turn"}
        assert statuses(editor)[-1] == "failed"
    assert case.outcome == ("cancelled", "Cancelled by the user.\nPartial results:\none")
    assert await anyio.to_thread.run_sync(ended.wait, 5)
    assert sorted(seen) == [("after", True), ("on_cancel", True)]
    assert case.tool.on_cancel is None


async def test_without_on_cancel_a_cancel_needs_nothing():
    case = Case(PLAIN)
    running = anyio.Event()

    async def slow() -> dict[str, Any]:
        running.set()
        await anyio.sleep_forever()
        return {"success": True, "message": "Operation completed."}

    case.tool.register_execute_tool(slow)
    async with case.running() as (editor, session, prompt):
        with anyio.fail_after(5):
            await running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})
        await editor.answer(prompt)
    assert case.outcome == ("cancelled", None)


async def test_executions_in_parallel_do_not_mix():
    agent = Agent("test")
    tool = AssistantTool(PLAIN, agent)
    events = {name: anyio.Event() for name in "ab"}
    results: dict[str, ToolResult] = {}
    seen: list[tuple[str, bool]] = []
    go = anyio.Event()

    async def search(params: dict[str, Any]) -> dict[str, Any]:
        name = params["query"]
        tool.on_cancel = lambda: f"partial of {name}"
        events[name].set()
        await go.wait()
        seen.append((name, tool.is_cancelled))
        assert tool.on_cancel is not None
        return {"success": True, "message": tool.on_cancel() or ""}

    tool.register_execute_tool(search)

    @agent.prompt
    async def handler(turn: Turn) -> None:
        async def one(name: str) -> None:
            results[name] = await turn.run_tool("search", {"query": name}, id=name)

        async with anyio.create_task_group() as group:
            for name in events:
                group.start_soon(one, name)

    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        with anyio.fail_after(5):
            for event in events.values():
                await event.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "a"})
        go.set()
        assert await editor.answer(prompt) == {"stopReason": "end_turn"}
    assert (results["a"].status, results["a"].message) == ("cancelled", "partial of a")
    assert (results["b"].status, results["b"].message) == ("completed", "partial of b")
    assert seen == [("b", False)]


def test_outside_of_an_execution_on_cancel_has_no_effect_and_warns(caplog: pytest.LogCaptureFixture):
    tool = AssistantTool(PLAIN)
    tool.on_cancel = lambda: "never"
    assert tool.on_cancel is None
    assert not tool.is_cancelled
    assert [record.getMessage() for record in caplog.records] == [
        "on_cancel of search was set while the tool was not running, so the function is not called"
    ]
    caplog.clear()
    tool.on_cancel = None
    assert not caplog.records
    with pytest.raises(TypeError):
        tool.on_cancel = "never"  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_function_that_catches_the_cancel_and_returns_nothing_is_no_mistake(caplog: pytest.LogCaptureFixture):
    case = Case(PLAIN)
    running = anyio.Event()

    async def search() -> None:
        case.tool.on_cancel = lambda: "partial"
        running.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            assert case.tool.is_cancelled

    case.tool.register_execute_tool(search)
    async with case.running() as (editor, session, prompt):
        with anyio.fail_after(5):
            await running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})
        await editor.answer(prompt)
    assert case.outcome == ("cancelled", "partial")
    assert "must return" not in caplog.text


async def test_what_an_execution_left_behind_sets_after_its_end_has_no_effect(caplog: pytest.LogCaptureFixture):
    tool = AssistantTool(PLAIN)
    over = anyio.Event()
    seen: list[Any] = []

    async def later() -> None:
        await over.wait()
        seen.append(tool.on_cancel)
        tool.on_cancel = lambda: "late"
        seen.append(tool.on_cancel)

    async with anyio.create_task_group() as group:

        async def search() -> dict[str, Any]:
            tool.on_cancel = lambda: "partial"
            group.start_soon(later)
            return {"success": True, "message": ""}

        await tool.register_execute_tool(search)({})
        over.set()
    assert seen == [None, None]
    assert "on_cancel of search was set while the tool was not running" in caplog.text


async def test_an_execution_inside_of_another_leaves_that_as_it_was():
    tool = AssistantTool(PLAIN)
    seen: list[str] = []

    async def search(params: dict[str, Any]) -> dict[str, Any]:
        tool.on_cancel = lambda: "outer" if "query" in params else "inner"
        if "query" in params:
            await test({})
        assert tool.on_cancel is not None
        seen.append(tool.on_cancel() or "")
        return {"success": True, "message": ""}

    test = tool.register_execute_tool(search)
    await test({"query": "x"})
    assert seen == ["inner", "outer"]

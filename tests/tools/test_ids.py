"""What a tool call is called: by its model, which may use a name again, and by the client, for which it is new."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, ToolContext, ToolResult, Turn, grace
from acp_server.tools import session_tools
from tests.session.agents import talker
from tests.session.editor import END_TURN, editing
from tests.tools.calls import shown

pytestmark = pytest.mark.anyio


async def test_a_session_remembers_the_ids_that_were_wanted_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_tools, "_MOST_IDS", 2)
    agent, sessions = talker()
    async with editing(agent) as editor:
        await editor.open()
        given = sessions[0].tools.tool_call_id
        assert [given("call_0"), given("call_1")] == ["call_0", "call_1"]
        # A model that counts its calls from 0 in each turn wants the same ones again and again.
        assert given("call_0") != "call_0"
        assert given("call_2") == "call_2"
        assert given("call_0") != "call_0"
        assert given("call_1") == "call_1"


@pytest.mark.parametrize("tool", ["look", "unknown"])
async def test_an_id_that_is_used_again_is_new_for_the_client_and_the_same_for_the_model(tool: str) -> None:
    agent = Agent("a")
    seen: list[str] = []
    results: list[ToolResult] = []

    @agent.tool
    async def look(call: ToolContext) -> str:
        seen.append(call.id)
        return "done"

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.extend([await turn.run_tool(tool, id="call_0") for _ in range(2)])

    async with editing(agent) as editor:
        session, other = await editor.open(), await editor.open()
        assert await editor.ask(session) == END_TURN
        # And so in the next turn, but for another session it is new.
        assert await editor.ask(session) == END_TURN
        assert await editor.ask(other) == END_TURN
        told = shown(editor)
    begun = [u["toolCallId"] for u in told if u["sessionUpdate"] == "tool_call"]
    assert begun.count("call_0") == 2
    assert (begun[0], begun[4]) == ("call_0", "call_0")
    assert len(set(begun)) == 5
    ended = [u["toolCallId"] for u in told if u.get("status") in ("completed", "failed")]
    assert ended == begun
    assert {r.id for r in results} == {"call_0"}
    assert seen == (begun if tool == "look" else [])


async def test_a_call_whose_id_was_used_before_is_cancelled_by_either_id() -> None:
    agent = Agent("a")
    last = anyio.Event()
    running: list[anyio.Event] = []
    calls: list[ToolContext] = []
    results: list[ToolResult] = []

    @agent.tool
    async def wait(call: ToolContext) -> None:
        calls.append(call)
        if len(calls) > 1:
            running[-1].set()
            await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def one() -> None:
            results.append(await turn.run_tool("wait", id="call_0"))

        await one()
        for by in ("given", "shown", "client"):
            running.append(last if by == "client" else anyio.Event())
            async with anyio.create_task_group() as group:
                group.start_soon(one)
                await running[-1].wait()
                if by == "given":
                    assert turn.cancel_tool("call_0")
                elif by == "shown":
                    assert turn.cancel_tool(calls[-1].id)

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        with anyio.fail_after(5):
            await last.wait()
        # For the client `call_0` is the first one, which has ended.
        refusal = await editor.refusal("_tool_call/cancel", {"sessionId": session, "toolCallId": "call_0"})
        assert refusal["code"] == -32602
        params = {"sessionId": session, "toolCallId": calls[-1].id}
        assert await editor.client.result("_tool_call/cancel", params) == {}
        assert await editor.answer(id) == END_TURN
    assert [(r.id, r.status) for r in results] == [("call_0", "completed")] + 3 * [("call_0", "cancelled")]


async def test_a_call_that_is_still_ending_is_cancelled_a_second_time_and_one_that_has_ended_is_not() -> None:
    agent = Agent("a")
    running, go_on = anyio.Event(), anyio.Event()
    over, through = anyio.Event(), anyio.Event()
    again: list[bool] = []

    @agent.tool
    async def wait(call: ToolContext) -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await go_on.wait()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.run_tool("wait", id="c1")
        again.append(turn.cancel_tool("c1"))
        over.set()
        await through.wait()

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        with anyio.fail_after(5):
            await running.wait()
        params: dict[str, Any] = {"sessionId": session, "toolCallId": "c1"}
        for _ in range(3):
            assert await editor.client.result("_tool_call/cancel", params) == {}
        go_on.set()
        with anyio.fail_after(5):
            await over.wait()
        assert (await editor.refusal("_tool_call/cancel", params))["code"] == -32602
        through.set()
        assert await editor.answer(id) == END_TURN
        assert [u["status"] for u in shown(editor)] == ["pending", "in_progress", "failed"]
    assert again == [False]

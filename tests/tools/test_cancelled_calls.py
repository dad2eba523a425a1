"""What is cancelled of a tool call, or before it: the call, its turn, its caller, its thread."""

import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Limits, ToolContext, ToolFailed, ToolResult, Turn, TurnEnded, grace
from acp_server.tasks.threads import Worker
from tests.session.editor import CANCELLED, END_TURN, Editor, editing
from tests.tools.calls import calling, shown, text, updates

pytestmark = pytest.mark.anyio


async def test_a_program_can_cancel_one_tool_of_a_turn() -> None:
    agent = Agent("a")

    @agent.tool
    async def wait(call: ToolContext) -> None:
        assert call.turn.cancel_tool(call.id)
        assert not call.turn.cancel_tool("another")
        await anyio.sleep_forever()

    results = calling(agent, "wait")
    seen = await updates(agent)
    assert results[0].status == "cancelled"
    assert seen[-1]["_meta"] == {"outcome": "cancelled"}
    assert seen[-1]["status"] == "failed"


async def test_what_a_thread_has_said_before_the_cancel_is_kept_although_the_loop_has_not_heard_of_it() -> None:
    agent = Agent("a")
    may_speak, has_spoken = threading.Event(), threading.Event()
    running = anyio.Event()

    @agent.tool
    def talk(call: ToolContext) -> None:
        call.run(running.set)
        may_speak.wait(5)
        call.progress("said before")
        has_spoken.set()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: turn.run_tool("talk", id="c1"))
            await running.wait()
            # In one step of the loop, which hears nothing meanwhile.
            may_speak.set()
            assert has_spoken.wait(5)
            assert turn.cancel_tool("c1")

    seen = await updates(agent)
    assert seen[-1]["_meta"] == {"outcome": "cancelled"}
    assert text(seen[-1]) == ["said before"]


async def test_a_tool_that_its_caller_gives_up_is_cancelled() -> None:
    agent = Agent("a")
    cleaned: list[bool] = []
    scope = anyio.CancelScope()

    @agent.tool
    async def wait(call: ToolContext) -> None:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append(call.is_cancelled)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        with scope:
            await turn.call(wait)
        return "went on"

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        assert editor.said() == ["went on"]
        assert shown(editor)[-1]["status"] == "failed"
    assert cleaned == [True]


async def test_in_a_turn_that_is_cancelled_no_further_tool_begins() -> None:
    agent = Agent("a")
    running = anyio.Event()
    results: list[ToolResult] = []

    @agent.tool
    async def look() -> None:
        raise AssertionError

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                results.append(await turn.run_tool(look, id="c1"))

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await running.wait()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert shown(editor) == []
    assert [(r.id, r.name, r.status, r.message) for r in results] == [("c1", "look", "cancelled", None)]


@pytest.mark.behaviour("F9")
async def test_a_plain_function_whose_call_is_cancelled_as_it_gets_a_thread_is_not_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent("a")
    called: list[str] = []
    turns: list[Turn] = []
    start = Worker.start

    def cancelled_first(worker: Worker) -> None:
        turns[0].session.cancel()
        start(worker)

    @agent.tool
    def work() -> None:
        called.append("work")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        monkeypatch.setattr(Worker, "start", cancelled_first)
        await turn.run_tool("work")

    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        assert await editor.answer(id) == CANCELLED
        await editor.settled()
    assert not called


async def test_a_cancel_that_arrives_as_the_call_ends_finds_nothing_to_cancel() -> None:
    agent = Agent("a")
    editors: list[Editor] = []

    @agent.tool
    async def look(call: ToolContext) -> str:
        cancel = {"sessionId": call.session.id, "toolCallId": call.id}
        await editors[0].client.request("_tool_call/cancel", cancel)
        return "found"

    results = calling(agent, "look")
    async with editing(agent) as editor:
        editors.append(editor)
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        await editor.settled()
        assert "No tool call with this toolCallId is running" in str(editor.client.received)
    assert [(result.status, result.message) for result in results] == [("completed", "found")]


async def gives_in(_backend: str) -> None:
    await anyio.sleep_forever()


async def gives_in_late(backend: str) -> None:
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.sleep_forever()
    if backend == "asyncio":
        raise anyio.get_cancelled_exc_class()
    await anyio.lowlevel.checkpoint()


async def says_what_it_would_have(_backend: str) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise ToolFailed("nothing was found")


async def goes_wrong(_backend: str) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise ValueError("cleanup")


async def goes_on(_backend: str) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise TurnEnded("too late")


WARNINGS: dict[Any, list[str]] = {
    goes_wrong: ["the tool 'look' failed while it was being cancelled (user)"],
    goes_on: ["the tool 'look' failed while it was being cancelled (user): too late"],
}


@pytest.mark.parametrize("end", [gives_in, gives_in_late, says_what_it_would_have, goes_wrong, goes_on])
async def test_only_what_a_cancelled_tool_itself_did_wrong_is_worth_a_warning(
    end: Callable[[str], Awaitable[None]], anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a")

    @agent.tool
    async def look(call: ToolContext) -> None:
        call.turn.cancel_tool(call.id)
        await end(anyio_backend_name)

    results = calling(agent, "look")
    await updates(agent)
    assert [result.status for result in results] == ["cancelled"]
    warnings = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == WARNINGS.get(end, [])
    assert ("Traceback" in caplog.text) is (end is goes_wrong)


async def test_a_tool_has_a_grace_of_its_own_after_which_its_turn_goes_on_without_it() -> None:
    agent = Agent("a")
    release = anyio.Event()
    running = {"quick": anyio.Event(), "patient": anyio.Event()}
    ended: list[str] = []

    async def cleans_up(name: str) -> None:
        running[name].set()
        try:
            await anyio.sleep_forever()
        finally:
            with grace(None):
                await release.wait()

    @agent.tool(grace=0.01)
    async def quick() -> None:
        await cleans_up("quick")

    @agent.tool
    async def patient() -> None:
        await cleans_up("patient")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def call(name: str) -> None:
            assert (await turn.run_tool(name, id=name)).status == "cancelled"
            ended.append(name)
            if name == "quick":
                assert ended == ["quick"]
                release.set()

        async with anyio.create_task_group() as group:
            for name in running:
                group.start_soon(call, name)
                await running[name].wait()
                assert turn.cancel_tool(name)

    async with editing(agent, Limits(drain=0.05, grace=3600)) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert ended == ["quick", "patient"]

"""An `on_cancel` that is not quick: nothing waits for it for long, and nothing stops for it."""

import threading

import anyio
import pytest

from acp_server import Agent, Limits, ToolContext, ToolResult, Turn
from acp_server.tools import runner
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.tools.stage import KINDS, OWN, Stage, blocks, running_one, status_of, warnings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_blocks_holds_up_neither_the_call_nor_the_turn(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kind, blocks)
    with anyio.fail_after(8):
        await stage.cancelled_alone()
    assert stage.outcome == ("cancelled", None)
    assert warnings(caplog)[0] == "on_cancel of search takes too long; the call ends without its text"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["turn", "request", "end of input"])
async def test_one_that_blocks_does_not_hold_up_the_answer_of_a_cancelled_turn(
    kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_HEAR_OUT", 0.1)
    stage = Stage(kind, blocks)
    async with stage.started() as (editor, session, prompt):
        with anyio.fail_after(8):
            if way == "turn":
                await editor.cancel(session)
            elif way == "request":
                await editor.withdraw(prompt)
            else:
                editor.stream.end_input()
                stage.input_ended = True
            answer = await editor.answer(prompt)
        assert not stage.release.is_set()
        assert answer["code"] == -32800 if stage.input_ended else answer == CANCELLED


async def test_one_has_half_of_the_time_for_cleanup_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_HEAR_OUT", 30.0)
    stage = Stage("async", blocks)
    async with stage.started(Limits(drain=0.05, grace=0.2)) as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        with anyio.fail_after(8):
            await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome == ("cancelled", None)


async def test_one_that_is_quick_is_heard_before_the_cancel_returns() -> None:
    agent = Agent("hears")

    @agent.tool
    async def search(call: ToolContext) -> None:
        call.on_cancel = lambda: "half of it"
        assert call.turn.cancel_tool(call.id)
        assert [(result.status, result.message) for result in call.turn.tool_results] == [("cancelled", "half of it")]
        told.append(True)
        await anyio.sleep_forever()

    told: list[bool] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.run_tool(search)

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert told == [True]


async def test_one_that_takes_a_moment_is_heard_out_although_the_function_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_HEAR_OUT", 5.0)
    agent = Agent("hears out")
    may_speak = threading.Event()
    ended = anyio.Event()
    results: list[ToolResult] = []

    @agent.tool
    async def search(call: ToolContext) -> None:
        call.on_cancel = lambda: "half of it" if may_speak.wait(5) else "too late"
        call.turn.cancel_tool(call.id)
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.append(await turn.run_tool(search))

    async with editing(agent, limits=Limits(grace=10.0)) as editor:
        id = await editor.prompt(await editor.open())
        await ended.wait()
        await editor.settled()
        assert results == []
        may_speak.set()
        assert await editor.answer(id) == END_TURN
    assert [(result.status, result.message) for result in results] == [("cancelled", "half of it")]


async def test_a_hundred_that_block_share_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent("many")
    release = threading.Event()
    running: list[int] = []
    all_run = anyio.Event()
    waited: list[float] = []
    wait = threading.Event.wait

    def recorded(event: threading.Event, timeout: float | None = None) -> bool:
        # (now + 0.05) - now may round to a little more than 0.05.
        if timeout is not None and timeout < 0.051:
            waited.append(timeout)
        return wait(event, timeout)

    @agent.tool
    async def search(call: ToolContext) -> None:
        call.on_cancel = lambda: str(release.wait(10))
        running.append(1)
        if len(running) == 100:
            all_run.set()
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(turn.run_tool, "search")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await all_run.wait()
        monkeypatch.setattr(threading.Event, "wait", recorded)
        with anyio.fail_after(8):
            await editor.cancel(session)
            assert await editor.answer(id) == CANCELLED
        monkeypatch.undo()
        release.set()
    # The first waits for all of the moment, and the others for what is left of it: nothing.
    assert len(waited) == 100
    assert 0.04 < waited[0] < 0.051
    assert waited[1:] == [0.0] * 99


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_is_not_quite_quick_is_heard(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_HEAR_OUT", 20.0)
    stage = Stage(kind, lambda stage: "partial" if stage.release.wait(10) else None)
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        assert not [m for m in editor.client.received if status_of(m, OWN) == "failed"]
        stage.release.set()
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN
    assert stage.outcome == ("cancelled", "partial")


async def test_the_client_hears_of_the_end_although_the_function_cleans_up_for_longer() -> None:
    from acp_server import grace

    cleaned_up = anyio.Event()
    stage = Stage("async", blocks)

    async def body(call: ToolContext) -> None:
        stage.begin(call)
        stage.running.set()
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await cleaned_up.wait()

    stage.agent = Agent("cleaning")
    stage.agent.tool(name="search")(body)
    stage.agent.prompt(running_one(stage))
    async with editing(stage.agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await stage.running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.client.expect(lambda m: status_of(m, OWN) == "failed")
        assert not stage.results
        cleaned_up.set()
        assert await editor.answer(prompt) == END_TURN
    stage.release.set()
    assert stage.outcome == ("cancelled", None)


async def test_nothing_that_a_slow_one_says_reaches_the_client_meanwhile() -> None:
    def act(stage: Stage) -> str:
        stage.call.progress("late")
        stage.call.locate("/project/late")
        stage.release.wait(10)
        return "partial"

    stage = Stage("async", act)
    async with stage.started() as (editor, session, prompt):
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": OWN})
        await editor.settled()
        stage.release.set()
        stage.go_on.set()
        assert await editor.answer(prompt) == END_TURN

"""The steps of a plan end as the blocks end that work on them."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from acp_server import Agent, ToolRejected, Turn, UsageError
from acp_server.schema import PlanEntry
from tests.session.editor import CANCELLED, Editor, editing
from tests.session.v2.editor import editing as editing_v2

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("editing", [editing, editing_v2], ids=["v1", "v2"])
PERMISSION = "session/request_permission"


def plans(editor: Editor, session: str | None = None) -> list[list[tuple[str, str]]]:
    """Each plan that was shown: the texts of its steps with their status."""
    found: list[list[tuple[str, str]]] = []
    for update in editor.client.updates(session):
        entries = update.get("entries") or update.get("plan", {}).get("entries")
        if entries is not None:
            found.append([(entry["content"], entry["status"]) for entry in entries])
    return found


@BOTH
async def test_a_step_is_worked_on_within_its_block(editing: Any) -> None:
    agent = Agent("planner")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.plan(["Read", PlanEntry(content="Write", priority="high")])
        async with turn.step("Read"):
            pass
        async with turn.step("Write"), turn.step("Check", priority="low"):
            pass

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        assert plans(editor) == [
            [("Read", "pending"), ("Write", "pending")],
            [("Read", "in_progress"), ("Write", "pending")],
            [("Read", "completed"), ("Write", "pending")],
            [("Read", "completed"), ("Write", "in_progress")],
            [("Read", "completed"), ("Write", "in_progress"), ("Check", "in_progress")],
            [("Read", "completed"), ("Write", "in_progress"), ("Check", "completed")],
            [("Read", "completed"), ("Write", "completed"), ("Check", "completed")],
        ]
        last = [update for update in editor.client.updates() if "plan" in update["sessionUpdate"]][-1]
        entries = last.get("entries") or last["plan"]["entries"]
        assert [entry["priority"] for entry in entries] == ["medium", "high", "low"]


ENDED = {"v1": "pending", "v2": "cancelled"}


@BOTH
@pytest.mark.parametrize("kind", ["function", "generator"])
@pytest.mark.parametrize("outcome", ["refused", "failed", "cancelled"])
async def test_a_step_that_is_not_done_says_why(editing: Any, kind: str, outcome: str) -> None:
    agent = Agent("planner")
    started = anyio.Event()

    @agent.tool(approval=True)
    async def delete() -> None:
        "Delete it."

    async def work(turn: Turn) -> None:
        if outcome == "refused":
            await turn.call(delete)
        elif outcome == "failed":
            raise RuntimeError("no disk")
        started.set()
        await anyio.sleep_forever()

    async def function(turn: Turn) -> None:
        await turn.plan(["Delete", "Go on"])
        async with turn.step("Delete"):
            await work(turn)

    async def generator(turn: Turn) -> AsyncGenerator[str]:
        await turn.plan(["Delete", "Go on"])
        async with turn.step("Delete"):
            yield "first"
            await work(turn)

    agent.prompt(function if kind == "function" else generator)
    ended = ENDED["v2" if editing is editing_v2 else "v1"]
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.send(editor.prompting(session))
        if outcome == "refused":
            asked = await editor.client.expect_request(PERMISSION)
            no = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
            await editor.client.respond(asked, no)
        elif outcome == "cancelled":
            await started.wait()
            await editor.cancel(session)
        last = [(f"Delete ({outcome})", ended), ("Go on", "pending")]
        await editor.client._wait_for(lambda: plans(editor)[-1:] == [last], f"no plan ends as {last}")
        update = [update for update in editor.client.updates() if "plan" in update["sessionUpdate"]][-1]
        entries = update.get("entries") or update["plan"]["entries"]
        assert entries[0]["_meta"] == {"outcome": outcome}


async def test_a_replay_shows_how_each_step_ended() -> None:
    agent = Agent("planner")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with turn.step("Try"):
            raise ToolRejected("no")

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session)
    async with editing(agent) as editor:
        await editor.client.result("session/load", {"sessionId": session, "cwd": "/project", "mcpServers": []})
        assert plans(editor) == [[("Try (refused)", "pending")]]


async def test_a_plan_of_very_many_steps_keeps_the_last_ones() -> None:
    agent = Agent("planner")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        for number in range(500):
            async with turn.step(f"Step {number}"):
                pass

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        shown = plans(editor)
        assert max(map(len, shown)) == 50
        assert shown[-1][-1] == ("Step 499", "completed")


async def test_a_step_that_ends_behind_its_turn_is_not_shown_and_raises_nothing() -> None:
    agent = Agent("planner")
    entered: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        step = turn.step("Try")
        await step.__aenter__()
        entered.append(step)

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        error = RuntimeError("late")
        await entered[0].__aexit__(RuntimeError, error, None)
        assert plans(editor) == [[("Try", "in_progress")]]


async def test_what_is_no_step_is_refused_and_a_block_is_worked_on_once() -> None:
    agent = Agent("planner")
    refused: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        try:
            await turn.plan([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        except UsageError as error:
            refused.append(str(error))
        step = turn.step("Read")
        async with step:
            pass
        try:
            await step.__aenter__()
        except UsageError as error:
            refused.append(str(error))

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
    assert refused == [
        "a plan must be a list of str or PlanEntry, not of int",
        "a step can be used only once: call turn.step(...) again",
    ]


async def test_a_cancelled_prompt_with_an_open_step_is_answered_cancelled() -> None:
    agent = Agent("planner")
    started = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with turn.step("Wait"):
            started.set()
            await anyio.sleep_forever()

    async with editing(agent) as editor:
        session = await editor.open()
        prompt_id = await editor.prompt(session)
        await started.wait()
        await editor.cancel(session)
        assert await editor.answer(prompt_id) == CANCELLED
        assert plans(editor)[-1] == [("Wait (cancelled)", "pending")]

"""What a tool call shows the client, and what the model is told of it."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from acp_server import Agent, ToolCancelled, ToolContext, ToolError, ToolRejected, ToolResult, Turn
from acp_server.schema import Diff, TextContent, ToolCallLocation
from acp_server.session.turn import live_of
from tests.session.editor import END_TURN, editing
from tests.tools.calls import calling, shown, text, updates
from tests.tools.kept import PERMISSION, selected

pytestmark = pytest.mark.anyio


class Point(BaseModel):
    x: int
    y: int = 0


async def test_a_tool_call_goes_from_pending_over_in_progress_to_completed() -> None:
    agent = Agent("a")

    @agent.tool(kind="search")
    async def shout(words: str, times: int = 1) -> str:
        """Say it loudly.

        More of it.
        """
        return words.upper() * times

    results = calling(agent, "shout", {"words": "hey", "times": "2"})
    first, second, third = await updates(agent)
    assert first == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": "Say it loudly",
        "name": "shout",
        "kind": "search",
        "status": "pending",
        "rawInput": {"words": "hey", "times": "2"},
    }
    assert second == {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}
    assert third["status"] == "completed"
    assert text(third) == ["HEYHEY"]
    [result] = results
    assert (result.ok, result.status, result.message, result.value) == (True, "completed", "HEYHEY", "HEYHEY")


async def test_call_gives_the_value_itself_and_takes_the_tool_or_its_name() -> None:
    agent = Agent("a")

    @agent.tool
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncGenerator[str]:
        yield str((await turn.call(add, a=1, b=2))["sum"])
        yield str((await turn.call("add", a=3, b=4))["sum"])

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session)
        assert editor.said() == ["3", "7"]
        assert [u["rawOutput"] for u in shown(editor) if u.get("status") == "completed"] == [{"sum": 3}, {"sum": 7}]
    assert add(5, 6) == {"sum": 11}


@pytest.mark.parametrize(("how", "error"), [("reject", ToolRejected), ("cancel", ToolCancelled)])
async def test_call_raises_what_became_of_a_tool_that_did_not_fail_of_itself(how: str, error: type[ToolError]) -> None:
    agent = Agent("a")
    raised: list[ToolError] = []

    @agent.tool(approval=True)
    async def wait() -> None:
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        try:
            await turn.call(wait)
        except ToolError as error:
            raised.append(error)
        return "went on"

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        asked = await editor.client.expect_request(PERMISSION)
        await editor.client.respond(asked, selected("reject_once" if how == "reject" else "allow_once"))
        if how == "cancel":
            call = (await editor.client.expect(lambda m: "in_progress" in str(m)))["params"]["update"]["toolCallId"]
            await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": call})
        assert await editor.answer(id) == END_TURN
        assert editor.said() == ["went on"]
    assert [type(each) for each in raised] == [error]
    assert raised[0].result.status == ("rejected" if how == "reject" else "cancelled")
    assert raised[0].message == raised[0].result.message


async def test_a_model_is_told_json_as_text_and_content_is_shown() -> None:
    agent = Agent("a")

    @agent.tool
    async def point(at: Point) -> Point:
        return Point(x=at.x + 1)

    @agent.tool
    async def change() -> list[Any]:
        return [Diff(path="/project/a", old_text="a", new_text="b"), TextContent(text="done")]

    results: list[ToolResult] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.append(await turn.run_tool("point", {"at": {"x": 1}}))
        results.append(await turn.run_tool("change"))

    seen = await updates(agent)
    assert results[0].message == '{"x":2,"y":0}'
    assert results[0].value == Point(x=2)
    assert seen[2]["rawOutput"] == {"x": 2, "y": 0}
    assert [piece["type"] for piece in seen[-1]["content"]] == ["diff", "content"]


async def test_a_generators_text_is_shown_as_it_comes_and_is_the_result() -> None:
    agent = Agent("a")
    go_on = anyio.Event()

    @agent.tool
    async def count() -> AsyncGenerator[Any]:
        yield "one "
        await go_on.wait()
        yield TextContent(text="a picture")
        yield "two"

    results = calling(agent, "count")
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await editor.client.expect(lambda m: text(m.get("params", {}).get("update", {})) == ["one "])
        go_on.set()
        assert await editor.answer(prompt) == END_TURN
        assert text(shown(editor)[-1]) == ["a picture", "one two"]
    assert results[0].message == "one \na picture\ntwo"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_progress_locations_and_titles_reach_the_client(in_thread: bool) -> None:
    agent = Agent("a")

    def say(call: ToolContext) -> None:
        call.set_title("Looking closer")
        call.locations = [ToolCallLocation(path="/project/a", line=3)]
        call.locate("/project/b")
        call.progress("half\n")

    async def direct(call: ToolContext) -> str:
        say(call)
        return "all"

    def threaded(call: ToolContext) -> str:
        say(call)
        return "all"

    agent.tool(name="look")(threaded if in_thread else direct)
    calling(agent, "look")
    seen = await updates(agent)
    # The first at once, what follows quickly at the end at the latest.
    assert {"title": "Looking closer"}.items() <= seen[2].items()
    shown = {key: value for update in seen for key, value in update.items()}
    assert shown["locations"] == [{"path": "/project/a", "line": 3}, {"path": "/project/b"}]
    assert shown["title"] == "Looking closer"
    assert text(seen[-1]) == ["half\nall"]


async def test_much_output_is_shown_in_few_updates_and_its_beginning_is_left_out() -> None:
    agent = Agent("a")

    @agent.tool
    async def flood(call: ToolContext) -> None:
        for number in range(100_000):
            call.progress(f"{number}\n")

    calling(agent, "flood")
    seen = await updates(agent)
    assert len(seen) < 100
    assert seen[-1]["status"] == "completed"
    [output] = text(seen[-1])
    assert output.startswith("[earlier output is left out]\n")
    assert output.endswith("99999\n")
    assert len(output) < 250_000


async def test_output_in_a_burst_is_shown_although_nothing_follows() -> None:
    agent = Agent("a")
    go_on = anyio.Event()

    @agent.tool
    async def burst(call: ToolContext) -> None:
        for number in range(10):
            call.progress(f"{number} ")
        await go_on.wait()

    calling(agent, "burst")
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await editor.client.expect(lambda m: text(m.get("params", {}).get("update", {})) == ["0 1 2 3 4 5 6 7 8 9 "])
        go_on.set()
        await editor.answer(prompt)


async def test_tools_run_in_parallel_in_one_turn_and_one_can_be_cancelled_alone() -> None:
    agent = Agent("a")
    go_on = anyio.Event()

    @agent.tool
    async def wait(call: ToolContext, name: str) -> str:
        call.on_cancel = lambda: f"{name}: half"
        await go_on.wait()
        return name

    results: dict[str, ToolResult] = {}

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def one(name: str) -> None:
            results[name] = await turn.run_tool("wait", {"name": name}, id=f"id_{name}")

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(one, name)

    async with editing(agent) as editor:
        session = await editor.open()
        prompting = await editor.prompt(session)
        for _ in "abc":
            await editor.client.expect(lambda m: m.get("params", {}).get("update", {}).get("status") == "in_progress")
        assert await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "id_b"}) == {}
        refusal = await editor.refusal("_tool_call/cancel", {"sessionId": session, "toolCallId": "id_x"})
        assert refusal["code"] == -32602
        refusal = await editor.refusal("_tool_call/cancel", {"sessionId": session, "toolCallId": "x" * 100_000})
        assert refusal["data"] == {"toolCallId": "x" * 200}
        go_on.set()
        assert await editor.answer(prompting) == END_TURN
    assert [(r.status, r.message) for r in (results[n] for n in "abc")] == [
        ("completed", "a"),
        ("cancelled", "b: half"),
        ("completed", "c"),
    ]


async def test_a_turn_keeps_nothing_of_a_call_that_is_over() -> None:
    agent = Agent("a")

    @agent.tool
    async def end(call: ToolContext, how: str) -> None:
        if how == "fails":
            raise ValueError
        if how == "is cancelled":
            call.turn.cancel_tool(call.id)
            await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        for how in ("returns", "fails", "is cancelled"):
            await turn.run_tool("end", {"how": how}, id="c1")
            assert not live_of(turn).tool_calls
            assert not turn.cancel_tool("c1")

    assert [u["status"] for u in await updates(agent)][2::3] == ["completed", "failed", "failed"]


@pytest.mark.parametrize("way", ["rejected", "cancelled"])
async def test_a_handler_need_not_mind_that_the_user_did_not_want_a_tool(way: str) -> None:
    agent = Agent("a")

    @agent.tool(approval=way == "rejected")
    async def wait(call: ToolContext) -> None:
        call.turn.cancel_tool(call.id)
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.call(wait)

    async with editing(agent) as editor:
        no = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
        editor.client.answer("session/request_permission", no)
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        assert shown(editor)[-1]["_meta"] == {"outcome": way}


async def test_a_call_that_its_turn_does_not_wait_for_has_an_end_before_the_answer() -> None:
    agent = Agent("a")
    running = anyio.Event()
    results: list[ToolResult] = []

    @agent.tool
    async def wait() -> None:
        running.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            async def run() -> None:
                results.append(await turn.run_tool("wait", id="c1"))

            group.start_soon(run)
            await running.wait()

        async with editing(agent) as editor:
            session = await editor.open()
            assert await editor.ask(session) == END_TURN
            assert [u["status"] for u in shown(editor)] == ["pending", "in_progress", "failed"]
    assert [r.status for r in results] == ["cancelled"]


@pytest.mark.parametrize("changes", [False, True])
async def test_a_title_made_of_the_arguments_is_shown_from_the_start_and_again_if_it_has_changed(changes: bool) -> None:
    agent = Agent("a")
    made = 0

    def title(path: str) -> str:
        nonlocal made
        made += changes
        return f"Read {path} {made}"

    @agent.tool(title=title)
    async def read(path: str) -> str:
        return path

    calling(agent, "read", {"path": "b"})
    seen = await updates(agent)
    assert seen[0]["title"] == f"Read b {int(changes)}"
    assert [u["title"] for u in seen[1:] if "title" in u] == (["Read b 2"] if changes else [])
    assert seen[-1]["status"] == "completed"

"""Child sessions: they are announced, have a stream, requests and an end of their own, and end with their parents."""

import logging
from contextlib import suppress
from typing import Any

import anyio
import pytest

from acp_server import Agent, Limits, Turn, TurnEnded, UsageError
from acp_server.errors import INVALID_PARAMS, RpcError
from acp_server.schema import PermissionOption, ToolCallUpdate
from acp_server.tasks.cause import Cause
from acp_server.tools.context import ToolContext
from tests.session.children import (
    KINDS,
    announced,
    begin,
    child_of,
    delegating,
    end,
    reviewing,
    showing,
    states,
    words,
)
from tests.session.editor import Editor
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio
kinds = pytest.mark.parametrize("kind", KINDS)

OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]


@kinds
async def test_a_child_is_announced_before_anything_carries_its_id_and_ends_with_its_block(kind: str) -> None:
    async with showing(delegating(reviewing), kind) as editor:
        session = await editor.open()
        assert await end(editor, session, await begin(editor, session)) == "end_turn"
        child = await child_of(editor, session, "Reviewer")
        assert child != session
        first = next(message for message in editor.client.received if child in str(message))
        assert first["params"]["sessionId"] == session
        assert first["params"]["update"] == {
            "sessionUpdate": "subagent_update",
            "sessionId": child,
            "title": "Reviewer",
            "description": "Looks",
            "cwd": "/other",
            "capabilities": {"cancel": {}},
            "state": {"state": "running"},
        }
        assert states(editor, child) == [{"state": "running"}, {"state": "idle", "stopReason": "end_turn"}]
        assert announced(editor, session)[-1]["capabilities"] is None
        task = next(each for each in editor.client.updates(child) if each["sessionUpdate"] == "session_message")
        assert (task["senderSessionId"], task["recipientSessionId"]) == (session, child)
        assert task["content"] == [{"type": "text", "text": "Look at the diff"}]
        assert words(editor, child) == "inside"
        assert words(editor, session) == "before after"
        assert [each["toolCallId"] for each in editor.client.updates(session) if "toolCallId" in each] == []
        assert any(each.get("status") == "completed" for each in editor.client.updates(child))
        if isinstance(editor, v2.Editor):
            assert editor.reasons(child) == ["running", "end_turn"]


@kinds
async def test_a_cancel_of_the_child_ends_its_block_alone(kind: str) -> None:
    async with showing(delegating(reviewing), kind) as editor:
        session = await editor.open()
        id = await begin(editor, session, "hang")
        child = await child_of(editor, session, "Reviewer")
        await editor.cancel(child)
        assert await end(editor, session, id) == "end_turn"
        assert words(editor, session) == "before cancelled"
        assert states(editor, child)[-1] == {"state": "idle", "stopReason": "cancelled"}


@kinds
async def test_a_cancel_of_the_parent_ends_both_and_the_child_first(kind: str) -> None:
    async with showing(delegating(reviewing), kind) as editor:
        session = await editor.open()
        id = await begin(editor, session, "hang")
        child = await child_of(editor, session, "Reviewer")
        await editor.cancel(session)
        assert await end(editor, session, id) == "cancelled"
        assert states(editor, child)[-1] == {"state": "idle", "stopReason": "cancelled"}
        assert words(editor, session) == "before "
        ends = [place for place, message in enumerate(editor.client.received) if "'cancelled'" in str(message)]
        assert child in str(editor.client.received[ends[0]])


@kinds
async def test_a_child_has_children_which_end_with_it(kind: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("one") as one:
            async with one.subagent("two") as two:
                await two.say("deep")
                await anyio.sleep_forever()
            await one.say("not said")
        await turn.say("after")

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        id = await begin(editor, session)
        one = await child_of(editor, session, "one")
        two = await child_of(editor, one, "two")
        await editor.cancel(one)
        assert await end(editor, session, id) == "end_turn"
        assert [states(editor, each)[-1]["stopReason"] for each in (one, two)] == ["cancelled", "cancelled"]
        assert words(editor, session) == "after"
        order = [each["sessionId"] for each in announced(editor) if each["state"]["state"] == "idle"]
        assert order == [two, one]


@kinds
async def test_what_a_block_raises_goes_on_and_the_client_is_told_no_secrets(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "acp_server")

    async def work(turn: Turn) -> None:
        with pytest.raises(ValueError, match="secret"):
            async with turn.subagent("one"):
                raise ValueError("secret")
        with pytest.raises(RpcError):
            async with turn.subagent("two"):
                raise RpcError("on purpose", code=7)
        with anyio.move_on_after(0):
            async with turn.subagent("three"):
                await anyio.sleep_forever()

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        assert await end(editor, session, await begin(editor, session)) == "end_turn"
        one, two, three = [
            states(editor, await child_of(editor, session, each))[-1] for each in ("one", "two", "three")
        ]
        assert one["stopReason"] == two["stopReason"] == three["stopReason"] == "error"
        assert one["error"] == {"code": -32603, "message": "Internal error: the agent's log says why"}
        assert two["error"] == {"code": 7, "message": "on purpose"}
        assert three["error"]["code"] == -32800
    assert "secret" not in str(editor.client.received)


@kinds
async def test_a_childs_questions_name_it_and_it_waits_for_their_answers(kind: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("asker") as child:
            answer = await child.client.request_permission(ToolCallUpdate(tool_call_id="c", title="Do it?"), OPTIONS)
            await child.say(str(bool(answer)))

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        id = await begin(editor, session)
        question = await editor.client.expect_request("session/request_permission")
        child = await child_of(editor, session, "asker")
        assert question["params"]["sessionId"] == child
        await editor.client.respond(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert await end(editor, session, id) == "end_turn"
        assert words(editor, child) == "True"
        told = [state["state"] for state in states(editor, child)]
        assert told == ["running", "requires_action", "running", "idle"]


@kinds
async def test_a_cancelled_child_withdraws_its_questions(kind: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("asker") as child:
            await child.client.request_permission(ToolCallUpdate(tool_call_id="c", title="Do it?"), OPTIONS)

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        id = await begin(editor, session)
        question = await editor.client.expect_request("session/request_permission")
        await editor.cancel(question["params"]["sessionId"])
        await editor.client.respond(question, {"outcome": {"outcome": "cancelled"}})
        assert await end(editor, session, id) == "end_turn"
        assert editor.withdrawn() in ([question["id"]], [])


REQUESTS: dict[str, dict[str, Any]] = {
    "session/prompt": {"prompt": [{"type": "text", "text": "x"}]},
    "session/load": {"cwd": "/project", "mcpServers": []},
    "session/resume": {"cwd": "/project", "mcpServers": []},
    "session/close": {},
    "session/delete": {},
    "session/fork": {"cwd": "/project", "mcpServers": []},
    "session/set_title": {"title": "x"},
    "session/archive": {},
    "session/unarchive": {},
    "session/status": {},
    "session/set_mode": {"modeId": "x"},
    "session/set_config_option": {"configId": "x", "type": "id", "value": "y"},
    "_session/steering": {"prompt": [{"type": "text", "text": "x"}]},
    "_tool_call/cancel": {"toolCallId": "x"},
    "tool_call/cancel": {"toolCallId": "x"},
    "terminal/cancel": {"terminalId": "x"},
}
ONLY = {"version 1": {"session/load", "session/set_mode"}, "version 2": {"tool_call/cancel", "terminal/cancel"}}


@kinds
async def test_every_request_about_a_child_is_refused_while_it_runs_when_it_has_ended_and_when_it_is_replayed(
    kind: str,
) -> None:
    agent = delegating(reviewing, unstable={"subagents", "fork", "title", "archive", "status"}, second_prompts="hold")
    agent.session(_with_settings)

    @agent.steer
    async def steer(turn: Turn, message: Any) -> None:
        raise AssertionError("no client steers a child")

    requests = {name: params for name, params in REQUESTS.items() if name not in ONLY[({*KINDS} - {kind}).pop()]}

    async def refused(editor: Editor, child: str) -> None:
        for method, params in requests.items():
            refusal = await editor.refusal(method, {"sessionId": child, **params})
            assert refusal["code"] == INVALID_PARAMS, (method, refusal)
            assert "child" in refusal["message"], (method, refusal)

    async with showing(agent, kind) as editor:
        session = await editor.open()
        id = await begin(editor, session, "hang")
        child = await child_of(editor, session, "Reviewer")
        await refused(editor, child)
        await editor.cancel(child)
        assert await end(editor, session, id) == "end_turn"
        await refused(editor, child)
        listed = await editor.client.result("session/list", {})
        assert [each["sessionId"] for each in listed["sessions"]] == [session]
    async with showing(agent, kind) as editor:
        if kind == "version 2":
            replay = {"sessionId": session, "cwd": "/project", "replayFrom": {"type": "start"}}
            await editor.client.result("session/resume", replay)
        else:
            await editor.client.result("session/load", {"sessionId": session, "cwd": "/project", "mcpServers": []})
        assert await child_of(editor, session, "Reviewer") == child
        await refused(editor, child)


async def _with_settings(session: Any) -> None:
    from acp_server.schema import SessionMode

    await session.set_modes(SessionMode(id="ask", name="Ask"))


@kinds
async def test_a_hundred_children_run_at_once_and_one_of_them_is_cancelled(kind: str) -> None:
    ended: list[str] = []

    async def work(turn: Turn) -> None:
        everything = anyio.Event()

        async def delegate(number: int) -> None:
            async with turn.subagent(f"child {number}") as child:
                await child.say(str(number))
                await everything.wait()
                await child.say(" done")
            if child.is_cancelled:
                ended.append(f"child {number}")
                everything.set()

        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(delegate, number)

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        id = await begin(editor, session)
        names = [await child_of(editor, session, f"child {number}") for number in range(100)]
        assert len({*names}) == 100
        await editor.cancel(names[42])
        assert await end(editor, session, id) == "end_turn"
        assert ended == ["child 42"]
        reasons = [states(editor, each)[-1]["stopReason"] for each in names]
        assert [number for number, reason in enumerate(reasons) if reason != "end_turn"] == [42]
        assert [words(editor, each) for each in names] == [
            str(number) + (" done" if number != 42 else "") for number in range(100)
        ]


@kinds
async def test_the_end_of_the_turn_ends_what_is_left(kind: str) -> None:
    raised: list[BaseException] = []
    ready, over = anyio.Event(), anyio.Event()

    async def work(turn: Turn) -> None:
        async def stray() -> None:
            async with turn.subagent("stray") as child:
                ready.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    try:
                        with anyio.CancelScope(shield=True):
                            await child.say("too late")
                    except TurnEnded as error:
                        raised.append(error)
            over.set()

        turn.client.connection.background(stray)
        await ready.wait()

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        assert await end(editor, session, await begin(editor, session)) == "end_turn"
        child = await child_of(editor, session, "stray")
        await over.wait()
        assert len(raised) == 1
        (last,) = states(editor, child)[1:]
        assert (last["stopReason"], last["error"]["code"]) == ("error", -32800)
        places = {str(each): place for place, each in enumerate(editor.client.received)}
        told = next(place for text, place in places.items() if "-32800" in text)
        answered = next(place for text, place in places.items() if "end_turn" in text)
        assert told < answered


@kinds
async def test_a_child_that_ignores_its_cancel_does_not_hold_up_its_parents_end(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    stop = anyio.Event()

    async def work(turn: Turn) -> None:
        async with turn.subagent("stubborn"):
            while not stop.is_set():
                with suppress(anyio.get_cancelled_exc_class()):
                    await anyio.sleep(0.01)

    caplog.set_level(logging.CRITICAL, "acp_server")
    async with showing(delegating(work), kind, Limits(drain=0.05, grace=0.05)) as editor:
        session = await editor.open()
        id = await begin(editor, session)
        child = await child_of(editor, session, "stubborn")
        await editor.cancel(child)
        await editor.cancel(session)
        assert await end(editor, session, id) == "cancelled"
        assert states(editor, child)[-1] == {"state": "idle", "stopReason": "cancelled"}
        stop.set()


@kinds
async def test_the_child_of_a_tool_call_is_cancelled_with_it(kind: str) -> None:
    agent = Agent("boss", unstable={"subagents"})

    @agent.tool
    async def delegate(call: ToolContext) -> str:
        async with call.subagent("worker") as child:
            await child.say("inside")
            await anyio.sleep_forever()
        return "unreached"

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        result = await turn.run_tool("delegate", id="it")
        await turn.say(result.status)

    async with showing(agent, kind) as editor:
        session = await editor.open()
        id = await begin(editor, session)
        child = await child_of(editor, session, "worker")
        side = next(iter(agent._sides.values()))
        turn = side.find(session).turn
        assert turn is not None
        assert turn.cancel_tool("it")
        assert await end(editor, session, id) == "end_turn"
        assert words(editor, session) == "cancelled"
        assert states(editor, child)[-1] == {"state": "idle", "stopReason": "cancelled"}


async def test_a_turn_that_is_over_begins_no_child() -> None:
    kept: list[Turn] = []

    async def work(turn: Turn) -> None:
        kept.append(turn)
        with pytest.raises(UsageError):
            turn.subagent(5)  # pyright: ignore[reportArgumentType]
        with pytest.raises(RpcError):
            turn.subagent("x", cwd="not absolute")
        block = turn.subagent("once")
        async with block:
            pass
        with pytest.raises(UsageError):
            await block.__aenter__()

    async with showing(delegating(work), "version 1") as editor:
        session = await editor.open()
        await editor.ask(session)
        with pytest.raises(TurnEnded):
            async with kept[0].subagent("late"):
                pass
        assert [each.get("title") for each in announced(editor)] == ["once", None]


@kinds
async def test_code_cancels_a_child_as_the_client_does(kind: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("one") as child:
            child.session.cancel(Cause.USER)
            await anyio.sleep_forever()
        await turn.say(str(child.cause))

    async with showing(delegating(work), kind) as editor:
        session = await editor.open()
        assert await end(editor, session, await begin(editor, session)) == "end_turn"
        assert words(editor, session) == "Cause.USER"

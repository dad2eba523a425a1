"""An agent of version 2 whose updates are shaped to break a client: each costs itself alone, and memory has a bound."""

from typing import Any

import pytest

from acp_server.client.v2.updates import CALLS, ID, MESSAGES, Translator
from acp_server.errors import RpcError
from tests.client.v2.talking import call, idle, prompted_2, said, state, talking_2, whole
from tests.session.v2.test_hostile_prompts import deep

Wire = dict[str, Any]

LONG = "x" * 100_000


def test_the_ids_that_are_known_take_a_bounded_room_however_many_and_long_they_are() -> None:
    translator = Translator()
    for number in range(MESSAGES + CALLS):
        assert translator(said("a", f"{number}{LONG}")) == [said("a", f"{number}{LONG}")]
        assert translator({**call("completed"), "toolCallId": f"{number}{LONG}"})[0]["toolCallId"] == f"{number}{LONG}"
    known = [*(key for _, key in translator._said), *translator._calls]
    assert len(known) == MESSAGES + CALLS
    assert max(map(len, known)) <= ID


def test_long_ids_are_told_apart() -> None:
    translator = Translator()
    for id in (f"{LONG}a", f"{LONG}b"):
        assert translator(said("one", id)) == [said("one", id)]
    assert translator(whole("one", "two", message=f"{LONG}a")) == [said("two", f"{LONG}a")]


def test_a_tool_call_may_go_on_behind_its_end_and_be_cleared_at_will() -> None:
    translator = Translator()
    cleared: Wire = dict.fromkeys(("title", "status", "content", "locations", "kind", "rawInput", "_meta"))
    changes: list[Wire] = [{"status": "completed"}, cleared, {"status": "pending"}]
    shown = [translator({**call(), **change})[0] for change in changes]
    assert [one["sessionUpdate"] for one in shown] == ["tool_call", "tool_call_update", "tool_call_update"]
    assert [one["status"] for one in shown] == ["completed", "pending", "pending"]
    assert shown[1]["content"] == []


@pytest.mark.anyio
async def test_updates_that_are_nested_too_deep_or_of_other_types_cost_themselves_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Wire] = []
    bad: list[Wire] = [
        {**said("a"), "_meta": {"deep": deep(900)}},
        {**call(), "rawInput": deep(900)},
        {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1", "content": {"type": "_x", "x": deep(900)}},
        {"sessionUpdate": "agent_message", "messageId": None, "content": []},
        {"sessionUpdate": "tool_call_update", "toolCallId": ["c1"]},
        {"sessionUpdate": "state_update", "state": 7},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": 7},
        {"sessionUpdate": "plan_update", "plan": []},
        {"sessionUpdate": ["agent_message"]},
    ]
    async with talking_2() as (agent, peer):
        await agent.new_session("/project", on_update=lambda update: heard.append(update.to_wire()))
        await peer.update(*bad, said("still here"))
        await peer.barrier()
    assert heard == [said("still here")]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "deep" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("end", [idle(_meta={"deep": deep(900)}), idle("error", error={"code": -1, "message": "no"})])
async def test_an_end_with_more_in_it_than_can_be_shown_ends_the_turn_all_the_same(end: Wire) -> None:
    if "error" in end:
        end["error"]["data"] = deep(900)
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": LONG})
        await peer.update(whole("hello", message=LONG, by="user_message"), state("running"), end)
        if "error" in end:
            with pytest.raises(RpcError, match="no"):
                await turn.wait()
        else:
            assert (await turn.wait()).stop_reason == "end_turn"

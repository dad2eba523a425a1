"""What is kept of a conversation."""

from typing import Any

import pytest

from acp_server.store.records import SessionRecord, TurnRecord, iso

from .records import say

pytestmark = pytest.mark.filterwarnings("error")


def chunk(text: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def test_text_of_one_kind_is_one_message_until_something_comes_between() -> None:
    record = TurnRecord([{"type": "text", "text": "hi"}])
    for kind, text in (
        ("agent_thought_chunk", "hm"),
        ("agent_message_chunk", "a"),
        ("agent_message_chunk", "b"),
    ):
        say(record, kind, text)
    record.add({"sessionUpdate": "tool_call", "toolCallId": "c"})
    say(record, "agent_message_chunk", "c")
    expected = [
        chunk("hm", "agent_thought_chunk"),
        chunk("ab"),
        {"sessionUpdate": "tool_call", "toolCallId": "c"},
        chunk("c"),
    ]
    assert record.events == expected
    assert list(record.replay()) == [chunk("hi", "user_message_chunk"), *expected]


def test_no_tool_call_of_a_failed_turn_is_shown_as_one_that_still_runs() -> None:
    record = TurnRecord([])
    record.add({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "look"})
    # Of calls that the turn did not begin itself.
    record.add({"sessionUpdate": "tool_call_update", "toolCallId": "b", "status": "in_progress"})
    record.add({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "see"})
    record.add({"sessionUpdate": "plan", "entries": [], "status": "in_progress"})
    record.status = "failed"
    shown = [(event.get("toolCallId"), event.get("status")) for event in record.replay()]
    assert shown == [("a", "failed"), ("b", "failed"), ("c", None), (None, "in_progress")]


def test_a_tool_call_is_kept_once_in_its_last_state() -> None:
    record = TurnRecord([])
    record.add({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "look", "status": "pending"})
    record.add({"sessionUpdate": "tool_call", "toolCallId": "b", "title": "see"})
    record.add({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed", "content": [1]})
    # One that began in an earlier turn.
    record.add({"sessionUpdate": "tool_call_update", "toolCallId": "z", "status": "failed"})
    assert record.events == [
        {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "look", "status": "completed", "content": [1]},
        {"sessionUpdate": "tool_call", "toolCallId": "b", "title": "see"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "z", "status": "failed"},
    ]


def test_only_the_last_plan_and_usage_are_kept_and_no_state_of_the_moment() -> None:
    record = TurnRecord([])
    for kind in ("plan", "usage_update", "current_mode_update", "available_commands_update", "config_option_update"):
        record.add({"sessionUpdate": kind, "n": 1})
        record.add({"sessionUpdate": kind, "n": 2})
    for kind in ("session_info_update", "notice", "_own"):
        record.add({"sessionUpdate": kind})
    assert record.events == [
        {"sessionUpdate": "plan", "n": 2},
        {"sessionUpdate": "usage_update", "n": 2},
        {"sessionUpdate": "_own"},
    ]


def test_what_is_kept_is_not_changed_by_whoever_said_it() -> None:
    record = TurnRecord([])
    update = {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "old"}
    record.add(update)
    update["title"] = "new"
    assert record.events[0]["title"] == "old"


def test_a_packed_turn_reads_the_same() -> None:
    prompt = [{"type": "text", "text": "hi \ud800 \u2028", "_meta": {"n": 1.5, "none": None}}]
    record = TurnRecord(prompt)
    say(record, "agent_message_chunk", "ein 😀")
    record.add({"sessionUpdate": "plan", "entries": []})
    before = list(record.replay())
    record.pack()
    record.pack()
    assert list(record.replay()) == before
    assert record.prompt == prompt


def test_a_prompt_that_is_nested_too_deep_is_left_out_of_a_turn_that_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    block = {"type": "text", "text": "hi", "_meta": {"deep": deep}}
    record = TurnRecord([block, {"type": "text", "text": "there"}])
    say(record, "agent_message_chunk", "a")
    assert record.prompt[0] is block
    record.pack()
    assert record.events == [chunk("a")]
    assert record.prompt == [{"type": "text", "text": "there"}]
    assert "nested too deep" in caplog.text
    while isinstance(deep, list):  # Taken apart by hand: freeing it in one go would overflow the stack.
        deep = deep.pop()


def test_only_completed_turns_are_context() -> None:
    record = SessionRecord("s", "/p")
    for status in ("completed", "failed", "canceled", "in_progress", "created"):
        turn = TurnRecord([])
        turn.status = status
        record.turns.append(turn)
    assert record.context() == record.turns[:1]


def test_times_are_shown_in_utc_with_milliseconds() -> None:
    assert iso(0.1234) == "1970-01-01T00:00:00.123Z"


def test_the_text_of_a_message_is_that_of_its_text_blocks() -> None:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    assert TurnRecord([{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]).text == "a\nb"
    assert TurnRecord([image]).text == ""

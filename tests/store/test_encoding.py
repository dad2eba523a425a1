"""Sessions as bytes and back."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.store.encoding import decode_session, encode_session
from acp_server.store.records import SessionRecord, TurnRecord

from .records import SESSIONS, say, shown, turn


@settings(max_examples=150)
@given(SESSIONS)
def test_a_session_comes_back_as_it_was(record: SessionRecord) -> None:
    data = encode_session(record)
    assert json.loads(data)["version"] == 1
    assert shown(decode_session(data)) == shown(record)


def test_a_session_that_was_read_can_be_written_replayed_and_used_as_context_like_the_first() -> None:
    record = SessionRecord("s", "/p", turns=[turn("one"), turn("two", "canceled"), turn("three", "failed")])
    again = decode_session(encode_session(decode_session(encode_session(record))))
    assert [list(turn.replay()) for turn in again.turns] == [list(turn.replay()) for turn in record.turns]
    assert [turn.messages() for turn in again.context()] == [turn.messages() for turn in record.context()]


def test_what_nests_deeper_than_can_be_written_is_left_out_and_the_rest_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    said = {"type": "text", "text": "hi"}
    record = TurnRecord([said, {"type": "text", "text": "deep", "_meta": {"deep": deep}}])
    say(record, "agent_message_chunk", "here")
    record.status = "completed"
    record.pack()
    (again,) = decode_session(encode_session(SessionRecord("s", "/p", turns=[record]))).turns
    assert again.prompt == [said]
    assert again.events == record.events
    assert "too deep" in caplog.text
    while isinstance(deep, list):  # Taken apart by hand: freeing it in one go would overflow the stack.
        deep = deep.pop()


def test_what_a_newer_version_wrote_is_refused_in_so_many_words() -> None:
    fields = json.loads(encode_session(SessionRecord("s", "/p", turns=[turn()])))
    for newer in ({**fields, "version": 2}, {**fields, "turns": [{**fields["turns"][0], "version": 2}]}):
        with pytest.raises(ValueError, match="newer version of this package"):
            decode_session(json.dumps(newer).encode())


def test_fields_that_this_version_does_not_know_are_passed_over() -> None:
    record = SessionRecord("s", "/p", turns=[turn()])
    fields = json.loads(encode_session(record)) | {"unknown": 1}
    fields["turns"][0]["unknown"] = 1
    assert shown(decode_session(json.dumps(fields).encode())) == shown(record)


@settings(max_examples=150)
@given(st.data())
def test_anything_else_is_a_value_error(data: st.DataObject) -> None:
    """One value anywhere in it is another one, or it is cut short."""
    record = SessionRecord("s", "/p", [], "t", 1.0, 2.0, "m", {"a": True, "b": "c"}, [turn()])
    record.turns[0].created_at = 1.5
    record.turns[0].ended_at = 2.5
    record.turns[0].meta_data = {"k": "v"}
    fields = json.loads(encode_session(record))
    places = list(_places(fields))
    holder, key = data.draw(st.sampled_from(places))
    wrong: list[Any] = [None, 7, "x", [], {}, True, [[]], {"a": 1}]
    holder[key] = data.draw(st.sampled_from(wrong))
    text = json.dumps(fields).encode()
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        again = decode_session(text)
    except ValueError:
        return
    # Then it is a session of which one thing is different, and as good as any.
    assert shown(decode_session(encode_session(again))) == shown(again)


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)

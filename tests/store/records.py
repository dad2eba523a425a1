"""Sessions and turns for tests of stores: made by hand, or by hypothesis; and whether two are the same."""

from typing import Any

from hypothesis import strategies as st

from acp_server.store.records import SessionRecord, TurnError, TurnRecord, Usage
from acp_server.wire import codec

ENDED = ("completed", "failed", "canceled")

# Lone surrogates are in it, which JavaScript clients send when they cut a text inside of an emoji.
TEXTS = st.text(max_size=20)
TIMES = st.floats(0, 1e12)
BLOCKS = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}, optional={"_meta": st.dictionaries(TEXTS, TEXTS)}),
    max_size=3,
)


def turn(text: str = "hi", status: str = "completed", answer: str = "hello") -> TurnRecord:
    """A turn as it is when it has ended, or, with a status that is not an end, before that."""
    record = TurnRecord([{"type": "text", "text": text}])
    say(record, "agent_message_chunk", answer)
    record.status = status
    if status in ENDED:
        end(record, status)
    return record


def say(record: TurnRecord, kind: str, text: str) -> None:
    """Have a turn's record keep a piece of text."""
    (record.transcript or record.begin()).text(kind, codec.encode_fragment(text))


def end(record: TurnRecord, status: str = "completed") -> None:
    """What a turn does with its record when it ends."""
    record.status = status
    record.stop_reason = {"completed": "end_turn", "canceled": "cancelled"}.get(status)
    record.ended_at = record.created_at + 1
    record.pack()


@st.composite
def turns(draw: st.DrawFn) -> TurnRecord:
    record = TurnRecord(draw(BLOCKS))
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            say(record, draw(st.sampled_from(["agent_message_chunk", "agent_thought_chunk"])), draw(TEXTS))
        else:
            record.add({"sessionUpdate": "tool_call", "toolCallId": draw(TEXTS), "title": draw(TEXTS)})
    record.status = draw(st.sampled_from(ENDED))
    record.stop_reason = draw(st.none() | st.sampled_from(["end_turn", "refusal", "cancelled"]))
    record.created_at = draw(TIMES)
    record.ended_at = draw(st.none() | TIMES)
    record.last_error = draw(st.none() | st.builds(TurnError, st.integers(-40000, 40000), TEXTS))
    tokens = st.integers(0, 10**9)
    record.usage = draw(st.none() | st.builds(Usage, *[tokens] * 3, *[st.none() | tokens] * 3))
    record.meta_data = draw(st.none() | st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3))
    if draw(st.booleans()):
        record.pack()
    return record


SESSIONS = st.builds(
    SessionRecord,
    id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
    cwd=TEXTS,
    additional_directories=st.lists(TEXTS, max_size=2),
    title=st.none() | TEXTS,
    created_at=TIMES,
    updated_at=TIMES,
    mode=st.none() | TEXTS,
    config=st.dictionaries(TEXTS, TEXTS | st.booleans(), max_size=3),
    turns=st.lists(turns(), max_size=3),
)


def shown(record: SessionRecord | None) -> Any:
    """All of a session, for comparing."""
    if record is None:
        return None
    head = (
        record.id,
        record.cwd,
        record.additional_directories,
        record.title,
        record.created_at,
        record.updated_at,
        record.mode,
        record.config,
    )
    return *head, [shown_turn(turn) for turn in record.turns]


def shown_turn(record: TurnRecord) -> Any:
    return (
        record.id,
        record.prompt,
        record.events,
        record.status,
        record.stop_reason,
        record.created_at,
        record.ended_at,
        record.last_error,
        record.usage,
        record.meta_data,
    )

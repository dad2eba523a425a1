"""What is kept of a turn while it talks: JSON from the start, in few pieces, and no more of it than its bound."""

import json
from time import process_time
from typing import Any

import pytest

from acp_server.peer.shares import Share
from acp_server.store.records import TurnRecord
from acp_server.store.transcript import _GAP, Transcript
from acp_server.wire import codec

MESSAGE = "agent_message_chunk"


def say(transcript: Transcript, text: str, kind: str = MESSAGE) -> None:
    transcript.text(kind, codec.encode_fragment(text))


def events(transcript: Transcript) -> list[dict[str, Any]]:
    return json.loads(b"".join(transcript.pieces()))


def texts(transcript: Transcript) -> list[str]:
    return [event["content"]["text"] for event in events(transcript) if "content" in event]


def call(id: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": id, **fields}


def change(id: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, **fields}


@pytest.mark.parametrize(("count", "pieces"), [(999, 999), (1000, 1), (1001, 2), (3500, 503)])
def test_many_small_pieces_are_kept_as_few_large_ones(count: int, pieces: int) -> None:
    transcript = Transcript()
    for number in range(count):
        say(transcript, f"{number},")
    assert len(transcript.pieces()) == pieces + 3
    assert texts(transcript) == ["".join(f"{number}," for number in range(count))]


@pytest.mark.parametrize("text", ['a "quoted" \\ line\n', "\ud83d", "\ude00 alone", "ein 😀", "\u2028\u2029", "", "\0"])
def test_pieces_of_text_are_joined_as_they_are(text: str) -> None:
    transcript = Transcript()
    for piece in ("<", text, ">"):
        say(transcript, piece)
    assert texts(transcript) == [f"<{text}>"]


def test_an_update_of_a_call_that_has_ended_is_folded_into_it_all_the_same() -> None:
    transcript = Transcript()
    transcript.add(call("a", status="pending"))
    transcript.add(change("a", status="completed", content=[1]))
    say(transcript, "behind")
    transcript.add(change("a", title="late"))
    assert events(transcript)[0] == call("a", status="completed", content=[1], title="late")
    transcript.add(change("a", status="in_progress"))
    transcript.add(change("a", status="failed"))
    assert events(transcript)[0] == call("a", status="failed", content=[1], title="late")
    assert len(events(transcript)) == 2


def test_calls_without_an_id_that_is_text_are_kept_one_by_one() -> None:
    transcript = Transcript()
    for _ in range(2):
        transcript.add({"sessionUpdate": "tool_call_update", "toolCallId": 7, "status": "failed"})
    assert len(events(transcript)) == 2


@pytest.mark.parametrize("piece", [10, 1_000, 100_000])
def test_of_a_turn_that_says_too_much_the_beginning_and_the_end_are_kept(piece: int) -> None:
    transcript = Transcript(1_000_000)
    count = 3_000_000 // piece
    for number in range(count):
        say(transcript, f"{number}".rjust(piece, "."))
    first, gap, last = texts(transcript)
    assert gap == _GAP
    assert first.startswith("0".rjust(piece, ".") + "1".rjust(piece, "."))
    assert last.endswith(f"{count - 2}".rjust(piece, ".") + f"{count - 1}".rjust(piece, "."))
    assert 800_000 < len(b"".join(transcript.pieces())) < 1_001_000
    assert abs(len(first) - len(last)) < 200_000


def test_of_many_events_the_first_and_the_last_are_kept_and_none_in_parts() -> None:
    transcript = Transcript(20_000)
    for number in range(1000):
        transcript.add({"sessionUpdate": "_own", "number": number, "text": "x" * 200})
    numbers = [event.get("number") for event in events(transcript)]
    assert None in numbers
    middle = numbers.index(None)
    assert numbers[:middle] == list(range(middle))
    assert numbers[middle + 1 :] == list(range(1000 - len(numbers[middle + 1 :]), 1000))
    assert 13_000 < len(b"".join(transcript.pieces())) < 20_500


def test_a_note_parts_no_text() -> None:
    transcript = Transcript()
    for number in range(3):
        say(transcript, f"{number}")
        transcript.note({"sessionUpdate": "_own", "number": number})
    *notes, said = events(transcript)
    assert [note["number"] for note in notes] == [0, 1, 2]
    assert said["content"]["text"] == "012"


def test_of_many_notes_the_first_and_the_last_are_kept() -> None:
    transcript = Transcript(20_000)
    for number in range(1000):
        transcript.note({"sessionUpdate": "_own", "number": number, "text": "x" * 200})
        say(transcript, "y")
    numbers = [event["number"] for event in events(transcript) if "number" in event]
    assert (numbers[0], numbers[-1]) == (0, 999)
    assert 13_000 < len(b"".join(transcript.pieces())) < 20_500


def test_nothing_is_said_to_be_left_out_of_a_turn_that_fits() -> None:
    transcript = Transcript(10_000)
    for number in range(880):
        say(transcript, f"{number:08},")
    # In two pieces: before anybody knows how much it will be.
    assert len(texts(transcript)) == 2
    assert "".join(texts(transcript)) == "".join(f"{number:08}," for number in range(880))


def test_a_call_that_runs_is_kept_whatever_is_said_meanwhile() -> None:
    transcript = Transcript(10_000)
    say(transcript, "x" * 6_000)
    transcript.add(call("a", status="pending"))
    transcript.add(call("b", status="completed"))
    for _ in range(100):
        say(transcript, "y" * 1_000)
    transcript.add(change("a", status="failed"))
    # Of the one that had ended nothing is known any more.
    transcript.add(change("b", title="late"))
    kept = [event for event in events(transcript) if "toolCallId" in event]
    assert kept == [call("a", status="failed"), change("b", title="late")]


@pytest.mark.parametrize("kinds", [["plan", "usage_update"], ["agent_message_chunk", "agent_thought_chunk"]])
def test_a_flood_of_small_events_does_not_grow_without_end(kinds: list[str]) -> None:
    transcript = Transcript(100_000)
    for number in range(5_000):
        for kind in kinds:
            if kind in ("plan", "usage_update"):
                transcript.add({"sessionUpdate": kind, "n": number})
            else:
                say(transcript, "x", kind)
    assert len(transcript._head) + len(transcript._tail) <= 1_000
    assert events(transcript)[-1].get("n", 4_999) == 4_999


def test_a_plan_that_was_left_out_gives_way_to_the_next_one() -> None:
    transcript = Transcript(10_000)
    say(transcript, "x" * 6_000)
    transcript.add({"sessionUpdate": "plan", "n": 1})
    for _ in range(20):
        say(transcript, "y" * 1_000)
    size = transcript._size
    transcript.add({"sessionUpdate": "plan", "n": 2})
    assert [event["n"] for event in events(transcript) if "n" in event] == [2]
    assert transcript._size <= size + 200


def _cost(calls: int) -> float:
    """CPU seconds for each update of so many calls that run at once, with a plan that changes meanwhile."""
    transcript = Transcript()
    start = process_time()
    for number in range(calls):
        transcript.add(call(f"c{number}", status="pending"))
        transcript.add({"sessionUpdate": "plan", "entries": []})
    for number in range(calls):
        transcript.add(change(f"c{number}", status="completed"))
    return (process_time() - start) / (3 * calls)


def test_an_update_costs_the_same_however_many_calls_run() -> None:
    _cost(100)
    few = min(_cost(100) for _ in range(5))
    many = min(_cost(5_000) for _ in range(2))
    # It was more than ten times as much when each update looked for its call.
    assert many < 4 * few


def test_turns_that_run_at_once_keep_no_more_together_than_their_bound() -> None:
    room = Share(4_000_000)
    turns = [Transcript(32_000_000, room) for _ in range(40)]
    for number in range(2000):
        for transcript in turns:
            say(transcript, f"{number}".rjust(1000, "."))
    kept = [len(b"".join(each.pieces())) for each in turns]
    assert room.size <= 4_000_000
    assert sum(kept) < 4_000_000 + 40 * 17_000
    assert min(kept) > 30_000
    for each in turns:
        first, gap, last = texts(each)
        assert (gap, first.lstrip(".")[0], last[-4:]) == (_GAP, "0", "1999")
        each.end()
    assert room.size == 0


def test_a_turn_that_runs_alone_keeps_its_own_bound() -> None:
    room = Share(4_000_000)
    for _ in range(2):
        record = TurnRecord([], most=1_000_000, room=room)
        for number in range(980):
            record.add({"sessionUpdate": MESSAGE, "content": {"type": "text", "text": f"{number}".rjust(1000)}})
        assert room.size > 900_000
        record.pack()
        said = "".join(event["content"]["text"] for event in record.events)
        assert said.split() == [f"{number}" for number in range(980)]
        assert room.size == 0


def test_an_update_for_which_there_is_no_room_is_not_kept() -> None:
    room = Share(100_000)
    transcript = Transcript(32_000_000, room)
    say(transcript, "first")
    transcript.add({"sessionUpdate": "_own", "text": "x" * 1_000_000})
    say(transcript, "last")
    assert texts(transcript) == ["first", _GAP, "last"]
    assert room.size <= 100_000

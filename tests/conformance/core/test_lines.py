"""Framing and transcripts."""

import pytest

from acp_conformance.core import lines
from acp_conformance.core.lines import MAX_TRANSCRIPT, Framer, TooLong, Transcript


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_the_same_however_the_bytes_arrive(size: int) -> None:
    data = '{"a":1}\n\n{"ü":"🦊"}\r\n'.encode() + b"rest"
    framer = Framer()
    found = [line for at in range(0, len(data), size) for line in framer.feed(data[at : at + size])]
    assert found == [b'{"a":1}', b"", '{"ü":"🦊"}\r'.encode()]
    assert framer.rest() == b"rest"


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    framer = Framer()
    assert list(framer.feed(b"x" * 10)) == []
    with pytest.raises(TooLong):
        list(framer.feed(b"x"))


def test_a_long_line_that_ends_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    assert list(Framer().feed(b"x" * 50 + b"\n")) == [b"x" * 50]


def test_a_transcript_shows_both_sides_in_order() -> None:
    transcript = Transcript()
    transcript.add("suite", b"{}")
    transcript.add("subject", b"\xff\xfe")
    shown = transcript.lines()
    assert [(line["from"], line["text"]) for line in shown] == [("suite", "{}"), ("subject", "\\xff\\xfe")]
    assert shown[0]["at"] <= shown[1]["at"]


def test_of_a_long_transcript_the_beginning_and_the_end_are_kept() -> None:
    transcript = Transcript()
    total = 5 * MAX_TRANSCRIPT + 7
    for number in range(total):
        transcript.add("subject", str(number).encode())
    shown = [line["text"] for line in transcript.lines()]
    assert shown[:MAX_TRANSCRIPT] == [str(number) for number in range(MAX_TRANSCRIPT)]
    assert shown[MAX_TRANSCRIPT] == f"... {total - 2 * MAX_TRANSCRIPT:,} lines are left out here ..."
    assert shown[-MAX_TRANSCRIPT:] == [str(number) for number in range(total - MAX_TRANSCRIPT, total)]
    assert len(shown) == 2 * MAX_TRANSCRIPT + 1

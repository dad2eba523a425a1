"""Output with a limit, and the tail of standard error: any bytes, in any pieces."""

from hypothesis import given
from hypothesis import strategies as st

from acp_server.processes.child import Tail
from acp_server.processes.command import CommandOutput

pieces = st.lists(st.one_of(st.binary(max_size=20), st.text(max_size=10).map(str.encode)), max_size=20)


@given(pieces, st.integers(0, 60))
def test_what_is_kept_is_the_end_of_the_text_in_whole_characters(data: list[bytes], limit: int) -> None:
    output = CommandOutput(limit)
    for piece in data:
        output.feed(piece)
    output.feed(b"", final=True)
    whole = b"".join(data).decode(errors="replace")
    kept = output.text
    assert whole.endswith(kept)
    assert len(kept.encode()) <= limit
    assert output.truncated == (kept != whole)
    if output.truncated:
        # No more was dropped than had to be.
        assert len(whole[-len(kept) - 1 :].encode()) > limit


def test_half_a_character_is_not_shown_before_its_other_half_has_come() -> None:
    output = CommandOutput(100)
    output.feed("é".encode()[:1])
    assert output.text == ""
    output.feed("é".encode()[1:])
    assert output.text == "é"
    output.feed(b"\xe2\x82")
    output.feed(b"", final=True)
    assert output.text == "é\ufffd"


def test_a_character_that_the_limit_would_cut_goes_altogether() -> None:
    output = CommandOutput(4)
    output.feed("a€b€".encode())
    assert output.text == "b€"
    assert output.truncated


@given(st.lists(st.text("ab\n\r", max_size=10).map(str.encode), max_size=20))
def test_lines_come_whole_in_any_pieces(data: list[bytes]) -> None:
    tail = Tail()
    lines = [line for piece in data for line in tail.feed(piece)] + tail.finish()
    whole = b"".join(data).decode()
    expected = [line.rstrip("\r") for line in whole.split("\n")]
    if not whole or whole.endswith("\n"):
        expected.pop()
    assert lines == expected
    assert tail.text == "\n".join(expected[-20:])


def test_an_endless_line_comes_in_pieces() -> None:
    tail = Tail()
    heard: list[str] = []
    for _ in range(100):
        heard += tail.feed(b"x" * 1000)
    assert len(heard) >= 11
    heard += tail.finish()
    assert "".join(heard) == "x" * 100_000
    assert max(map(len, heard)) == 8 * 1024

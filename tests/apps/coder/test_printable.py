"""Text fit to be shown."""

import pytest

from acp_server.apps.coder.roots import Roots, printable, quoted
from acp_server.apps.coder.run import Printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext ä 漢 \N{NO-BREAK SPACE}", "plain\ttext ä 漢 \N{NO-BREAK SPACE}"),
        ("red \x1b[31m", "red �[31m"),
        ("two\nlines\r", "two�lines�"),
        ("bytes \udcff half \ud800", "bytes � half �"),
        ("\x7f\x9b", "��"),
    ],
)
def test_what_would_move_the_cursor_or_cannot_be_written_is_replaced(text: str, expected: str) -> None:
    assert printable(text) == expected
    printable(text).encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown", "quotation"),
    [
        ("r\u200bm", "r\u200bm", "`r\\u200bm`"),
        ("a\u202eb", "a�b", "`a\\u202eb`"),
        ("a\u2028b", "a�b", "`a\\u2028b`"),
        ("a\u00a0b", "a\u00a0b", "`a\\xa0b`"),
        ("a\nb\x1b", "a�b�", "`a\\nb\\x1b`"),
    ],
)
def test_a_command_or_a_path_shows_each_character_and_a_text_those_that_it_needs(
    text: str, shown: str, quotation: str
) -> None:
    assert printable(text) == shown
    assert quoted(text) == quotation


def test_a_path_shows_each_character() -> None:
    assert Roots("/project").display("/project/a\u200b\u202e.py") == "a\\u200b\\u202e.py"


def test_a_long_quotation_is_cut_and_says_so() -> None:
    assert quoted("x" * 200) == f"`{'x' * 200}`"
    assert quoted("x" * 201) == f"`{'x' * 200}…`"


def test_what_a_program_prints_for_a_terminal_is_left_out_wherever_it_is_cut() -> None:
    printed = "a\x1b[1;31mred\x1b[0m\r\nb\rc\x1b]0;title\x07d\xe4\x00\n".encode()
    for cut in range(len(printed) + 1):
        out = Printed()
        text = out.feed(printed[:cut]) + out.feed(printed[cut:]) + out.feed(b"", final=True)
        assert text == "ared\nb\ncd\xe4\N{REPLACEMENT CHARACTER}\n"


def test_half_an_escape_and_half_a_character_at_the_end_are_shown_as_what_they_are() -> None:
    out = Printed()
    assert out.feed(b"a\x1b[3") == "a"
    assert out.feed(b"\xc3", final=True) == "\N{REPLACEMENT CHARACTER}[3\N{REPLACEMENT CHARACTER}"

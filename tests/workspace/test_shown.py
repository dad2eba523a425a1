"""Text fit to be shown."""

import pytest

from acp_server.workspace.shown import quoted, shown


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
    assert shown(text) == expected
    shown(text).encode("utf-8")


def test_a_long_quotation_is_cut_and_says_so() -> None:
    assert quoted("x" * 200) == f"`{'x' * 200}`"
    assert quoted("x" * 201) == f"`{'x' * 200}…`"

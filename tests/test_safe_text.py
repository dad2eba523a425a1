"""Texts of others, made harmless to show."""

import pytest

from acp_server.safe_text import escape, in_short, indented, one_line, problems_of


def test_what_steers_a_terminal_is_still_to_be_seen_and_does_nothing() -> None:
    assert escape("\x1b[2Jgone\u202e\ud800\tas it was\n") == "\\x1b[2Jgone\\u202e\\ud800\tas it was\n"


def test_further_lines_are_indented_so_that_none_looks_like_an_entry() -> None:
    assert indented("one\r\nINFO two\nthree") == "one\n    INFO two\n    three"


def test_one_line_is_one_line_and_of_a_long_text_the_ends_are_left() -> None:
    assert one_line("a\nb\tc\rd", 20) == "a\\nb\\tc\\rd"
    assert one_line("a" * 50 + "m" + "z" * 50, 10) == "aaaaa...zzzzz"


@pytest.mark.parametrize(
    "data",
    [None, 5, "path", ["path"], {}, {"path": 5}, {"path": ""}, {"token": "secret"}, {"problems": "many"}],
)
def test_of_other_data_nothing_is_shown(data: object) -> None:
    assert in_short(data) == ""


def test_of_data_its_path_its_uri_and_its_first_problems_are_shown() -> None:
    problems = [{"path": f"prompt[{n}].text", "message": "Field required"} for n in range(5)]
    assert in_short({"problems": problems, "secret": "x"}) == (
        "problems: " + "; ".join(f"prompt[{n}].text: Field required" for n in range(3))
    )
    assert in_short({"uri": "file:///a\nb", "path": "/x"}) == "path: /x, uri: file:///a\\nb"
    assert len(in_short({"path": "/" * 1_000_000, "problems": [{"message": "x" * 1_000_000}]})) < 1000


def test_problems_that_are_none_are_left_out() -> None:
    data = {"problems": [{"path": "a", "message": "one"}, {"message": "two"}, 3, {"path": "b"}]}
    assert problems_of(data) == ["a: one", "two"]

"""Texts of others, made harmless to show."""

import sys
from unicodedata import category

import pytest

from acp_server.safe_text import escape, in_short, indented, masked, one_line, problems_of


def test_what_steers_a_terminal_is_still_to_be_seen_and_does_nothing() -> None:
    assert escape("\x1b[2Jgone\u202e\ud800\tas it was\n") == "\\x1b[2Jgone\\u202e\\ud800\tas it was\n"


DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""What Unicode calls `Bidi_Control`."""
JOINED = [
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f",
]
"""A word of Persian, letters of Hindi, emoji: joiners and variation selectors belong to them."""


@pytest.mark.parametrize(
    "character", [*DIRECTIONS, "\u2028", "\u2029", "\x1b", "\x9b", "\r", "\u0085", "\ufeff", "\U000e0041"]
)
def test_what_turns_or_ends_a_line_is_an_escape_everywhere(character: str) -> None:
    shown = character.encode("unicode_escape").decode()
    assert escape(f"a{character}b") == escape(f"a{character}b", exact=True) == f"a{shown}b"
    assert masked(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("text", JOINED)
def test_a_text_keeps_what_its_script_needs_and_a_command_does_not(text: str) -> None:
    assert escape(text) == masked(text) == text
    assert "\\u" in escape(text, exact=True)


def test_the_table_knows_all_that_has_no_look_of_its_own() -> None:
    unseen = [
        chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
    ]
    # Letters and marks by their category, which are drawn as nothing: fillers, joiners and variation selectors.
    unseen += "\u034f\u115f\u1160\u17b4\u17b5\u180b\u3164\uffa0\ufe00\ufe0f\U000e0100\U000e01ef\u2065\ufff0"
    plain = [character for character in unseen if escape(character, exact=True) == character]
    assert plain == ["\t", "\n", " "]


def test_further_lines_are_indented_so_that_none_looks_like_an_entry() -> None:
    assert indented("one\r\nINFO two\nthree") == "one\n    INFO two\n    three"


def test_one_line_is_one_line_and_of_a_long_text_the_ends_are_left() -> None:
    assert one_line("a\nb\tc\rd", 20) == "a\\nb\\tc\\rd"
    assert one_line("a\u200bb", 20) == "a\u200bb"
    assert one_line("a\u200bb", 20, exact=True) == "a\\u200bb"
    assert one_line("a" * 50 + "m" + "z" * 50, 10) == "aaaaa...zzzzz"


@pytest.mark.parametrize(
    "data",
    [None, 5, "", ["path"], {}, {"path": 5}, {"path": ""}, {"token": "secret"}, {"problems": "many"}],
)
def test_of_other_data_nothing_is_shown(data: object) -> None:
    assert in_short(data) == ""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("quota exceeded:\x1b[31m see x", "quota exceeded:\\x1b[31m see x"),
        ({"details": "quota exceeded"}, "quota exceeded"),
        ({"message": "quota exceeded", "code": 1}, "quota exceeded"),
        ({"details": "this", "message": "and not this"}, "this"),
        ({"details": 5, "message": " "}, ""),
    ],
)
def test_the_cause_that_data_has_is_shown_and_harmless(data: object, told: str) -> None:
    assert in_short(data) == told


def test_a_long_cause_is_cut() -> None:
    assert len(in_short("x" * 100_000)) < 1_000


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

"""Text of strangers: harmless, and as wide as is said."""

import sys

import pytest

from acp_conformance.report.words import (
    clipped,
    columns,
    counted,
    grouped,
    printable,
    printable_lines,
    shown_lines,
    subject_of,
    wrapped,
)
from tests.conformance.report.runs import HOSTILE, every_verdict, result, run


def test_nothing_that_steers_or_cannot_be_written_is_left_of_any_character() -> None:
    everything = printable("".join(map(chr, range(sys.maxunicode + 1))))
    assert not set(everything) & {*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2028", "\ufeff"}
    everything.encode()
    assert "\ufffe" not in everything
    assert "\U0010ffff" not in everything
    assert "漢字é🧨~" in printable("漢字é🧨~")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[0m", "\\x1b[0m"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("\x9b", "\\x9b"),
    ],
)
def test_what_was_taken_out_can_still_be_read(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines_and_tabs_stay_tabs() -> None:
    assert printable_lines("a\r\n\tb\x1b\n\rc") == "a\n\tb\\x1b\n\\rc"


@pytest.mark.parametrize("width", range(1, 40))
def test_clipped_text_fits_however_wide_its_characters_are(width: int) -> None:
    text = printable(HOSTILE) + "漢字" * 40
    assert columns(clipped(text, width)) <= width
    assert clipped(text, width).endswith("." * min(width, 3))
    assert clipped("short", width) == ("short" if width > 4 else "." * width if width < 4 else "s...")


@pytest.mark.parametrize("width", [12, 20, 41])
def test_wrapped_text_fits_and_loses_nothing(width: int) -> None:
    text = printable(HOSTILE) + " " + "漢字" * 40 + " " + "x" * 100
    lines = wrapped(text, width, "  ")
    assert all(columns(line) <= width for line in lines)
    assert "".join(line[2:] for line in lines).replace(" ", "") == text.replace(" ", "")


def test_the_worst_is_counted_first_and_zeros_are_not() -> None:
    assert counted(every_verdict().cases) == (
        "1 could not run, 1 failed, 1 warned, 1 choice, 2 skipped, 1 not applicable, 1 passed"
    )
    assert counted([]) == "nothing was run"


def test_groups_stand_together_in_the_order_they_came() -> None:
    mixed = run(result("b/1"), result("a/1"), result("b/2"))
    assert [(group, [case.id for case in cases]) for group, cases in grouped(mixed)] == [
        ("b", ["b/1", "b/2"]),
        ("a", ["a/1"]),
    ]


@pytest.mark.parametrize(
    ("count", "shown"), [(0, []), (4, [0, 1, 2, 3]), (5, [0, 1, 3, 4]), (10**9, [0, 1, 10**9 - 2, 10**9 - 1])]
)
def test_of_too_many_lines_the_beginning_and_the_end_are_shown(count: int, shown: list[int]) -> None:
    assert [number for part in shown_lines(count, 4) for number in part] == shown


def test_a_subject_is_called_by_its_name_and_a_nameless_one_by_nothing() -> None:
    assert subject_of(run(result("ids/a"))) == "sample 1.2 (protocol 1)"
    both = run(result("ids/a"), result("v2-ids/a", protocol=2))
    assert subject_of(both) == "sample 1.2 (protocols 1 and 2)"
    # The answer of an agent to a client that asks for version 1 says nothing of what was judged.
    assert subject_of(run(result("v2-ids/a", protocol=2))) == "sample 1.2 (protocol 2)"
    assert subject_of(run(subject={"name": None, "version": None, "protocolVersion": 1})) == ""
    assert subject_of(run(subject=None)) == ""

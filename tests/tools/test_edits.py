"""Changes to a text: where lines and blocks go, and what is refused."""

import time

import pytest

from acp_server.tools.editor import EditRefused, FileOperation, ReplaceInstruction, insert, replace

TEXT = "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("text", "operations", "expected"),
    [
        (TEXT, [], TEXT),
        (TEXT, [FileOperation(1, "zero")], "zero\none\ntwo\nthree\n"),
        (TEXT, [FileOperation(2, "a\nb\n")], "one\na\nb\ntwo\nthree\n"),
        (TEXT, [FileOperation(4, "four")], "one\ntwo\nthree\nfour\n"),
        (TEXT, [FileOperation(3, "b"), FileOperation(1, "a")], "a\none\ntwo\nb\nthree\n"),
        (TEXT, [FileOperation(2, "a"), FileOperation(2, "b")], "one\na\nb\ntwo\nthree\n"),
        (TEXT, [FileOperation(2, "")], "one\n\ntwo\nthree\n"),
        ("one\ntwo", [FileOperation(3, "three")], "one\ntwo\nthree\n"),
        ("one\ntwo", [FileOperation(2, "x")], "one\nx\ntwo"),
        ("", [FileOperation(1, "one")], "one\n"),
        ("one\r\ntwo\r\n", [FileOperation(2, "a\nb")], "one\r\na\r\nb\r\ntwo\r\n"),
        ("one\r\ntwo", [FileOperation(3, "a\r\nb")], "one\r\ntwo\r\na\r\nb\r\n"),
        ("one\x0cpage\u2028x\ntwo\n", [FileOperation(2, "a")], "one\x0cpage\u2028x\na\ntwo\n"),
    ],
)
def test_lines_are_put_in_before_the_lines_as_they_were(text: str, operations: list[FileOperation], expected: str):
    assert insert(text, operations) == expected


@pytest.mark.parametrize(("line", "text", "count"), [(0, TEXT, 3), (-1, TEXT, 3), (5, TEXT, 3), (2, "", 0)])
def test_a_line_that_is_not_there_is_refused(line: int, text: str, count: int):
    with pytest.raises(EditRefused, match=f"there is no line {line}, because the file has {count} lines"):
        insert(text, [FileOperation(1, "x"), FileOperation(line, "x")])


def block(existing: str, new: str, **more: object) -> ReplaceInstruction:
    return ReplaceInstruction(existing, new, **more)  # pyright: ignore[reportArgumentType]


TWICE = "def a():\n    pass\n\n\ndef b():\n    pass\n"


@pytest.mark.parametrize(
    ("text", "instructions", "expected"),
    [
        (TEXT, [], TEXT),
        (TEXT, [block("two\n", "2\n")], "one\n2\nthree\n"),
        (TEXT, [block("two\n", "")], "one\nthree\n"),
        (TEXT, [block("three", "3"), block("one", "1")], "1\ntwo\n3\n"),
        (TEXT, [block("one", "two"), block("two", "one")], "two\none\nthree\n"),
        (TEXT, [block("ne\ntw", "NE\nTW")], "oNE\nTWo\nthree\n"),
        (TWICE, [block("    pass", "    b()", context_before="def b():")], TWICE[:-9] + "    b()\n"),
        (TWICE, [block("    pass", "    b()", context_before="def b():\n")], TWICE[:-9] + "    b()\n"),
        (TWICE, [block("    pass", "    a()", context_after="\n\ndef b")], TWICE.replace("    pass", "    a()", 1)),
        (TWICE, [block("    pass", "    b()", start_line_hint=5)], TWICE[:-9] + "    b()\n"),
        (TWICE, [block("    pass", "    a()", start_line_hint=1)], TWICE.replace("    pass", "    a()", 1)),
        ("a\r\nb\r\nc\r\n", [block("a\nb", "x\ny")], "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", [block("b", "x", context_before="a\n", context_after="c")], "a\r\nx\r\nc\r\n"),
        ("a.b(c)*\n", [block("a.b(c)*", r"\1")], "\\1\n"),
    ],
)
def test_blocks_are_found_by_what_is_in_them_and_around_them(
    text: str, instructions: list[ReplaceInstruction], expected: str
):
    assert replace(text, instructions) == expected


@pytest.mark.parametrize(
    ("text", "instructions", "reason"),
    [
        (TEXT, [block("four", "4")], "the block to replace is not in the file"),
        (TEXT, [block("", "4")], "the block to replace is empty"),
        (
            TWICE,
            [block("    pass", "")],
            "the block to replace is in the lines 2, 6; choose a place by its context or a line hint",
        ),
        (TWICE, [block("    pass", "", start_line_hint=4)], "the block to replace is in the lines 2, 6; choose"),
        (
            TWICE,
            [block("    pass", "", context_before="def c():")],
            "the block to replace is in the lines 2, 6, but not with the given context",
        ),
        (
            TEXT,
            [block("two", "", context_after="four")],
            "the block to replace is in line 2, but not with the given context",
        ),
        (TEXT, [block("one\ntwo", "1"), block("two\nthree", "2")], "two blocks to replace overlap in line 2"),
        (TEXT, [block("two", "1"), block("two", "2")], "two blocks to replace overlap in line 2"),
        ("aaa\n", [block("aa", "b")], "the block to replace is in the lines 1, 1"),
        (
            "x\n" * 20,
            [block("x", "")],
            "the block to replace is in the lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...; choose a place",
        ),
    ],
)
def test_a_block_that_is_not_in_exactly_one_place_is_refused(
    text: str, instructions: list[ReplaceInstruction], reason: str
):
    with pytest.raises(EditRefused) as caught:
        replace(text, instructions)
    assert str(caught.value).startswith(reason)


def test_a_block_that_overlaps_with_itself_everywhere_is_refused_before_it_takes_for_ever() -> None:
    begun = time.thread_time()
    with pytest.raises(EditRefused, match="too often"):
        replace("a" * 1_000_000, [ReplaceInstruction("a" * 100_000, "b")])
    assert time.thread_time() - begun < 2

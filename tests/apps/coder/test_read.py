"""Reading a file or some of its lines, within bounds."""

import os
import sys
from pathlib import Path

import pytest

from acp_server.apps.coder import read as read_module
from acp_server.apps.coder.read import BLOCK_BYTES, Passage, Reading
from acp_server.apps.coder.roots import OutsideRoots, Refusal, Roots

from .trees import plant

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="names as POSIX has them")


def read(root: Path, target: str) -> Passage:
    *before, passage = Reading(Roots(root), target).run()
    assert not any(before)
    assert passage is not None
    return passage


@pytest.fixture
def five(tmp_path: Path) -> Path:
    return plant(tmp_path, {"d/five.txt": "1\n2\r\n3\n4\n5\n", "empty": ""})


@pytest.mark.parametrize(
    ("target", "first", "last", "text"),
    [
        ("d/five.txt", 1, 5, "1\n2\n3\n4\n5"),
        ("d/five.txt:2", 2, 2, "2"),
        ("d/five.txt:2-4", 2, 4, "2\n3\n4"),
        ("d/five.txt:4-", 4, 5, "4\n5"),
        ("d/five.txt:4-99", 4, 5, "4\n5"),
        ("d/five.txt:3:7", 3, 3, "3"),
        ("d/five.txt:3:7:", 3, 3, "3"),
        ("./d/../d/five.txt:1-1", 1, 1, "1"),
        ("empty", 1, 0, ""),
        ("empty:1-3", 1, 0, ""),
    ],
)
def test_a_file_or_a_range_of_its_lines_is_read(five: Path, target: str, first: int, last: int, text: str) -> None:
    passage = read(five, target)
    assert (passage.first, passage.last, passage.text, passage.left_out) == (first, last, text, None)
    assert Path(passage.path) == five / target.partition(":")[0].removeprefix("./d/../")


@posix_only
@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("a:10", "file a:10"),
        ("a:1", "a"),
        ("a:10:1", "file a:10"),
        ("a:b:c.txt", "colons"),
        ("a:b:c.txt:1", "colons"),
        ("C:\\x.txt:1", "windows"),
        (":5", "only a number"),
        ("with space.txt:1", "space"),
    ],
)
def test_what_names_an_existing_file_is_a_path_whatever_colons_it_has(tmp_path: Path, target: str, text: str) -> None:
    plant(tmp_path, {"a": "a", "a:10": "file a:10", "a:b:c.txt": "colons", ":5": "only a number"})
    plant(tmp_path, {"C:\\x.txt": "windows", "with space.txt": "space"})
    assert read(tmp_path, target).text == text


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("d/five.txt:0", "Not a range of lines: `0`"),
        ("d/five.txt:4-2", "Not a range of lines: `4-2`"),
        ("d/five.txt:6", "`d/five.txt` has no line 6, because it has 5 lines"),
        ("d/five.txt:9-12", "`d/five.txt` has no line 9, because it has 5 lines"),
        ("empty:2", "`empty` has no line 2, because it has 0 lines"),
        ("d", "Not a file but a directory: `d`"),
        ("d:3", "Not a file but a directory: `d`"),
        ("missing.txt", "No such file: `missing.txt`"),
        ("missing.txt:10-20", "No such file: `missing.txt`"),
        ("d/five.txt:x", "No such file: `d/five.txt:x`"),
        ("d/five.txt:-3", "No such file: `d/five.txt:-3`"),
        ("d/five.txt/x", "No such file: `d/five.txt/x`"),
        ("", "The path is empty"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(five: Path, target: str, message: str) -> None:
    with pytest.raises(Refusal) as caught:
        read(five, target)
    assert str(caught.value) == message


@pytest.mark.parametrize("target", ["../x", "../x:10", "/etc/passwd", "/etc/passwd:1-2", "~/.ssh/id_rsa"])
def test_nothing_outside_is_read(five: Path, target: str) -> None:
    with pytest.raises(OutsideRoots):
        read(five, target)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, {"a.png": b"\x89PNG\0"})
    with pytest.raises(Refusal, match=r"^The file is binary: `a\.png`$"):
        read(tmp_path, "a.png:1-2")


@posix_only
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refusal, match=r"^Not a regular file: `pipe`$"):
        read(tmp_path, "pipe")


# Bounds


def test_of_many_lines_the_first_are_shown_and_where_to_go_on_is_said(tmp_path: Path) -> None:
    plant(tmp_path, {"many": "".join(f"{n}\n" for n in range(1, 5001))})
    passage = read(tmp_path, "many:11-")
    assert (passage.first, passage.last) == (11, 2010)
    assert passage.text.split("\n") == [str(n) for n in range(11, 2011)]
    assert passage.left_out is not None
    assert "2011" in passage.left_out
    assert read(tmp_path, "many:1001-3000").left_out is None


def test_of_long_lines_those_that_fit_are_shown(tmp_path: Path) -> None:
    plant(tmp_path, {"long": "\n".join(str(n) * 100_000 for n in range(1, 6))})
    passage = read(tmp_path, "long")
    assert passage.text == "1" * 100_000 + "\n" + "2" * 100_000
    assert (passage.last, passage.left_out is None) == (2, False)
    assert read(tmp_path, "long:4").text == "4" * 100_000


@pytest.mark.parametrize("length", [BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
def test_a_line_that_is_too_long_by_itself_is_cut(tmp_path: Path, length: int) -> None:
    plant(tmp_path, {"line": "a\n" + "x" * length + "\nb\n"})
    passage = read(tmp_path, "line:2-2")
    assert passage.text == "x" * BLOCK_BYTES
    assert (passage.last, passage.left_out is None) == (2, length == BLOCK_BYTES)
    assert read(tmp_path, "line:3").text == "b"
    with pytest.raises(Refusal, match="has no line 4, because it has 3 lines"):
        read(tmp_path, "line:4")


def test_a_far_line_is_found_without_keeping_what_stands_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "MOST_CHARACTERS", 100)
    plant(tmp_path, {"far": "hay\n" * 300_000 + "needle\n"})
    reading = Reading(Roots(tmp_path), "far:300001").run()
    pulses = 0
    while (passage := next(reading)) is None:
        pulses += 1
    assert passage.text == "needle"
    assert pulses >= 4, "it can be stopped on the way"


def test_no_more_is_read_than_is_wanted(tmp_path: Path) -> None:
    plant(tmp_path, {"large": "line\n" * 2_000_000})
    assert len(list(Reading(Roots(tmp_path), "large:3-4").run())) == 1

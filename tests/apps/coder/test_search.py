"""Searching: hits as they are found, counts that are right at every moment, nothing fatal in a file."""

import os
import shutil
import sys
import tracemalloc
from pathlib import Path

import pytest

from acp_server.apps.coder import search as module
from acp_server.apps.coder.read import BLOCK_BYTES
from acp_server.apps.coder.roots import OutsideRoots, Refusal, Roots
from acp_server.apps.coder.search import Hit, Search

from .trees import plant

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="files as POSIX has them")


def hits_of(search: Search) -> list[Hit]:
    return [item for item in search.run() if item is not None]


def found(root: Path, pattern: str, path: str | None = None) -> list[tuple[str, int, int, str]]:
    search = Search(Roots(root), pattern, path)
    hits = hits_of(search)
    assert search.complete
    assert search.hits == len(hits)
    return [(Path(hit.path).relative_to(root).as_posix(), hit.line, hit.column, hit.text) for hit in hits]


def test_hits_have_the_line_and_the_column_of_the_first_match_in_the_order_of_the_paths(tmp_path: Path) -> None:
    plant(tmp_path, {"b.txt": "x\n  needle needle\r\n", "a/c.txt": "needle", "a.txt": "ä needle  \n\nneedles\n"})
    assert found(tmp_path, "needle") == [
        ("a.txt", 1, 3, "ä needle"),
        ("a.txt", 3, 1, "needles"),
        ("a/c.txt", 1, 1, "needle"),
        ("b.txt", 2, 3, "  needle needle"),
    ]


def test_line_numbers_go_on_through_all_blocks_of_a_large_file(tmp_path: Path) -> None:
    lines = [f"{n} {'needle' if n % 40_000 == 7 else 'hay'}" for n in range(1, 200_001)]
    plant(tmp_path, {"large": "\n".join(lines) + "\n"})
    expected = [7, 40_007, 80_007, 120_007, 160_007]
    assert [line for _, line, _, _ in found(tmp_path, r"\bneedle$")] == expected
    assert [line for _, line, _, _ in found(tmp_path, r"\bneedle\Z")] == expected


def test_ignored_and_binary_files_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log\n", "a.log": "needle", "b.txt": "needle", "c.bin": b"needle\0"})
    search = Search(Roots(tmp_path), "needle")
    assert [Path(hit.path).name for hit in hits_of(search)] == ["b.txt"]
    assert (search.files, search.binary_files, search.skipped) == (2, 1, [])
    assert found(tmp_path, "needle", "a.log") == [("a.log", 1, 1, "needle")]
    assert found(tmp_path, "needle", "c.bin") == []


def test_undecodable_text_is_searched_around_what_is_bad(tmp_path: Path) -> None:
    plant(tmp_path, {"latin1": "caf\xe9 needle\n".encode("latin-1"), "utf16": "needle ä".encode("utf-16")})
    assert found(tmp_path, r"needle") == [("latin1", 1, 6, "caf\ufffd needle"), ("utf16", 1, 1, "needle ä")]


def test_all_directories_are_searched_without_a_path(tmp_path: Path) -> None:
    plant(tmp_path, {"one/a": "needle", "two/b": "needle"})
    hits = hits_of(Search(Roots(tmp_path / "one", [tmp_path / "two"]), "needle"))
    assert [hit.path for hit in hits] == [str(tmp_path / "one" / "a"), str(tmp_path / "two" / "b")]


def test_what_cannot_be_shown_is_replaced_in_the_text_of_a_hit(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "\x1b[31mneedle\x07\n"})
    assert found(tmp_path, "needle")[0][3] == "�[31mneedle�"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (0, 194, "needle" + "y" * 194),
        (0, 195, "needle" + "y" * 194 + "…"),
        (194, 0, "x" * 194 + "needle"),
        (1000, 0, "…" + "x" * 194 + "needle"),
        (1000, 1000, "…" + "x" * 50 + "needle" + "y" * 144 + "…"),
    ],
)
def test_of_a_long_line_what_stands_around_the_match_is_shown(
    tmp_path: Path, before: int, after: int, text: str
) -> None:
    plant(tmp_path, {"a": "x" * before + "needle" + "y" * after})
    assert found(tmp_path, "needle") == [("a", 1, before + 1, text)]


def test_an_over_long_line_is_searched_in_pieces_and_counts_as_one(tmp_path: Path) -> None:
    before = 3 * BLOCK_BYTES - 3
    plant(tmp_path, {"a": "first\n" + "x" * before + "needle needle" + "y" * BLOCK_BYTES + "\nneedle"})
    text = "…" + "x" * 50 + "needle needle" + "y" * 137 + "…"
    assert found(tmp_path, "needle") == [("a", 2, before + 1, text), ("a", 3, 1, "needle")]


@posix_only
def test_a_file_of_a_gigabyte_without_a_newline_is_searched_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"x" * 10_000)
    os.truncate(tmp_path / "huge", 1 << 30)
    tracemalloc.start()
    try:
        running = Search(Roots(tmp_path), "needle").run()
        for _ in range(300):
            next(running)
        running.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


# Stopped, slow, broken


def test_the_counts_are_right_when_it_is_stopped_in_the_middle(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n:02}": "needle\nneedle\n" for n in range(10)})
    search = Search(Roots(tmp_path), "needle")
    running = search.run()
    hits: list[Hit] = []
    while len(hits) < 5:
        item = next(running)
        hits += [item] if item else []
    running.close()
    assert (search.hits, search.files, search.complete, search.gave_up) == (5, 2, False, False)


def test_the_first_hit_comes_before_the_rest_of_the_tree_is_looked_at(tmp_path: Path) -> None:
    plant(tmp_path, {"a/first": "needle", **{f"b{n}/c": "needle" for n in range(20)}})
    running = Search(Roots(tmp_path), "needle").run()
    while (hit := next(running)) is None:
        pass
    assert hit.path == str(tmp_path / "a" / "first")
    for n in range(20):
        shutil.rmtree(tmp_path / f"b{n}")
    assert [item for item in running if item is not None] == []


@pytest.mark.parametrize("content", ["hay", "", b"\0"])
def test_something_is_yielded_for_each_file_so_that_a_search_without_hits_can_stop(
    tmp_path: Path, content: str | bytes
) -> None:
    plant(tmp_path, {f"{n}": content for n in range(50)})
    assert len(list(Search(Roots(tmp_path), "needle").run())) >= 50


def test_something_is_yielded_for_each_directory_so_that_a_search_without_files_can_stop(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n}/": "" for n in range(50)})
    assert len(list(Search(Roots(tmp_path), "needle").run())) >= 50


def test_a_file_that_vanishes_is_skipped_and_said_so_without_a_path_in_the_reason(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "needle", "b": "needle", "c": "needle"})
    search = Search(Roots(tmp_path), "needle")
    running = search.run()
    while (hit := next(running)) is None:
        pass
    (tmp_path / "b").unlink()
    rest = [item for item in running if item is not None]
    assert [hit.path, *(item.path for item in rest)] == [str(tmp_path / "a"), str(tmp_path / "c")]
    (skipped,) = search.skipped
    assert skipped.path == str(tmp_path / "b")
    assert str(tmp_path) not in skipped.reason
    assert (search.files, search.complete) == (3, True)


@posix_only
def test_a_file_that_is_replaced_by_a_link_meanwhile_is_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, {"top/a": "needle", "top/b": "needle", "outside/key": "needle"})
    search = Search(Roots(tmp_path / "top"), "needle")
    running = search.run()
    while next(running) is None:
        pass
    (tmp_path / "top" / "b").unlink()
    (tmp_path / "top" / "b").symlink_to(tmp_path / "outside" / "key")
    assert [item for item in running if item is not None] == []
    assert [skipped.path for skipped in search.skipped] == [str(tmp_path / "top" / "b")]


def test_a_slow_line_is_skipped_and_named_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIME_LIMIT", 0.01)
    plant(tmp_path, {"a": "1\n" + "1," * 40 + "\n" + "1," * 20 + "P", "b": "1," * 20 + "P"})
    search = Search(Roots(tmp_path), r"(?:.*?,){20}P")
    assert [(Path(hit.path).name, hit.line) for hit in hits_of(search)] == [("a", 3), ("b", 1)]
    assert [(Path(skipped.path).name, skipped.line) for skipped in search.skipped] == [("a", 2)]
    assert search.complete


def test_a_pattern_that_is_slow_everywhere_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIME_LIMIT", 0.01)
    plant(tmp_path, {"a": "1," * 20 + "P", **{f"b{n:02}": ("1," * 40 + "\n") * 3 for n in range(20)}})
    search = Search(Roots(tmp_path), r"(?:.*?,){20}P")
    assert len(hits_of(search)) == 1
    assert search.gave_up
    assert not search.complete
    assert len(search.skipped) == 20


def test_an_invalid_pattern_is_refused_before_anything_is_searched(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="Not a valid regular expression: missing"):
        Search(Roots(tmp_path), "(", "../no/matter/what")


@pytest.mark.parametrize(("path", "error"), [("..", OutsideRoots), ("missing", Refusal), ("/etc/passwd", OutsideRoots)])
def test_a_path_out_or_to_nothing_is_refused(tmp_path: Path, path: str, error: type[Refusal]) -> None:
    with pytest.raises(error) as caught:
        hits_of(Search(Roots(tmp_path), "x", path))
    assert path in str(caught.value)
    assert str(tmp_path) not in str(caught.value)

"""Counting a project: totals that are right at the end and at every moment before."""

from pathlib import Path

import pytest

from acp_server.apps.coder.roots import OutsideRoots, Refusal, Roots
from acp_server.apps.coder.scan import Scan, Tally, Todo

from .trees import plant


def scanned(root: Path, path: str | None = None) -> tuple[Scan, list[Todo]]:
    scan = Scan(Roots(root), path)
    assert list(scan.list_files()).count(None) > 0
    todos = [todo for todo in scan.read_files() if todo is not None]
    assert scan.complete
    return scan, todos


def test_files_and_lines_are_counted_by_language(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            ".gitignore": "build\n",
            "a.py": "1\n2\n3\n",
            "b/c.py": "1\n2",
            "d.md": "\n",
            "empty.py": "",
            "e.bin": b"\0\n\n",
            "Makefile": "x:\n",
            "build/z.py": "ignored\n",
        },
    )
    scan, todos = scanned(tmp_path)
    assert scan.languages == {
        "Other": Tally(1, 1),
        "Makefile": Tally(1, 1),
        "Python": Tally(3, 5),
        "Markdown": Tally(1, 1),
    }
    assert (scan.files, scan.files_read, scan.binary_files, scan.lines) == (7, 7, 1, 8)
    assert scan.bytes == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) - len("ignored\n")
    assert (todos, scan.todo_count, scan.skipped) == ([], 0, [])


def test_the_ten_largest_files_are_known_as_soon_as_the_files_are_listed(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n:02}": "x" * (n % 12) for n in range(24)})
    scan = Scan(Roots(tmp_path))
    list(scan.list_files())
    names = [(size, Path(path).name) for size, path in scan.largest]
    assert names[:5] == [(11, "11"), (11, "23"), (10, "10"), (10, "22"), (9, "09")]
    assert names[5:] == [(9, "21"), (8, "08"), (8, "20"), (7, "07"), (7, "19")]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("x = 1  # TODO: later", "TODO: later"),
        ("//FIXME", "FIXME"),
        ("/* TODO(me) it */", "TODO(me) it */"),
        (" * TODO one", "TODO one"),
        ("SELECT 1 -- TODO index", "TODO index"),
        ("(f) ; FIXME lisp", "FIXME lisp"),
        ("% TODO tex", "TODO tex"),
        ("<!-- TODO html -->", "TODO html -->"),
        ('"""TODO docstring', "TODO docstring"),
        ("TODO: by itself", "TODO: by itself"),
        ("# TODO one # FIXME two", "TODO one # FIXME two"),
        ("# TODO \x1b[31mred", "TODO �[31mred"),
        ("# TODO " + "x" * 500, "TODO " + "x" * 155),
        ("# TODOs", None),
        ("# xTODO", None),
        ("# _FIXME", None),
        ("# xTODO: FIXME too", "FIXME too"),
        ("# todo", None),
        ("# TODO_LIST", None),
        ("# TODO-list", None),
        ("a TODO in a sentence", None),
        ('print("TODO")', None),
        ("see https://example.org/TODO", None),
        ("TODO", None),
    ],
)
def test_a_comment_that_says_what_is_to_do_is_found(tmp_path: Path, line: str, text: str | None) -> None:
    plant(tmp_path, {"a": f"first\n{line}\nlast\n"})
    assert scanned(tmp_path)[1] == ([Todo(str(tmp_path / "a"), 2, text)] if text else [])


def test_each_line_counts_once_and_lines_are_numbered_through_all_blocks(tmp_path: Path) -> None:
    lines = [f"# {'TODO TODO' if n % 30_000 == 1 else 'done'} {n}" for n in range(1, 100_001)]
    plant(tmp_path, {"a": "\n".join(lines)})
    scan, todos = scanned(tmp_path)
    assert [todo.line for todo in todos] == [1, 30_001, 60_001, 90_001]
    assert (scan.lines, scan.todo_count) == (100_000, 4)


def test_of_very_many_the_first_two_hundred_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "# TODO\n" * 150, "b": "# TODO\n" * 150})
    scan, todos = scanned(tmp_path)
    assert todos == scan.todos
    assert (len(todos), scan.todo_count) == (200, 300)


def test_a_minified_line_with_endless_comment_signs_takes_no_time(tmp_path: Path) -> None:
    plant(tmp_path, {"a.js": "//;#" * 500_000 + " TODO\n" + "//;#" * 50_000 + "x\n# TODO real\n"})
    scan, todos = scanned(tmp_path)
    assert [todo.line for todo in todos] == [3]
    assert scan.lines == 3


def test_the_counts_are_right_when_it_is_stopped_in_the_middle(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n}.py": "1\n2\n# TODO\n" for n in range(8)})
    scan = Scan(Roots(tmp_path))
    listing = scan.list_files()
    for _ in range(4):
        next(listing)
    listing.close()
    assert (scan.files, scan.listed) == (3, False)

    list(scan.list_files())
    reading = scan.read_files()
    while scan.files_read < 5:
        next(reading)
    reading.close()
    assert (scan.files, scan.listed, scan.complete) == (8, True, False)
    assert (scan.languages, scan.lines, scan.todo_count) == ({"Python": Tally(5, 15)}, 15, 5)


def test_a_file_that_vanishes_between_listing_and_reading_is_skipped_and_said_so(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "1\n", "b.py": "1\n"})
    scan = Scan(Roots(tmp_path))
    list(scan.list_files())
    (tmp_path / "a.py").unlink()
    list(scan.read_files())
    assert [skipped.path for skipped in scan.skipped] == [str(tmp_path / "a.py")]
    assert (scan.files_read, scan.languages, scan.complete) == (1, {"Python": Tally(1, 1)}, True)


def test_a_directory_or_a_file_can_be_scanned_by_itself(tmp_path: Path) -> None:
    plant(tmp_path, {"a/b.py": "1\n", "c.py": "1\n2\n"})
    assert scanned(tmp_path, "a")[0].languages == {"Python": Tally(1, 1)}
    assert scanned(tmp_path, "c.py")[0].languages == {"Python": Tally(1, 2)}


def test_a_path_out_or_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutsideRoots):
        list(Scan(Roots(tmp_path), "../x").list_files())
    with pytest.raises(Refusal, match="No such file or directory: `x`"):
        list(Scan(Roots(tmp_path), "x").list_files())

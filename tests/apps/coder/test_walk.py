"""The files below a directory: those that git would see, in its order, and no way out."""

import os
import random
import shutil
import socket
import sys
from pathlib import Path

import pytest

from acp_server.apps.coder.roots import OutsideRoots, Refusal, Roots
from acp_server.apps.coder.walk import Skipped, files_below, walk

from .trees import git, git_files, paths, plant

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="files and names as POSIX has them")


def walked(top: Path) -> list[str]:
    return paths(top, walk(str(top)))


# As git does it

NAMES = ["foo", "bar", "a", "b", "c", "x.c", "keep.d", "build", "x1.c", "!x", "#x", "a b", "ä", "foo.bar", "x", "a-b"]
PATTERNS = [
    *["*.c", "foo", "foo/", "/foo", "keep.d/", "foo/*", "foo/**", "**/bar", "a/**/b", "*", "build", "*.d", "[a-c]*"],
    *["[!a]*", "b?r", "foo/bar", "/foo/bar/", "**", "foo/**/", "[[:alpha:]].c", "x[[:digit:]].c", "\\!x", "\\#x", "#x"],
    *["a\\ b", "x.c  ", "foo//bar", "!", "/", "*/", "[z-a]", "[a", "a\\", "*/x.c", "foo*bar", "**foo", "x**.c", "a/b/"],
    *["a/*/c", "ä", "x.c\r", "?", "*.*", "*.?*.*", "/*", "/*/", "a/", "**/a/**", "[^a]", "[]a]", "\\foo", "f[o][o]"],
    *["!foo", "!keep.d", "!keep.d/", "!foo/bar", "!*/", "!*.c", "!/build", "!**/x.c", "!foo/**/", "!foo/**/x.c", "!a/"],
]


def grow(directory: Path, dice: random.Random, depth: int = 0) -> None:
    for name in dice.sample(NAMES, dice.randint(2, 7)):
        if depth < 3 and dice.random() < 0.5:
            (directory / name).mkdir()
            grow(directory / name, dice, depth + 1)
        else:
            (directory / name).write_text("x\n")
    if depth == 0 or dice.random() < 0.3:
        ending = dice.choice(["\n", "\r\n", ""])
        mark = dice.choice(["", "", "\ufeff"])
        lines = "\n".join(dice.sample(PATTERNS, dice.randint(1, 5)))
        (directory / ".gitignore").write_bytes((mark + lines + ending).encode())


@pytest.mark.usefixtures("require_git")
@pytest.mark.parametrize("seed", range(60))
def test_a_generated_tree_is_seen_as_git_sees_it(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    git(tmp_path, "init", "-q")
    grow(tmp_path, dice)
    exclude = "\n".join(dice.sample(PATTERNS, 2))
    (tmp_path / ".git" / "info" / "exclude").write_text(exclude)
    expected = git_files(tmp_path)
    if sys.platform == "darwin":  # names may come back decomposed
        expected.sort()
    assert walked(tmp_path) == expected


@pytest.mark.usefixtures("require_git")
@pytest.mark.parametrize("seed", range(60, 75))
def test_a_directory_inside_a_repository_is_seen_as_git_sees_it_there(tmp_path: Path, seed: int) -> None:
    git(tmp_path, "init", "-q")
    grow(tmp_path, random.Random(seed))
    for directory in [path for path in tmp_path.rglob("*") if path.is_dir() and ".git" not in path.parts]:
        ignored = git(tmp_path, "ls-files", "-ciozd", "--others", "--directory", "--exclude-standard").split("\0")
        name = directory.relative_to(tmp_path).as_posix()
        if any(f"{name}/".startswith(entry) for entry in ignored if entry.endswith("/")):
            continue  # it is ignored as a whole: walked all the same, see below
        assert walked(directory) == git_files(directory)


def test_whole_paths_come_out_sorted(tmp_path: Path) -> None:
    names = ["a-b", "a/b", "a.c/d", "a/c/d", "B", "a0", "ab"]
    plant(tmp_path, dict.fromkeys(names, ""))
    assert walked(tmp_path) == sorted(names)


@pytest.mark.parametrize("place", [".gitignore", ".git/info/exclude"])
def test_rules_above_the_walked_directory_count_up_to_the_root_of_its_repository(tmp_path: Path, place: str) -> None:
    plant(tmp_path, {".gitignore": "*.txt\n", f"repo/{place}": "*.log\n", "repo/.git/HEAD": ""})
    plant(tmp_path, dict.fromkeys(["repo/p/q/x.log", "repo/p/q/x.txt"], ""))
    assert walked(tmp_path / "repo" / "p" / "q") == ["x.txt"]


def test_outside_of_a_repository_nothing_above_counts(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*\n", "top/.gitignore": "*.log\n", "top/a.log": "", "top/a.txt": ""})
    assert walked(tmp_path / "top") == [".gitignore", "a.txt"]


def test_an_ignored_directory_is_walked_when_it_is_what_was_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, {".git/HEAD": "", ".gitignore": "build/\n*.o\n", "build/x/.gitignore": "*.a\n"})
    plant(tmp_path, dict.fromkeys(["build/m.o", "build/x/n.a", "build/x/n.c"], ""))
    assert walked(tmp_path) == [".gitignore"]
    assert walked(tmp_path / "build") == ["m.o", "x/.gitignore", "x/n.c"]
    assert walked(tmp_path / "build" / "x") == [".gitignore", "n.c"]


def test_inside_a_nested_repository_its_own_rules_count_and_no_others(tmp_path: Path) -> None:
    plant(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n"})
    plant(tmp_path, {"sub/.git/info/exclude": "*.tmp\n", "sub/.gitignore": "*.o\n", "sub/.git/config": ""})
    plant(tmp_path, dict.fromkeys(["a.log", "b.tmp", "sub/a.log", "sub/b.tmp", "sub/c.o", "sub/d/e.tmp"], ""))
    assert walked(tmp_path) == [".gitignore", "b.tmp", "sub/.gitignore", "sub/a.log"]


@pytest.mark.usefixtures("require_git")
def test_a_worktree_and_a_submodule_have_the_excludes_of_their_repositories(tmp_path: Path) -> None:
    main, tree, module = (tmp_path / name for name in ("main", "tree", "main/module"))
    for repository in (main, tmp_path / "library"):
        plant(repository, {"file.txt": "x"})
        git(repository, "init", "-q")
        git(repository, "add", ".")
        git(repository, "commit", "-qm", "first")
    git(main, "worktree", "add", "-q", str(tree))
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "library"), "module")
    plant(main / ".git", {"info/exclude": "*.main\n", "modules/module/info/exclude": "*.module\n"})
    for directory in (main, tree, module):
        plant(directory, {"a.main": "", "a.module": ""})
    assert walked(tree) == sorted(git_files(tree)) == ["a.module", "file.txt"]
    assert walked(module) == sorted(git_files(module)) == ["a.main", "file.txt"]
    assert walked(main) == [".gitmodules", "a.module", "file.txt", "module/a.main", "module/file.txt"]


@pytest.mark.parametrize("pointer", ["", "nonsense", "gitdir: ../missing", "gitdir: \0", "gitdir: /"])
def test_a_pointer_that_leads_nowhere_is_no_problem(tmp_path: Path, pointer: str) -> None:
    plant(tmp_path, {".git": pointer, "a": ""})
    assert list(walk(str(tmp_path))) == [None, str(tmp_path / "a")]


def test_what_version_control_keeps_for_itself_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {".git/x": "", ".hg/x": "", ".svn/x": "", "a/.jj/x": "", "b/.git": "gitdir: x", ".github/x": ""})
    assert walked(tmp_path) == [".github/x"]


# No way out, no way to hang


@posix_only
def test_links_are_not_followed_neither_out_nor_around(tmp_path: Path) -> None:
    plant(tmp_path, {"top/a": "", "top/d/b": "", "outside/key": ""})
    top = tmp_path / "top"
    (top / "out").symlink_to(tmp_path / "outside")
    (top / "key").symlink_to(tmp_path / "outside" / "key")
    (top / "d" / "up").symlink_to("..")
    (top / "loop").symlink_to("loop")
    (top / "again").symlink_to("a")
    assert walked(top) == ["a", "d/b"]


@posix_only
def test_an_ignore_file_that_is_a_link_is_not_read_but_reported(tmp_path: Path) -> None:
    plant(tmp_path, {"top/a": "", "rules": "a\n"})
    (tmp_path / "top" / ".gitignore").symlink_to(tmp_path / "rules")
    items = list(walk(str(tmp_path / "top")))
    assert paths(tmp_path, items) == ["top/a"]
    (skipped,) = [item for item in items if isinstance(item, Skipped)]
    assert skipped.path == str(tmp_path / "top" / ".gitignore")
    assert str(tmp_path) not in skipped.reason


@posix_only
def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        plant(tmp_path, {"file": "", ".gitignore/": ""})
        assert walked(tmp_path) == ["file"]


@posix_only
def test_an_ignore_file_that_is_a_pipe_does_not_hold_up_the_walk(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    plant(tmp_path, {"file": ""})
    items = list(walk(str(tmp_path)))
    assert paths(tmp_path, items) == ["file"]
    assert [item.reason for item in items if isinstance(item, Skipped)] == ["Not a regular file"]


def test_an_endless_ignore_file_is_reported_and_not_read(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "x\n" * 200_000, "x": "", "y/z": ""})
    items = list(walk(str(tmp_path)))
    assert paths(tmp_path, items) == [".gitignore", "x", "y/z"]
    assert [item.reason for item in items if isinstance(item, Skipped)] == ["Too large for an ignore file"]


@posix_only
def test_a_name_that_is_no_utf8_is_walked_and_may_be_ignored(tmp_path: Path) -> None:
    for name in (b"\xff.c", b"\xfe.c"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).touch()
    (tmp_path / ".gitignore").write_bytes(b"\xff.c\n")
    assert [os.fsencode(name) for name in walked(tmp_path)] == [b".gitignore", b"\xfe.c"]


# Lazily, and never fatally


def test_files_come_before_what_follows_is_looked_at_and_what_is_gone_by_then_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, {"a/x": "", "b/y": "", "c/z": ""})
    walking = walk(str(tmp_path))
    seen = [next(walking), next(walking), next(walking)]
    assert seen == [None, None, str(tmp_path / "a" / "x")]
    shutil.rmtree(tmp_path / "b")
    rest = list(walking)
    assert paths(tmp_path, rest) == ["c/z"]
    (skipped,) = [item for item in rest if isinstance(item, Skipped)]
    assert skipped.path == str(tmp_path / "b")
    assert str(tmp_path) not in skipped.reason


def test_a_top_that_is_missing_is_reported(tmp_path: Path) -> None:
    (item,) = walk(str(tmp_path / "missing"))
    assert isinstance(item, Skipped)


def test_something_is_yielded_for_each_directory_so_that_a_walk_without_files_can_stop(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n}/": "" for n in range(50)})
    assert list(walk(str(tmp_path))) == [None] * 51


def test_in_a_huge_directory_it_can_be_stopped_before_the_first_file(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n}": "" for n in range(3000)})
    walking = walk(str(tmp_path))
    assert [next(walking), next(walking), next(walking), next(walking)] == [None] * 4
    assert len(list(walking)) == 3000


@posix_only
def test_a_tree_deeper_than_a_path_may_be_long_ends_in_a_report(tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(50):
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
    finally:
        os.chdir(here)
    try:
        problems = [item for item in walk(str(tmp_path)) if isinstance(item, Skipped)]
        assert len(problems) == 1
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


# What a path stands for


def below(roots: Roots, path: str | None) -> list[str]:
    return [roots.display(item) for item in files_below(roots, path) if isinstance(item, str)]


def test_without_a_path_all_directories_are_walked_and_each_file_comes_once(tmp_path: Path) -> None:
    plant(tmp_path, {"cwd/.git/HEAD": "", "cwd/.gitignore": "vendor\n", "cwd/a": "", "cwd/vendor/v": "", "lib/l": ""})
    roots = Roots(tmp_path / "cwd", [tmp_path / "lib", tmp_path / "cwd" / "vendor", tmp_path / "cwd"])
    assert below(roots, None) == [".gitignore", "a", (tmp_path / "lib" / "l").as_posix(), "vendor/v"]
    roots = Roots(tmp_path, [tmp_path / "lib"])
    assert below(roots, None) == ["cwd/.gitignore", "cwd/a", "lib/l"]


def test_a_path_stands_for_a_file_or_for_what_is_below_it(tmp_path: Path) -> None:
    plant(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n", "d/a": "", "d/b.log": "", "e": ""})
    roots = Roots(tmp_path)
    assert below(roots, "d") == ["d/a"]
    assert below(roots, "d/b.log") == ["d/b.log"]


def test_a_path_to_nothing_or_out_is_refused(tmp_path: Path) -> None:
    roots = Roots(tmp_path)
    with pytest.raises(Refusal, match="No such file or directory: `nothing`"):
        list(files_below(roots, "nothing"))
    with pytest.raises(OutsideRoots):
        list(files_below(roots, ".."))

"""Confinement: no text that a user types leads out of the session's directories."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.apps.coder.roots import OutsideRoots, Refusal, Roots

from .trees import plant

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links and names as POSIX has them")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project beside things that are none of its business, with links of all kinds."""
    plant(
        tmp_path,
        {
            "project/a.txt": "a",
            "project/sub/b.txt": "b",
            "project-secrets/key": "secret",
            "shared/lib.py": "l",
            "outside/key": "secret",
        },
    )
    project = tmp_path / "project"
    (project / "link_in").symlink_to("sub")
    (project / "link_to_file").symlink_to("sub/b.txt")
    (project / "link_out").symlink_to("../outside")
    (project / "link_to_key").symlink_to(tmp_path / "outside" / "key")
    (project / "sub" / "link_up").symlink_to("../..")
    (project / "loop").symlink_to("loop")
    (project / "ping").symlink_to("pong")
    (project / "pong").symlink_to("ping")
    (project / "dangling_out").symlink_to("../outside/missing")
    (project / "dangling_in").symlink_to("missing")
    return project


@posix_only
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.txt", "a.txt"),
        ("./sub//b.txt", "sub/b.txt"),
        (".", "."),
        ("sub/", "sub"),
        ("sub/..", "."),
        ("sub/../a.txt", "a.txt"),
        ("link_in/b.txt", "sub/b.txt"),
        ("link_in/../a.txt", "a.txt"),
        ("link_to_file", "sub/b.txt"),
        ("missing/file", "missing/file"),
        ("dangling_in", "missing"),
        ("a.txt/below-a-file", "a.txt/below-a-file"),
        ("./~", "~"),
        ("with space ", "with space "),
        ("..a/...", "..a/..."),
    ],
)
def test_a_path_that_stays_inside_is_resolved(project: Path, text: str, expected: str) -> None:
    assert Roots(project).resolve(text) == project / expected


@posix_only
@pytest.mark.parametrize(
    "text",
    [
        "..",
        "../project-secrets/key",
        "../outside/key",
        "../outside/missing",
        "sub/../../outside/key",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        "link_out",
        "link_out/key",
        "link_out/missing",
        "link_out/../outside/key",
        "link_to_key",
        "dangling_out",
        "sub/link_up/outside/key",
        "link_in/link_up/outside",
        "missing/../../outside/key",
        "~",
        "~/key",
        "~root/key",
    ],
)
def test_a_path_that_leads_out_is_refused_and_the_message_names_only_what_was_typed(project: Path, text: str) -> None:
    with pytest.raises(OutsideRoots) as caught:
        Roots(project).resolve(text)
    assert text in str(caught.value)
    assert str(project.parent) not in str(caught.value).replace(text, "")


@posix_only
def test_whether_something_exists_outside_cannot_be_told_from_the_refusal(project: Path) -> None:
    messages: list[str] = []
    for name in ("key", "kex"):
        with pytest.raises(OutsideRoots) as caught:
            Roots(project).resolve(f"../outside/{name}")
        messages.append(str(caught.value).replace(name, "NAME"))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "NUL"),
        ("../\0", "NUL"),
        pytest.param("x" * 300, "too long", marks=posix_only),
        pytest.param("x/" * 4000, "too long", marks=posix_only),
        pytest.param("\ud800", "Not a path", marks=posix_only),
        pytest.param("loop", "form a loop", marks=posix_only),
        pytest.param("loop/../../outside", "form a loop", marks=posix_only),
        pytest.param("ping/x", "form a loop", marks=posix_only),
    ],
)
def test_what_no_system_could_open_is_refused(project: Path, text: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as caught:
        Roots(project).resolve(text)
    assert str(project) not in str(caught.value)
    str(caught.value).encode("utf-8")


def test_an_absolute_path_is_accepted_inside_every_directory(project: Path) -> None:
    shared = project.parent / "shared"
    roots = Roots(project, [shared])
    assert roots.resolve(str(project / "a.txt")) == project / "a.txt"
    assert roots.resolve(str(shared / "lib.py")) == shared / "lib.py"
    assert roots.resolve("../shared/lib.py") == shared / "lib.py"
    with pytest.raises(OutsideRoots):
        roots.resolve("../outside/key")


@posix_only
def test_a_link_from_one_directory_into_another_is_no_way_out(project: Path) -> None:
    shared = project.parent / "shared"
    (project / "library").symlink_to(shared)
    assert Roots(project, [shared]).resolve("library/lib.py") == shared / "lib.py"
    with pytest.raises(OutsideRoots):
        Roots(project).resolve("library/lib.py")


@posix_only
def test_a_directory_that_is_itself_a_link_keeps_the_name_that_the_client_knows(project: Path) -> None:
    named = project.parent / "named"
    named.symlink_to(project)
    roots = Roots(named)
    assert roots.cwd == str(named)
    assert roots.resolve("link_in/b.txt") == named / "sub/b.txt"
    assert roots.resolve(str(named / "a.txt")) == named / "a.txt"
    assert roots.resolve(str(project / "a.txt")) == named / "a.txt"
    with pytest.raises(OutsideRoots):
        roots.resolve("..")


def test_the_whole_file_system_may_be_the_directory(tmp_path: Path) -> None:
    roots = Roots(Path(tmp_path.anchor))
    assert roots.resolve(str(tmp_path)) == tmp_path.resolve()
    assert roots.resolve("..") == Path(tmp_path.anchor)


def test_each_directory_counts_once_in_the_given_order(project: Path) -> None:
    shared = project.parent / "shared"
    assert Roots(project, [shared, project, f"{shared}{os.sep}"]).directories == (str(project), str(shared))


@pytest.mark.parametrize("given", ["relative", ".", "", "a\0b", "/with\0nul", "~"])
def test_a_directory_that_is_not_absolute_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(Refusal, match="Not an absolute path"):
        Roots(given)
    with pytest.raises(Refusal, match="Not an absolute path"):
        Roots(tmp_path, [given])


def test_paths_are_shown_relative_to_the_working_directory_or_in_full(project: Path) -> None:
    shared = project.parent / "shared"
    roots = Roots(project, [shared])
    assert roots.display(project / "sub" / "b.txt") == "sub/b.txt"
    assert roots.display(project) == "."
    assert roots.display(shared / "lib.py") == (shared / "lib.py").as_posix()
    assert roots.display(project.parent / "project-secrets") == (project.parent / "project-secrets").as_posix()


@posix_only
def test_a_name_that_is_no_utf8_is_shown_as_valid_text(project: Path) -> None:
    assert Roots(project).display(os.fsdecode(os.fsencode(project) + b"/\xff\n")) == r"\udcff\n"


# Any text at all


@pytest.fixture(scope="module")
def maze() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        maze = plant(
            Path(name).resolve(), {"in/d/e/f": "1", "in/g": "2", "inner/g": "3", "out/d/g": "4", "more/g": "5"}
        )
        for place in ("in", "in/d", "in/d/e", "out/d"):
            for link, target in {"in": "in", "out": "out", "up": "in/..", "d2": "in/d", "abs_more": "more"}.items():
                (maze / place / f"l_{link}").symlink_to(maze / target)
            (maze / place / "l_rel").symlink_to("..")
            (maze / place / "l_loop").symlink_to("l_loop")
        yield maze


NAMES = ["..", "..", ".", "", "d", "e", "f", "g", "in", "inner", "out", "more", "nothing", "~"]
LINKS = [f"l_{name}" for name in ("in", "out", "up", "d2", "abs_more", "rel", "loop")]
TEXTS = st.one_of(
    st.lists(st.sampled_from(NAMES + LINKS), max_size=8).map("/".join),
    st.lists(st.sampled_from(NAMES + LINKS), max_size=6).map(lambda parts: "MAZE/" + "/".join(parts)),
    st.text(max_size=20),
)


@posix_only
@given(TEXTS)
def test_whatever_is_typed_is_refused_or_is_what_the_system_would_open_inside(maze: Path, text: str) -> None:
    text = text.replace("MAZE", str(maze))
    roots = Roots(maze / "in", [maze / "more"])
    path, message = _resolved(roots, text)
    typed = maze / "in" / text
    if path is None:
        assert str(maze) not in message.replace(text, "")
        if text.strip() and not text.startswith("~") and _opens(typed):
            assert not any(Path(os.path.realpath(typed)).is_relative_to(maze / root) for root in ("in", "more"))
        return
    assert Path(os.path.realpath(path)) == path, "a link is left in it"
    assert path.is_relative_to(maze / "in") or path.is_relative_to(maze / "more")
    # (`missing/..` is the directory to us and nothing to the system.)
    if _opens(typed):
        assert path.samefile(typed)


def _resolved(roots: Roots, text: str) -> tuple[Path | None, str]:
    try:
        return roots.resolve(text), ""
    except Refusal as refusal:
        return None, str(refusal)


def _opens(path: Path) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True

"""The way to a file: what is seen on it, and what is done at its end. What a swapped folder can do is tried in
`tests/apps/coder/test_swapped.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_server import paths
from acp_server.paths import Place, is_same, way_to

PORTABLE = pytest.mark.parametrize("relative", [True, False], ids=["relative to the folder", "by path"])
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links that anybody may make")


@pytest.fixture(autouse=True)
def relative(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without operations relative to an open folder."""
    if hasattr(request.node, "callspec") and not request.node.callspec.params.get("relative", True):
        monkeypatch.setattr(paths, "_RELATIVE", False)
        monkeypatch.setattr(paths, "_SEARCHED", None)


@PORTABLE
def test_a_way_with_a_link_on_it_is_not_walked(tmp_path: Path, relative: bool) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(NotADirectoryError), way_to(Place(str(tmp_path), "link/file")):
        pass


@PORTABLE
def test_another_folder_of_the_same_name_is_not_the_same_and_a_new_one_where_there_was_none_is(
    tmp_path: Path, relative: bool
) -> None:
    (tmp_path / "a").mkdir()
    place = Place(str(tmp_path), "a/b/file")
    with way_to(place) as way:
        before = way.seen
    assert before[-2:] == (None, None)
    (tmp_path / "a" / "b").mkdir()
    with way_to(place) as way:
        assert is_same(before, way.seen)
    (tmp_path / "a" / "b" / "file").write_text("")
    with way_to(place) as way:
        assert not is_same(before, way.seen)
        assert is_same(way.seen, way.seen)
    (tmp_path / "a").rename(tmp_path / "other")
    (tmp_path / "a").mkdir()
    with way_to(place) as way:
        assert not is_same(before, way.seen)


@PORTABLE
def test_folders_are_made_and_those_alone_are_removed_again(tmp_path: Path, relative: bool) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(NotADirectoryError), way_to(Place(str(tmp_path), "a/b/c/file")) as way, way.folders_made():
        os.rmdir(tmp_path / "a" / "b" / "c" / "file" if not (tmp_path / "a" / "b" / "c").is_dir() else __file__)
    assert os.listdir(tmp_path / "a") == []
    with way_to(Place(str(tmp_path), "a/b/c/file")) as way, way.folders_made():
        os.close(way.open(os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "a" / "b" / "c" / "file").is_file()


@PORTABLE
def test_more_new_folders_than_can_be_held_open_are_refused(tmp_path: Path, relative: bool) -> None:
    place = Place(str(tmp_path), "x/" * 100 + "file")
    with way_to(place) as way, pytest.raises(OSError, match="Too many new folders"), way.folders_made():
        pass
    assert os.listdir(tmp_path) == []


@PORTABLE
def test_a_folder_that_is_closed_is_not_reached_by_its_path(tmp_path: Path, relative: bool) -> None:
    with way_to(Place(str(tmp_path), "file")) as way:
        pass
    if relative:
        with pytest.raises(OSError, match="Bad file descriptor"):
            way.open(os.O_WRONLY | os.O_CREAT)


def test_the_folder_itself_is_not_a_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), way_to(Place(str(tmp_path), "")):
        pass


def test_standard_output_is_written_to_by_its_name_and_a_link_elsewhere_is_not(tmp_path: Path) -> None:
    program = (
        "import os, sys; from acp_server.paths import open_private; "
        "os.write(open_private(sys.argv[1], os.O_TRUNC), b'text')"
    )
    link = tmp_path / "link"
    link.symlink_to("/dev/stdout")
    for path, written in (("/dev/stdout", b"text"), ("/dev/fd/1", b"text"), (str(link), b"")):
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, timeout=50, check=False)
        assert done.stdout == written, done.stderr
        assert (done.returncode == 0) == bool(written)

"""A text on disk is replaced all at once or not at all, and nothing else is left behind."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from acp_server.apps.coder import change, read
from acp_server.apps.coder.roots import Refusal
from acp_server.paths import Place, way_to

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and signals as POSIX has them")
NAMED = pytest.mark.parametrize("named", [False, True], ids=["without a name", "named"])


def found(path: Path) -> Place:
    """The place of a file as it is found when a change is planned."""
    root = path.parent
    while not root.is_dir():
        root = root.parent
    place = Place(os.path.realpath(root), str(path.relative_to(root)))
    with way_to(place) as way:
        return place._replace(seen=way.seen)


def at_once(change: object) -> None:
    assert callable(change)
    change()


def never(_change: object) -> None:
    pass


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"old\r\n")
    return path


@pytest.fixture
def named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system, or a system, where a file cannot be without a name."""
    if getattr(request, "param", False):
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


def whole(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@NAMED
@pytest.mark.usefixtures("named")
def test_a_file_is_replaced_with_its_mode(file: Path, named: bool) -> None:
    file.chmod(0o751)
    change.replace_text(found(file), "old\r\n", "new\r\n", at_once)
    assert whole(file.parent) == {"a.txt": b"new\r\n"}
    assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o751


@NAMED
@POSIX
@pytest.mark.usefixtures("named")
def test_a_new_file_has_the_mode_of_new_files_and_its_folders_are_made(tmp_path: Path, named: bool) -> None:
    (tmp_path / "like").write_text("")
    change.replace_text(found(tmp_path / "b" / "c" / "new.txt"), None, "ä\n", at_once)
    made = tmp_path / "b" / "c" / "new.txt"
    assert made.read_bytes() == "ä\n".encode()
    assert made.stat().st_mode == (tmp_path / "like").stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["b", "like"]
    assert os.listdir(tmp_path / "b" / "c") == ["new.txt"]


@NAMED
@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("old", ["old\r\n", None])
def test_what_is_not_to_be_done_any_more_leaves_nothing_behind(file: Path, named: bool, old: str | None) -> None:
    path = file if old else file.parent / "new" / "b.txt"
    change.replace_text(found(path), old, "new", never)
    assert whole(file.parent) == {"a.txt": b"old\r\n"}


@NAMED
@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("now", [b"old\n", b"", b"\xff", None])
def test_a_file_that_is_not_what_it_was_stays_as_it_is(file: Path, named: bool, now: bytes | None) -> None:
    place = found(file)
    if now is None:
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(now)
    with pytest.raises(change.Changed):
        change.replace_text(place, "old\r\n", "new", at_once)
    assert os.listdir(file.parent) == ["a.txt"]
    assert now is None or file.read_bytes() == now


@NAMED
@pytest.mark.usefixtures("named")
def test_a_file_that_has_come_into_being_meanwhile_is_not_replaced(file: Path, named: bool) -> None:
    with pytest.raises(change.Changed):
        change.replace_text(found(file), None, "new", at_once)

    def made_in_the_last_moment(change: object) -> None:
        (file.parent / "b.txt").write_text("theirs")
        at_once(change)

    with pytest.raises(change.Changed):
        change.replace_text(found(file.parent / "b.txt"), None, "ours", made_in_the_last_moment)
    assert whole(file.parent) == {"a.txt": b"old\r\n", "b.txt": b"theirs"}


@NAMED
@pytest.mark.usefixtures("named")
def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(
    file: Path, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        change.replace_text(found(file), "old\r\n", "new", at_once)
    with pytest.raises(UnicodeEncodeError):
        change.replace_text(found(file), "old\r\n", "\ud800", at_once)
    assert whole(file.parent) == {"a.txt": b"old\r\n"}


@POSIX
def test_a_file_that_may_not_be_written_is_not_replaced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(PermissionError):
        change.replace_text(found(file), "old\r\n", "new", at_once)
    assert whole(file.parent) == {"a.txt": b"old\r\n"}


KILLED = """
import os, signal, sys
from acp_server.paths import Place, way_to
from acp_server.apps.coder import change
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], die)
place = Place(os.path.dirname(sys.argv[1]), os.path.basename(sys.argv[1]))
with way_to(place) as way:
    place = place._replace(seen=way.seen)
change.replace_text(place, "old\\r\\n", "new" * 100000, lambda change: change())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="files without a name are Linux's")
@pytest.mark.parametrize("at", ["fsync", "fchmod", "link"])
def test_a_process_that_is_killed_while_it_writes_leaves_nothing_behind(file: Path, at: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(file), at], timeout=30)
    assert done.returncode == -signal.SIGKILL
    assert whole(file.parent) == {"a.txt": b"old\r\n"}


def test_a_text_is_read_as_it_is_and_what_is_none_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read.read_text(found(file), "a") == "old\r\n"
    assert read.read_text(found(tmp_path / "missing"), "a") is None
    (tmp_path / "bin").write_bytes(b"a\0b")
    (tmp_path / "latin").write_bytes(b"\xe4")
    for name, why in [
        ("bin", "The file is binary"),
        ("bin/below", "Not a directory"),
        ("latin", "The file is not UTF-8 text"),
    ]:
        with pytest.raises(Refusal, match=f"^{why}: `x`$"):
            read.read_text(Place(str(tmp_path), name), "`x`")
    monkeypatch.setattr(read, "MOST_BYTES", 4)
    with pytest.raises(Refusal, match="The file is larger than"):
        read.read_text(found(file), "a")


@POSIX
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refusal, match="Not a regular file: `x`"):
        read.read_text(found(tmp_path / "pipe"), "`x`")


@POSIX
def test_the_text_of_a_secret_file_is_in_no_file_that_others_may_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    file.chmod(0o600)
    seen: list[int] = []
    fsync, fchmod = os.fsync, os.fchmod

    def look(*_: object) -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir())

    monkeypatch.setattr(os, "fchmod", lambda *given: (look(), fchmod(*given)))
    monkeypatch.setattr(os, "fsync", lambda *given: (look(), fsync(*given)))
    change.replace_text(found(file), "old\r\n", "secret", at_once)
    assert set(seen) == {0o600}
    assert len(seen) == 4

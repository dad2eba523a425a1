"""What is made of a recording is as secret as that."""

import sys
from pathlib import Path

import pytest

from acp_server.apps.cli import main


@pytest.mark.skipif(sys.platform == "win32", reason="rights as POSIX has them")
@pytest.mark.parametrize(
    ("secret", "before", "after"), [(0o600, None, 0o600), (0o600, 0o644, 0o600), (0o644, None, 0o644)]
)
@pytest.mark.parametrize("option", ["--html", "--svg"])
def test_what_is_made_of_a_recording_is_as_secret(
    tmp_path: Path, option: str, secret: int, before: int | None, after: int
) -> None:
    recording, made = tmp_path / "recording", tmp_path / "made"
    recording.write_text('{"t":1,"dir":"in","msg":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}}\n')
    recording.chmod(secret)
    if before is not None:
        made.write_text("old" * 100_000)
        made.chmod(before)
    assert main(["trace", str(recording), option, str(made)]) == 0
    assert made.stat().st_mode & 0o777 == after
    assert "oldold" not in made.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="links as POSIX has them")
def test_a_link_in_the_place_of_a_page_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "recording").write_text('{"t":1,"dir":"in","msg":{"jsonrpc":"2.0","id":1,"method":"x"}}\n')
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "made").symlink_to(tmp_path / "theirs")
    assert main(["trace", str(tmp_path / "recording"), "--html", str(tmp_path / "made")]) != 0
    assert (tmp_path / "theirs").read_text() == "theirs"

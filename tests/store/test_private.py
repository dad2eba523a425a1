"""Files that others than their owner may read."""

import os
import stat
from pathlib import Path

import pytest

from acp_server.store import lax_rights, tighten


@pytest.mark.parametrize(
    ("mode", "said"), [(0o644, "644"), (0o620, "620"), (0o601, "601"), (0o600, None), (0o400, None)]
)
def test_what_others_may_do_counts(mode: int, said: str | None, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.chmod(file, mode)
    assert lax_rights(file) == said
    tighten(file)
    assert stat.S_IMODE(file.stat().st_mode) == mode & 0o700


def test_devices_and_folders_are_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o666)
    assert [lax_rights(file) for file in (os.devnull, tmp_path, tmp_path / "fifo")] == [None, None, None]

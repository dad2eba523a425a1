"""Projects on disk for the agents to work on."""

import os
from pathlib import Path

import pytest

NEEDLE = "needle in a haystack"
_LINES, _FILES = 2_000, 2_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project: one hit for `NEEDLE`, in the second line of `src/app.py`."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(f"def main():\n    return '{NEEDLE}'\n")
    (tmp_path / "notes.txt").write_text("first line\nsecond line\n")
    return tmp_path


@pytest.fixture(scope="session")
def vast_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four million hits for `NEEDLE`: whoever cancels a search at its first hit cancels it in the middle.

    All files are one file under many names, so that it is vast to read and quick to make.
    """
    root = tmp_path_factory.mktemp("vast")
    original = root / "file0000.txt"
    original.write_text("".join(f"line {number}: {NEEDLE}\n" for number in range(_LINES)))
    for number in range(1, _FILES):
        os.link(original, root / f"file{number:04}.txt")
    return root

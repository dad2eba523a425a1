"""Projects on disk for the agents to work on, and what a search in the vast one leaves behind."""

import os
import re
from pathlib import Path

NEEDLE = "needle"
_LINES, _FILES = 2_000, 2_000


def make_small(root: Path) -> None:
    """One hit for `NEEDLE`, in the second line of `src/app.py`."""
    (root / "src").mkdir()
    (root / "src" / "app.py").write_text(f"def main():\n    return '{NEEDLE}'\n")
    (root / "notes.txt").write_text("first line\nsecond line\n")


def make_vast(root: Path) -> None:
    """Four million hits for `NEEDLE`: whoever cancels a search at its first hit cancels it in the middle.

    All files are one file under many names, so that it is vast to read and quick to make.
    """
    original = root / "file0000.txt"
    original.write_text("".join(f"line {number}: {NEEDLE}\n" for number in range(_LINES)))
    for number in range(1, _FILES):
        os.link(original, root / f"file{number:04}.txt")


def assert_partial(said: str) -> None:
    """What a search in the vast project showed before it was cancelled: some hits, and that these are not all."""
    shown = len(re.findall(rf"^file\d+\.txt:\d+:.*{NEEDLE}$", said, re.MULTILINE))
    claimed = re.search(r"^Partial results: ([\d,]+) hits?\b", said, re.MULTILINE)
    assert claimed is not None, said[-500:]
    assert 0 < shown == int(claimed[1].replace(",", "")) < _LINES * _FILES

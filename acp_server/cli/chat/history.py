"""The file in which the lines are that the user has typed: the user's own, and bounded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

LARGEST: Final = 1 << 20
"""Bytes; of a larger file the later half is kept."""


def history_file() -> Path | None:
    """The file, made if need be, readable by its owner only. None if there can be none."""
    from platformdirs import user_state_path

    path = user_state_path("acp-server", appauthor=False) / "chat_history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        if path.stat().st_size > LARGEST:
            _shorten(path)
    except OSError:
        return None
    return path


def _shorten(path: Path) -> None:
    # An entry begins with an empty line and a comment that says when.
    rest = path.read_bytes()[-LARGEST // 2 :]
    path.write_bytes(rest[max(0, rest.find(b"\n\n#")) :])

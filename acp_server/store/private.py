"""Who may read a file that keeps what users and agents have said: its owner alone.

New files are made so where they are opened. This is for those that were there already.
"""

from __future__ import annotations

import os
import stat
from typing import Final

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def lax_rights(file: int | str | os.PathLike[str]) -> str | None:
    """The mode of a file that others than its owner may read or write, in octal digits, as `chmod` has it. None for all
    other files, for what is not an ordinary file, and where files have no such modes (Windows). Raises OSError."""
    status = os.stat(file)
    if os.name == "nt" or not stat.S_ISREG(status.st_mode) or not status.st_mode & _OTHERS:
        return None
    return f"{stat.S_IMODE(status.st_mode):o}"


def tighten(path: str | os.PathLike[str]) -> None:
    """Take the rights of all but the owner away. Raises OSError, as a rule because the file is another user's."""
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~_OTHERS)

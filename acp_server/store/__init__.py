"""What is kept of sessions between connections: the records, a store in memory, a store in a SQLite file.

How it works:

- A session is a `SessionRecord` with a `TurnRecord` for each turn (`records`). It is the live object: a turn writes
  into its own record while it runs.
- What is said becomes JSON once, when it is said (`transcript`), and stays in that form. So neither the end of a turn
  nor a save has to encode it again. What a model or a client that replays it gets of that is in `history`.
- A store has four methods (`session_store`): save, load, list, delete. A save may be done at once, or awaited.
  `TurnJournal` is for a store that keeps a turn from its beginning, in case the program dies.
- `SqliteStore` (`sqlite_store`) works in a thread on one file that several programs share. The statements are in
  `sqlite_tables`, what is in a row in `encoding`, and what all our files have in common in `sqlite_file`.
- What is written has a version, and every later version of this package reads it.

A store keeps and finds. What becomes of a session is the matter of `acp_server.session`.

Here: who may read a file that keeps what users and agents have said, its owner alone. New files are made so where they
are opened. This is for those that were there already.
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

"""Stored sessions: the records, a store in memory, and a store in a SQLite file.

How it works:

- A session is a `SessionRecord` with a `TurnRecord` for each turn (`records`). The record is the live object: a running
  turn writes into its `TurnRecord`.
- An update is encoded as JSON once, when it is sent (`transcript`), and stays JSON. Neither the end of a turn nor a
  save encodes it again. `history` turns the JSON into messages for a model and updates for a replay.
- A store has four methods (`session_store`): save, load, list, delete. `save` may be synchronous or return an
  awaitable. A `TurnJournal` also stores a turn when it begins, so that the turn is not lost if the program dies.
- `SqliteStore` (`sqlite_store`) works in a thread on one file that several programs share. The statements are in
  `sqlite_tables`, the content of a row in `encoding`, and the rules for every SQLite file in `sqlite_file`.
- The stored format has a version, and every later version of this package reads it.

A store only saves and finds sessions. `acp_server.session` decides when a session is saved, replayed or forked.

The functions of this module check and restrict permissions of existing files, because only its owner may read a file
with conversations. New files are created with such permissions.
"""

from __future__ import annotations

import os
import stat
from typing import Final

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def lax_rights(file: int | str | os.PathLike[str]) -> str | None:
    """Return the permissions of a file that its group or others may access, in octal digits as for `chmod`. Return None
    if only the owner may access the file, if it is not an ordinary file, and on Windows. Raises OSError."""
    status = os.stat(file)
    if os.name == "nt" or not stat.S_ISREG(status.st_mode) or not status.st_mode & _OTHERS:
        return None
    return f"{stat.S_IMODE(status.st_mode):o}"


def tighten(path: str | os.PathLike[str]) -> None:
    """Remove all permissions of the group and of others. Raises OSError, usually because the file belongs to another
    user."""
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~_OTHERS)

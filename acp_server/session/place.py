"""Gives each working directory one name, so that the sessions of one folder are found under each spelling of its path.

The name of an existing folder is its real path. The name of a missing folder is the normalized path. A path is resolved
when a session is opened in the folder or when the path is first looked up, and not for each list of sessions.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Final

from anyio import to_thread

_MOST: Final = 1_000
"""The most paths in the cache."""

_known: OrderedDict[str, str] = OrderedDict()


async def place_of(cwd: str, *, anew: bool = False) -> str:
    """Return the name of the directory. `anew`: resolve the path even if it is in the cache."""
    if anew or cwd not in _known:
        # A worker thread, because the path may be on a disk that hangs.
        _known[cwd] = await to_thread.run_sync(_place, cwd, abandon_on_cancel=True)
        while len(_known) > _MOST:
            _known.popitem(last=False)
    return _known[cwd]


def _place(cwd: str) -> str:
    try:
        if os.path.isdir(cwd):
            return os.path.realpath(cwd)
    except (OSError, ValueError):
        pass
    plain = os.path.normpath(cwd)
    # `normpath` keeps two leading slashes, which POSIX lets a system interpret; no supported system does.
    return f"/{plain.lstrip('/')}" if plain.startswith("//") else plain

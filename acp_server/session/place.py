"""One name for each working directory, so that sessions of one folder are found however a client spells it.

Where the folder exists that is the real path. Else it is the path without what does not change where it leads. A path
is looked at when a session is opened in it, or when it is first asked about, and not at each list of sessions.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Final

from anyio import to_thread

_MOST: Final = 1_000
"""Paths that are remembered."""

_known: OrderedDict[str, str] = OrderedDict()


async def place_of(cwd: str, *, anew: bool = False) -> str:
    """The name of the directory. `anew`: look at it, whatever is remembered."""
    if anew or cwd not in _known:
        # It may be on a disk that hangs.
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
    # Two slashes at the beginning stay, for POSIX lets a system give them a meaning; none that is served here does.
    return f"/{plain.lstrip('/')}" if plain.startswith("//") else plain

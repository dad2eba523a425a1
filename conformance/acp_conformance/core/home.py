"""Gives the subject an empty home, so that a run does not fill the sessions, the settings and the caches of its
user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}


@contextmanager
def home(*, own: bool) -> Iterator[Mapping[str, str]]:
    """Yield the variables for an empty home, which is removed at the end. If no home is requested, yield no
    variables."""
    if not own:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="acp-conformance-home-", ignore_cleanup_errors=True) as folder:
        variables = {"HOME": folder, "USERPROFILE": folder}
        for name, below in _FOLDERS.items():
            path = Path(folder, below)
            path.mkdir(parents=True)
            variables[name] = str(path)
        yield variables

"""Gives the subject an empty home directory, so that a run does not write to the user's sessions, settings and
caches."""

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
    """Yield the environment variables for an empty home directory, which is removed at the end. Without a request for
    such a directory, yield no variables."""
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

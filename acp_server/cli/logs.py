"""Where the log goes: to a file, or to standard error, never to standard output."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from acp_server.agent.log import LogHandler
from acp_server.agent.log_stream import LogStream, standard_error
from acp_server.errors import UsageError

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DEFAULT_LEVEL: Final = "warning"


def configure(level: str, file: Path | None) -> None:
    """Send what is worth at least `level` to `file`, and errors to standard error as well; or, without a file, all of
    it to standard error. A new file can be read by its owner only; an existing one is continued. Raises UsageError if
    it cannot be opened."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.addHandler(LogHandler(standard_error(), logging.NOTSET if file is None else logging.ERROR))
    if file is not None:
        root.addHandler(LogHandler(LogStream(_opened(file))))


def _opened(file: Path) -> int:
    try:
        # As a recording: what is in it is for the user alone.
        return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise UsageError(f"cannot log to {file}: {error.strerror}") from None

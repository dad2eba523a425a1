"""Where the log goes: to a file, or to standard error, never to standard output."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from acp_server.agent.log import LogHandler, LogStream, standard_error
from acp_server.errors import UsageError
from acp_server.store.private import lax_rights

logger = logging.getLogger("acp_server.cli")

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DEFAULT_LEVEL: Final = "warning"


def configure(level: str, file: Path | None) -> None:
    """Send what is worth at least `level` to `file`, and errors to standard error as well; or, without a file, all of
    it to standard error. A new file can be read by its owner only; an existing one is continued, and it is logged if
    others may read it. Raises UsageError if it cannot be opened."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.addHandler(LogHandler(standard_error(), logging.NOTSET if file is None else logging.ERROR))
    if file is not None:
        fd = _opened(file)
        root.addHandler(LogHandler(LogStream(fd)))
        if (mode := lax_rights(fd)) is not None:
            # They may be meant so: it is the user who has named this file.
            logger.warning("others may read the log: %s has the rights %s", file, mode)


def _opened(file: Path) -> int:
    try:
        # As a recording: what is in it is for the user alone.
        return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise UsageError(f"cannot log to {file}: {error.strerror}") from None

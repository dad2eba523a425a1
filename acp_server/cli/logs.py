"""Where the log goes: to a file, or to standard error, never to standard output."""

from __future__ import annotations

import logging
import os
import select
from pathlib import Path
from typing import Final

from acp_server.errors import UsageError

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DEFAULT_LEVEL: Final = "warning"

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_AT_ONCE: Final = 512
"""Bytes that a pipe takes without blocking once it says that it is ready (POSIX, PIPE_BUF)."""


def configure(level: str, file: Path | None) -> None:
    """Send what is worth at least `level` to `file`, and errors to standard error as well; or, without a file, all of
    it to standard error. A new file can be read by its owner only; an existing one is continued. Raises UsageError if
    it cannot be opened."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    formatter = logging.Formatter(_FORMAT)
    stderr = StderrHandler() if hasattr(select, "poll") else logging.StreamHandler()
    handlers: list[logging.Handler] = [stderr]
    if file is not None:
        try:
            # As a recording: what is in it is for the user alone.
            os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
            handlers.append(logging.FileHandler(file, encoding="utf-8", errors="backslashreplace"))
        except OSError as error:
            raise UsageError(f"cannot log to {file}: {error.strerror}") from None
        stderr.setLevel(logging.ERROR)
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)


class StderrHandler(logging.Handler):
    """Writes to standard error, but never waits for whoever should read it: some clients open a pipe and do not.

    What finds no room is lost, and its number is said as soon as there is room again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        try:
            line = self.format(record) + "\n"
            if self._lost:
                line = f"({self._lost} log entries were lost, for nobody read them)\n{line}"
            data = line.encode("utf-8", "backslashreplace")
            while data and self._has_room():
                data = data[os.write(2, data[:_AT_ONCE]) :]
            self._lost = self._lost + 1 if data else 0
        except OSError:
            # Nobody is there to be told, least of all about that.
            self._lost += 1
        except Exception:
            self.handleError(record)

    def _has_room(self) -> bool:
        return bool(self._poll.poll(0))

"""Standard output that takes nothing more: a run goes on without it, to its verdicts and the reports in files.

A reader that has seen enough closes its pipe, as `head` does, and a disk may be full. Files that a command opens by
itself are not looked after here.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_GONE = {errno.EPIPE} | ({errno.EINVAL} if sys.platform == "win32" else set[int]())


class Output:
    """A stream whose first failure is kept in `failure`; what comes behind it is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self.failure: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it, if the stream takes it."""
        if self.failure is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, if the stream takes it."""
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        self.failure = error
        try:
            # What could not be written is still in a buffer. At its end Python would try again, and complain.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass  # not a file of the system's


@contextmanager
def outlived() -> Generator[None]:
    """A block that does not notice if standard output takes nothing more.

    Behind it the program ends with 2 if there was no room, which is said. A reader that has gone is nothing to be told
    of, and changes no exit code.
    """
    before = sys.stdout
    # There is no object if the descriptor was closed when Python started.
    output = Output(before or io.StringIO())
    sys.stdout = cast("TextIO", output)
    try:
        yield
    finally:
        output.flush()
        sys.stdout = before
        if output.failure is not None and output.failure.errno not in _GONE:
            sys.stderr.write(f"acp-conformance: cannot write: {output.failure.strerror}\n")
            sys.exit(2)

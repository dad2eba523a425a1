"""Lets a run continue when standard output is closed or full, so that it still writes its reports to files.

A reader may close its pipe early, as `head` does, and a disk may be full. Files that a command opens itself are not
handled here.
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
    """A stream that keeps its first failure in `failure`, and drops all later writes."""

    def __init__(self, stream: TextIO) -> None:
        self.failure: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, unless a write has failed."""
        if self.failure is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Flush the written text, unless a write has failed."""
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
            # Data that could not be written is still in a buffer. At its end Python would try again, and complain.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass  # not a file of the system


@contextmanager
def outlived() -> Generator[None]:
    """Enter a block that continues although standard output can no longer be written.

    If the disk was full, the program prints an error after the block, and its exit code is 2. A reader that closed its
    pipe is not reported, and does not change the exit code.
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
